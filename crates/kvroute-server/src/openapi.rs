//! `GET /openapi.json`: what both planes serve, for tools that make clients and tests of it.

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

/// The document. It is a file of its own so that it can be read, and compared, without this program.
pub(crate) const DOCUMENT: &str = include_str!("openapi.json");

/// The document as it is.
pub(crate) async fn read() -> Response {
    ([(CONTENT_TYPE, "application/json")], DOCUMENT).into_response()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use kvroute_openai::Endpoint;
    use serde_json::Value;

    use super::*;

    fn document() -> Value {
        serde_json::from_str(DOCUMENT).unwrap()
    }

    /// Everything in the document that refers to another part of it.
    fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
        match value {
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str));
                members.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn every_endpoint_is_described_and_every_reference_leads_somewhere() {
        let document = document();
        for endpoint in Endpoint::ALL {
            let described = &document["paths"][endpoint.path()]["post"]["operationId"];
            assert_eq!(described, endpoint.label(), "{}", endpoint.path());
        }
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        assert!(found.len() > 20, "{found:?}");
        for reference in found {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }

    /// The members that a schema requires, or each of its alternatives; empty where one of them requires none.
    fn requires(document: &Value, schema: &Value) -> BTreeSet<String> {
        if let Some(reference) = schema["$ref"].as_str() {
            return requires(document, document.pointer(reference.strip_prefix('#').unwrap()).unwrap());
        }
        let named = |schema: &Value| -> BTreeSet<String> {
            let names = schema["required"].as_array().into_iter().flatten();
            names.map(|name| name.as_str().unwrap().to_owned()).collect()
        };
        let Some(shapes) = schema["anyOf"].as_array() else { return named(schema) };
        let each: Vec<_> = shapes.iter().map(|shape| requires(document, shape)).collect();
        if each.iter().any(BTreeSet::is_empty) {
            BTreeSet::new()
        } else {
            each.into_iter().flatten().collect()
        }
    }

    #[test]
    fn every_error_has_a_shape_that_requires_members() {
        let document = document();
        let mut errors = 0;
        for (path, operations) in document["paths"].as_object().unwrap() {
            for (status, response) in operations
                .as_object()
                .unwrap()
                .values()
                .flat_map(|operation| operation["responses"].as_object().unwrap())
            {
                // Heads that are too large are answered by the HTTP library, without a body.
                if !status.starts_with(['4', '5']) || status == "431" {
                    continue;
                }
                let response = match response["$ref"].as_str() {
                    Some(reference) => document.pointer(reference.strip_prefix('#').unwrap()).unwrap(),
                    None => response,
                };
                let schema = &response["content"]["application/json"]["schema"];
                assert!(!requires(&document, schema).is_empty(), "{path} {status} may be anything");
                errors += 1;
            }
        }
        assert!(errors > 50, "{errors} errors are described");
        let own = &document["components"]["schemas"]["Error"]["properties"]["error"];
        assert_eq!(requires(&document, own).len(), 4);
    }

    #[test]
    fn it_says_which_version_it_describes() {
        assert_eq!(document()["info"]["version"], env!("CARGO_PKG_VERSION"));
    }
}
