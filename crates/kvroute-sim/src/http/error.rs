//! Errors in the shapes of vLLM: its own, and those of the web framework it uses.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use kvroute_openai::RequestError;
use serde_json::json;

/// A refused request: `{"error":{"message","type","param","code"}}`.
#[derive(Debug)]
pub(super) struct ApiError {
    status: StatusCode,
    kind: &'static str,
    message: String,
    param: Option<String>,
}

// === impl ApiError ===

impl ApiError {
    /// A body that does not have the right shape.
    pub(super) fn validation(param: impl Into<Option<String>>, message: impl AsRef<str>) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            kind: "Bad Request",
            message: format!("1 validation error:\n  {}", message.as_ref()),
            param: param.into(),
        }
    }

    /// A body whose values cannot be served; `value` is what was asked for.
    pub(super) fn parameter(param: &str, value: Option<String>, message: impl AsRef<str>) -> Self {
        let value = value.map(|value| format!(", value={value}")).unwrap_or_default();
        let message = format!("{} (parameter={param}{value})", message.as_ref());
        Self { param: Some(param.to_owned()), ..Self::bad_request(message) }
    }

    /// Anything else that is the client's fault.
    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            kind: "BadRequestError",
            message: message.into(),
            param: None,
        }
    }

    /// A model that is not served here.
    pub(super) fn unknown_model(asked: &str, served: &str) -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            kind: "NotFoundError",
            message: format!("The model `{asked}` does not exist. Valid aliases: {served}."),
            param: Some(String::from("model")),
        }
    }

    /// A response that is not kept here.
    pub(super) fn unknown_response(id: &str) -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            kind: "invalid_request_error",
            message: format!("Response with id '{id}' not found."),
            param: Some(String::from("response_id")),
        }
    }

    /// A field that the engine was told not to know.
    pub(super) fn unknown_field(field: &str) -> Self {
        Self::validation(format!("body.{field}"), "Extra inputs are not permitted")
    }

    /// A refusal that was switched on.
    pub(super) fn injected(status: StatusCode) -> Self {
        let message = format!("the simulated engine was told to answer {}", status.as_u16());
        Self { status, kind: "InjectedFault", message, param: None }
    }

    /// The engine stopped while a request was under way.
    pub(super) fn stopped() -> Self {
        Self {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            kind: "InternalServerError",
            message: String::from("EngineCore encountered an issue."),
            param: None,
        }
    }
}

impl From<RequestError> for ApiError {
    fn from(error: RequestError) -> Self {
        let param = error.error.param.map(std::borrow::Cow::into_owned);
        Self { param, ..Self::bad_request(error.error.message) }
    }
}

impl From<serde_json::Error> for ApiError {
    fn from(error: serde_json::Error) -> Self {
        match error.is_data() {
            true => Self::validation(String::from("body"), error.to_string()),
            false => {
                Self::validation(format!("body.{}", error.column()), format!("JSON decode error: {error}"))
            }
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = json!({"error": {
            "message": self.message, "type": self.kind, "param": self.param, "code": self.status.as_u16(),
        }});
        json_response(self.status, body.to_string())
    }
}

/// A whole JSON response.
pub(super) fn json_response(status: StatusCode, body: String) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// Any other path.
pub(super) async fn not_found() -> Response {
    json_response(StatusCode::NOT_FOUND, String::from(r#"{"detail":"Not Found"}"#))
}

/// A known path with another method.
pub(super) async fn method_not_allowed() -> Response {
    json_response(StatusCode::METHOD_NOT_ALLOWED, String::from(r#"{"detail":"Method Not Allowed"}"#))
}
