//! The same errors in the words of engines other than vLLM.

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::{ApiError, Cause};
use crate::config::Flavour;

/// SGLang's are flat.
pub(super) fn sglang(error: &ApiError) -> Value {
    let message = match error.cause {
        Cause::TooLong { tokens, context } => {
            format!(
                "The input ({tokens} tokens) is longer than the model's context length ({context} tokens)."
            )
        }
        Cause::Rank { rank, ranks } => format!("routed_dp_rank={rank} out of range [0, {ranks})"),
        _ => error.message.clone(),
    };
    flat(error, &message)
}

/// TensorRT-LLM's are flat too, but those about the body's shape have a text only.
pub(super) fn trtllm(error: &ApiError) -> Value {
    match error.cause {
        Cause::Shape | Cause::NoMessages => json!({ "error": error.message }),
        Cause::TooLong { tokens, context } => {
            let message = format!(
                "The sum of prompt length ({tokens}) and query length (0) should not exceed max_num_tokens ({context})"
            );
            flat(error, &message)
        }
        _ => flat(error, &error.message),
    }
}

/// llama.cpp's have a kind of their own for prompts that are too long.
pub(super) fn llamacpp(error: &ApiError) -> Value {
    let code = error.status.as_u16();
    let (message, kind) = match error.cause {
        Cause::TooLong { tokens, context } => {
            let message = format!(
                "request ({tokens} tokens) exceeds the available context size ({context} tokens), try increasing it"
            );
            return json!({"error": {
                "code": code, "message": message, "type": "exceed_context_size_error",
                "n_prompt_tokens": tokens, "n_ctx": context,
            }});
        }
        Cause::NoMessages => (String::from("'messages' is required"), "invalid_request_error"),
        Cause::BadTokens => (String::from("Prompt contains invalid tokens"), "invalid_request_error"),
        _ => (error.message.clone(), kind_of(error.status)),
    };
    json!({"error": { "code": code, "message": message, "type": kind }})
}

/// What is said of a path or a method that there is not.
pub(super) fn no_route(flavour: Flavour, detail: &str) -> String {
    let body = match flavour {
        Flavour::LlamaCpp => {
            json!({"error": { "message": "File Not Found", "type": "not_found_error", "code": 404 }})
        }
        Flavour::Vllm | Flavour::Sglang | Flavour::TrtLlm => json!({ "detail": detail }),
    };
    body.to_string()
}

fn flat(error: &ApiError, message: &str) -> Value {
    json!({
        "object": "error", "message": message, "type": error.kind, "param": null, "code": error.status.as_u16(),
    })
}

fn kind_of(status: StatusCode) -> &'static str {
    match status.as_u16() {
        404 => "not_found_error",
        501 => "not_supported_error",
        503 => "unavailable_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    }
}
