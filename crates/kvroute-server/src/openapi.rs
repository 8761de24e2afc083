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

    #[test]
    fn it_says_which_version_it_describes() {
        assert_eq!(document()["info"]["version"], env!("CARGO_PKG_VERSION"));
    }
}
