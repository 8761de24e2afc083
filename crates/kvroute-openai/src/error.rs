//! Errors as OpenAI clients read them.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;

use crate::Endpoint;

/// The fields of an OpenAI-shaped error: `{"error":{"message","type","param","code"}}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorBody {
    /// What is wrong and what to do about it.
    pub message: String,
    /// The family, such as `invalid_request_error`.
    pub kind: Cow<'static, str>,
    /// The request field at fault.
    pub param: Option<Cow<'static, str>>,
    /// A stable word for programs.
    pub code: Option<Cow<'static, str>>,
}

/// A request that cannot be served as it is: the client's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", error.message)]
pub struct RequestError {
    /// The HTTP status to answer with.
    pub status: u16,
    /// The body to answer with.
    pub error: ErrorBody,
}

// === impl ErrorBody ===

impl ErrorBody {
    /// An error without a field and without a code.
    pub fn new(kind: &'static str, message: impl Into<String>) -> Self {
        Self { message: message.into(), kind: Cow::Borrowed(kind), param: None, code: None }
    }

    /// Names the request field at fault.
    #[must_use]
    pub fn with_param(mut self, param: impl Into<Cow<'static, str>>) -> Self {
        self.param = Some(param.into());
        self
    }

    /// Adds the word for programs.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<Cow<'static, str>>) -> Self {
        self.code = Some(code.into());
        self
    }

    /// The body of a whole response.
    pub fn to_json(&self) -> Bytes {
        Bytes::from(serde_json::json!({"error": self.fields()}).to_string())
    }

    /// The event that ends a broken stream of an endpoint, with a blank line behind it. Clients of chats and completions
    /// look for `error` in the data, those of responses and messages for an event of that type; `sequence_number` is for those
    /// that number their events.
    pub fn to_event(&self, endpoint: Endpoint, sequence_number: u64) -> Bytes {
        let fields = match endpoint {
            Endpoint::Responses => serde_json::json!({
                "type": "error", "code": self.code, "message": self.message, "param": self.param,
                "sequence_number": sequence_number,
            }),
            Endpoint::Messages => serde_json::json!({"type": "error", "error": self.fields()}),
            _ => return self.to_plain_event(),
        };
        Bytes::from(format!("event: error\ndata: {fields}\n\n"))
    }

    fn to_plain_event(&self) -> Bytes {
        let json = self.to_json();
        Bytes::from([b"data: ", &json[..], b"\n\n"].concat())
    }

    fn fields(&self) -> serde_json::Value {
        serde_json::json!({
            "message": self.message, "type": self.kind, "param": self.param, "code": self.code,
        })
    }
}

impl fmt::Display for ErrorBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

// === impl RequestError ===

impl RequestError {
    /// A field that is missing or wrong: status 400, `invalid_request_error`.
    pub fn invalid_field(param: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self { status: 400, error: ErrorBody::new("invalid_request_error", message).with_param(param) }
    }

    /// A body that is no JSON: status 400, code `invalid_json`.
    pub fn invalid_json(message: impl Into<String>) -> Self {
        Self {
            status: 400,
            error: ErrorBody::new("invalid_request_error", message).with_code("invalid_json"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_and_the_event_have_the_openai_shape() {
        let error = ErrorBody::new("upstream_error", "worker \"a\" broke\noff").with_code("upstream_broke");
        let json = r#"{"error":{"message":"worker \"a\" broke\noff","type":"upstream_error","param":null,"code":"upstream_broke"}}"#;
        assert_eq!(error.to_json(), json);
        for endpoint in [Endpoint::ChatCompletions, Endpoint::Completions] {
            assert_eq!(error.to_event(endpoint, 7), format!("data: {json}\n\n"));
        }
    }

    #[test]
    fn the_event_has_the_shape_of_its_endpoint() {
        let error = ErrorBody::new("upstream_error", "it broke").with_code("upstream_broke");
        let responses = r#"{"type":"error","code":"upstream_broke","message":"it broke","param":null,"sequence_number":7}"#;
        assert_eq!(error.to_event(Endpoint::Responses, 7), format!("event: error\ndata: {responses}\n\n"));
        let messages = r#"{"type":"error","error":{"message":"it broke","type":"upstream_error","param":null,"code":"upstream_broke"}}"#;
        assert_eq!(error.to_event(Endpoint::Messages, 7), format!("event: error\ndata: {messages}\n\n"));
    }

    #[test]
    fn a_request_error_names_its_field() {
        let error = RequestError::invalid_field("prompt", "prompt is empty; send at least one token");
        assert_eq!(error.status, 400);
        assert_eq!(error.error.param.as_deref(), Some("prompt"));
        assert_eq!(error.to_string(), "prompt is empty; send at least one token");
    }
}
