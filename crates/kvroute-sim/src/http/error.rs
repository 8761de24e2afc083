//! Errors in the shapes of each engine: its own, and those of the web framework it uses.

mod foreign;

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use kvroute_openai::RequestError;
use serde_json::{Value, json};

use super::App;
use crate::config::Flavour;

/// A refused request, in vLLM's words; those of the others come from its cause.
#[derive(Debug)]
pub(super) struct ApiError {
    status: StatusCode,
    kind: &'static str,
    message: String,
    param: Option<String>,
    cause: Cause,
}

/// What is wrong, where engines say it in different words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Cause {
    #[default]
    Other,
    /// A body that is no JSON, or has not the right shape.
    Shape,
    /// Messages that are not there.
    NoMessages,
    /// A prompt that does not fit the context.
    TooLong { tokens: u64, context: u64 },
    /// A rank that does not exist.
    Rank { rank: i64, ranks: u32 },
    /// Token ids that do not exist.
    BadTokens,
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
            cause: Cause::Shape,
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
            cause: Cause::Other,
        }
    }

    /// A model that is not served here.
    pub(super) fn unknown_model(asked: &str, served: &str) -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            kind: "NotFoundError",
            message: format!("The model `{asked}` does not exist. Valid aliases: {served}."),
            param: Some(String::from("model")),
            cause: Cause::Other,
        }
    }

    /// A response that is not kept here.
    pub(super) fn unknown_response(id: &str) -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            kind: "invalid_request_error",
            message: format!("Response with id '{id}' not found."),
            param: Some(String::from("response_id")),
            cause: Cause::Other,
        }
    }

    /// A field that the engine was told not to know.
    pub(super) fn unknown_field(field: &str) -> Self {
        Self::validation(format!("body.{field}"), "Extra inputs are not permitted")
    }

    /// A chat without messages.
    pub(super) fn no_messages() -> Self {
        Self { cause: Cause::NoMessages, ..Self::validation(String::from("body.messages"), "Field required") }
    }

    /// A prompt that does not fit the context, in vLLM's words.
    pub(super) fn too_long(tokens: u64, context: u64, message: impl AsRef<str>) -> Self {
        let cause = Cause::TooLong { tokens, context };
        Self { cause, ..Self::parameter("input_tokens", Some(tokens.to_string()), message) }
    }

    /// A rank that does not exist.
    pub(super) fn rank(rank: i64, ranks: u32) -> Self {
        let message = format!("data_parallel_rank {rank} is out of range [0, {ranks}).");
        Self { cause: Cause::Rank { rank, ranks }, ..Self::bad_request(message) }
    }

    /// A token id that does not exist.
    pub(super) fn bad_token(token: u32) -> Self {
        let message = format!("Token id {token} is out of vocabulary");
        Self { cause: Cause::BadTokens, ..Self::bad_request(message) }
    }

    /// Whether it is about token ids that do not exist.
    pub(super) fn is_about_tokens(&self) -> bool {
        self.cause == Cause::BadTokens
    }

    /// The same in SGLang, which names the status as the kind.
    pub(super) fn no_transfer(message: impl Into<String>) -> Self {
        Self { kind: "500", ..Self::no_kv(message) }
    }

    /// The event that tells the error in a stream of SGLang, whose head is out.
    pub(super) fn sglang_event(&self) -> Value {
        json!({ "error": {
            "object": "error", "message": self.message, "type": "INTERNAL_SERVER_ERROR", "param": null,
            "code": self.status.as_u16(),
        }})
    }

    /// An endpoint that the engine was not told to serve.
    pub(super) fn no_scale_out() -> Self {
        Self {
            status: StatusCode::FORBIDDEN,
            kind: "PermissionDeniedError",
            ..Self::bad_request(
                "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them.",
            )
        }
    }

    /// KV that did not come, in an engine that cannot compute it itself.
    pub(super) fn no_kv(message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            kind: "InternalServerError",
            ..Self::bad_request(message)
        }
    }

    /// The answer as that engine gives it.
    pub(super) fn respond(self, flavour: Flavour) -> Response {
        let body = match flavour {
            Flavour::Vllm => self.body(),
            Flavour::Sglang => foreign::sglang(&self),
            Flavour::TrtLlm => foreign::trtllm(&self),
            Flavour::LlamaCpp => foreign::llamacpp(&self),
        };
        json_response(self.status, body.to_string())
    }

    fn body(&self) -> Value {
        json!({"error": {
            "message": self.message, "type": self.kind, "param": self.param, "code": self.status.as_u16(),
        }})
    }

    /// A refusal that was switched on.
    pub(super) fn injected(status: StatusCode) -> Self {
        let message = format!("the simulated engine was told to answer {}", status.as_u16());
        Self { status, kind: "InjectedFault", message, param: None, cause: Cause::Other }
    }

    /// The engine stopped while a request was under way.
    pub(super) fn stopped() -> Self {
        Self {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            kind: "InternalServerError",
            message: String::from("EngineCore encountered an issue."),
            param: None,
            cause: Cause::Other,
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

/// A whole JSON response.
pub(super) fn json_response(status: StatusCode, body: String) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// Any other path.
pub(super) async fn not_found(State(app): State<Arc<App>>) -> Response {
    json_response(StatusCode::NOT_FOUND, foreign::no_route(app.config.flavour, "Not Found"))
}

/// A known path with another method.
pub(super) async fn method_not_allowed(State(app): State<Arc<App>>) -> Response {
    match app.config.flavour {
        // Its paths know their methods only.
        Flavour::LlamaCpp => not_found(State(app)).await,
        flavour => {
            json_response(StatusCode::METHOD_NOT_ALLOWED, foreign::no_route(flavour, "Method Not Allowed"))
        }
    }
}
