//! `POST /api/route`: what would happen to a request, without anything happening to it.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{HeaderMap, HeaderName, HeaderValue};
use axum::http::{Request, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use kvroute_openai::{Endpoint, RequestError};
use kvroute_router::{AdviceRequest, RouteError};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{AdminPlane, failed};
use crate::{body, json};

/// What is asked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question<'a> {
    endpoint: String,
    /// Kept as it is written: it is what the data plane would have got.
    #[serde(borrow)]
    body: &'a RawValue,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

/// Answers with a decision that nobody takes.
pub(super) async fn route(State(plane): State<AdminPlane>, request: Request<Body>) -> Response {
    match plane.advise(request.into_body()).await {
        Ok(answer) => answer,
        Err(error) => failed(&error),
    }
}

// === impl AdminPlane ===

impl AdminPlane {
    async fn advise(&self, body: Body) -> Result<Response, RouteError> {
        let body = body::read(body, self.body_limits()).await?;
        let question = read(&body).map_err(RouteError::bad_request)?;
        let decision = self.router.advise(question).await?;
        Ok(json::response(StatusCode::OK, &decision))
    }
}

/// What the body of a request asks.
pub(crate) fn read(body: &Bytes) -> Result<AdviceRequest, RequestError> {
    let question: Question<'_> = serde_json::from_slice(body).map_err(|error| {
        RequestError::invalid_json(format!(
            "{error}; send {{\"endpoint\": \"/v1/chat/completions\", \"body\": {{…}}}}, and \"headers\" if they matter"
        ))
    })?;
    let endpoint = Endpoint::named(&question.endpoint).ok_or_else(|| unknown_endpoint(&question.endpoint))?;
    let body = body.slice_ref(question.body.get().as_bytes());
    Ok(AdviceRequest { endpoint, body, headers: headers(&question.headers)? })
}

fn unknown_endpoint(name: &str) -> RequestError {
    let known = Endpoint::ALL.map(Endpoint::path).join(", ");
    RequestError::invalid_field(
        "endpoint",
        format!("endpoint {name:?} is not served by workers; name one of: {known}"),
    )
}

fn headers(given: &BTreeMap<String, String>) -> Result<HeaderMap, RequestError> {
    let header = |(name, value): (&String, &String)| {
        let read = HeaderName::try_from(name).ok().zip(HeaderValue::try_from(value).ok());
        read.ok_or_else(|| {
            RequestError::invalid_field("headers", format!("header {name:?} cannot be sent over HTTP"))
        })
    };
    given.iter().map(header).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(body: &'static str) -> String {
        read(&Bytes::from_static(body.as_bytes())).unwrap_err().to_string()
    }

    #[test]
    fn the_body_is_taken_as_it_is_written() {
        let question =
            r#"{"headers": {"X-Session-Id": "a"}, "body": { "n":1.0,"n": 2 }, "endpoint": "completions"}"#;
        let request = read(&Bytes::from_static(question.as_bytes())).unwrap();
        assert_eq!(request.endpoint, Endpoint::Completions);
        assert_eq!(request.body, r#"{ "n":1.0,"n": 2 }"#);
        assert_eq!(request.headers["x-session-id"], "a");
    }

    #[test]
    fn what_cannot_be_asked_is_named_with_its_remedy() {
        let unknown = refused(r#"{"endpoint": "/v1/images", "body": {}}"#);
        assert_eq!(
            unknown,
            "endpoint \"/v1/images\" is not served by workers; name one of: /v1/chat/completions, \
             /v1/completions, /v1/responses, /v1/messages, /v1/embeddings, /v1/rerank, /v1/score, /tokenize, \
             /detokenize"
        );
        let missing = refused(r#"{"endpoint": "completions"}"#);
        assert!(missing.starts_with("missing field `body`") && missing.contains("; send {"), "{missing}");
        let bare = refused(r#"{"model": "m", "prompt": "hi"}"#);
        assert!(bare.starts_with("unknown field `model`"), "{bare}");
        let header = refused(r#"{"endpoint": "completions", "body": {}, "headers": {"a b": "c"}}"#);
        assert_eq!(header, "header \"a b\" cannot be sent over HTTP");
    }
}
