//! What is asked of `POST /api/route`.

use std::collections::BTreeMap;

use bytes::Bytes;
use kvroute_openai::Endpoint;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::failure::Failure;

/// A request to be explained; its body stays as it is written.
#[derive(Debug, Serialize)]
pub(crate) struct Question<'a> {
    endpoint: &'static str,
    body: &'a RawValue,
    headers: BTreeMap<&'a str, &'a str>,
}

/// The fields that tell a chat from a completion.
#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt: Option<&'a RawValue>,
}

// === impl Question ===

impl<'a> Question<'a> {
    /// Of a bare request body.
    pub(crate) fn new(
        body: &'a [u8],
        endpoint: Option<Endpoint>,
        headers: &'a [(String, String)],
    ) -> Result<Self, Failure> {
        let unreadable = |error| Failure::Usage(format!("the request is not JSON: {error}"));
        let raw: &RawValue = serde_json::from_slice(body).map_err(unreadable)?;
        let endpoint = endpoint.map_or_else(|| endpoint_of(raw), Ok)?;
        let headers = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        Ok(Self { endpoint: endpoint.path(), body: raw, headers })
    }

    /// The body of the question itself.
    pub(crate) fn to_json(&self) -> Result<Bytes, Failure> {
        let json = serde_json::to_vec(self);
        json.map(Bytes::from).map_err(|error| Failure::while_doing("cannot write the question", error))
    }
}

fn endpoint_of(body: &RawValue) -> Result<Endpoint, Failure> {
    let fields: Fields<'_> = serde_json::from_str(body.get()).map_err(|error| {
        Failure::Usage(format!("the request is no body of a chat or completions request: {error}"))
    })?;
    match (fields.messages, fields.prompt) {
        (Some(_), None) => Ok(Endpoint::ChatCompletions),
        (None, Some(_)) => Ok(Endpoint::Completions),
        (both, _) => {
            let which =
                if both.is_some() { "both messages and prompt" } else { "neither messages nor prompt" };
            Err(Failure::Usage(format!(
                "the request has {which}; say where it would be sent with --endpoint"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(body: &str, endpoint: Option<Endpoint>) -> Result<String, String> {
        let headers = [("x-session-id".to_owned(), "a=b".to_owned())];
        let question =
            Question::new(body.as_bytes(), endpoint, &headers).map_err(|error| error.to_string())?;
        Ok(String::from_utf8(question.to_json().unwrap().to_vec()).unwrap())
    }

    #[test]
    fn the_body_tells_where_it_would_be_sent_and_stays_as_it_is_written() {
        assert_eq!(
            asked(r#"{"messages": [], "n": 1.0}"#, None).unwrap(),
            r#"{"endpoint":"/v1/chat/completions","body":{"messages": [], "n": 1.0},"headers":{"x-session-id":"a=b"}}"#
        );
        assert!(asked(r#"{"prompt": "a"}"#, None).unwrap().contains("\"/v1/completions\""));
        let told = asked(r#"{"prompt": "a"}"#, Some(Endpoint::ChatCompletions)).unwrap();
        assert!(told.contains("\"/v1/chat/completions\""), "{told}");
    }

    #[test]
    fn a_body_that_tells_nothing_is_refused_with_the_remedy() {
        for (body, named) in [
            (r#"{"input": "a"}"#, "neither messages nor prompt; say where it would be sent with --endpoint"),
            (r#"{"messages": [], "prompt": ""}"#, "both messages and prompt"),
            ("[1]", "no body of a chat or completions request"),
            ("", "the request is not JSON"),
            (r#"{"prompt": "a"} x"#, "the request is not JSON"),
        ] {
            let refusal = asked(body, None).unwrap_err();
            assert!(refusal.contains(named), "{body}: {refusal}");
        }
    }
}
