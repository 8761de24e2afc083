//! A stream of SGLang that fails before its first token: the head says that all is well, an event says that it is not.

use axum::body::Body;
use axum::response::Response;
use kvroute_openai::Endpoint;
use serde_json::json;

use super::of_events;
use crate::http::error::ApiError;
use crate::http::request::SimRequest;
use crate::http::{App, unix_time};

/// The whole stream.
pub(in crate::http) fn failed(app: &App, request: &SimRequest, error: &ApiError) -> Response {
    let mut events = vec![error.sglang_event().to_string()];
    if request.include_usage {
        let prompt = request.generation.prompts.iter().map(Vec::len).sum::<usize>();
        let object = match request.endpoint {
            Endpoint::ChatCompletions => "chat.completion.chunk",
            _ => "text_completion",
        };
        let details = app.config.prompt_tokens_details.then(|| json!({ "cached_tokens": 0 }));
        let usage = json!({
            "id": request.id, "object": object, "created": unix_time(std::time::SystemTime::now()),
            "model": request.model, "choices": [],
            "usage": {
                "prompt_tokens": prompt, "total_tokens": prompt, "completion_tokens": 0,
                "prompt_tokens_details": details, "reasoning_tokens": 0, "completion_tokens_details": null,
            },
        });
        events.push(usage.to_string());
    }
    events.push(String::from("[DONE]"));
    let text: String = events.iter().flat_map(|event| ["data: ", event.as_str(), "\n\n"]).collect();
    of_events(Body::from(text))
}
