//! `POST /v1/chat/completions/render`: what vLLM makes of a chat, without computing it. Served where the engine was started
//! with `--enable-scale-out`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use kvroute_openai::{ClientRequest, Endpoint};
use serde_json::{Value, json};

use super::App;
use super::error::{ApiError, json_response};
use super::images::{self, SeenPrompt};
use super::request::{check_content_type, check_model, encode};
use crate::cache::ImageSpan;
use crate::config::Flavour;

/// Answers a chat with its tokens, and with the images among them.
pub(super) async fn render(State(app): State<Arc<App>>, headers: HeaderMap, body: Bytes) -> Response {
    match rendered(&app, &headers, body) {
        Ok(body) => json_response(StatusCode::OK, body.to_string()),
        Err(error) => error.respond(Flavour::Vllm),
    }
}

fn rendered(app: &App, headers: &HeaderMap, body: Bytes) -> Result<Value, ApiError> {
    if !app.config.scale_out {
        return Err(ApiError::no_scale_out());
    }
    if app.controls.board.switches().fail_render {
        return Err(ApiError::no_kv("the simulated engine was told to fail at rendering"));
    }
    check_content_type(headers)?;
    let client = ClientRequest::parse(Endpoint::ChatCompletions, body)?;
    check_model(app, client.model.as_deref())?;
    let SeenPrompt { ids, images } = match client.has_multimodal {
        true => images::see(app, &client)?,
        false => SeenPrompt { ids: encode(app, &client)?.swap_remove(0), images: Vec::new() },
    };
    Ok(json!({
        "request_id": format!("chatcmpl-{}", app.unique_id()),
        "token_ids": ids,
        "token_offsets": null,
        "features": features(&images),
        "content_parts": null,
        "sampling_params": { "max_tokens": client.max_tokens, "n": client.choices },
        "model": client.model,
        "reasoning_ended": null,
        "reasoning_parser_kwargs": null,
        "stream": client.stream,
        "stream_options": null,
        "cache_salt": client.cache_salt,
        "priority": 0,
        "kv_transfer_params": null,
        "ec_transfer_params": null,
    }))
}

fn features(images: &[ImageSpan]) -> Value {
    if images.is_empty() {
        return Value::Null;
    }
    let place = |image: &ImageSpan| json!({ "offset": image.offset, "length": image.length });
    json!({
        "mm_hashes": { "image": images.iter().map(|image| &*image.name).collect::<Vec<_>>() },
        "mm_placeholders": { "image": images.iter().map(place).collect::<Vec<_>>() },
        "kwargs_data": null,
        "mm_metadata": null,
    })
}
