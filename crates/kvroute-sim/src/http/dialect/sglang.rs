//! SGLang 0.5: ends in chunks of their own, `matched_stop`, and usage that says "null" of what there is none of.

use kvroute_core::TokenId;
use kvroute_openai::Endpoint;
use serde_json::{Map, Value, json};

use super::{Dialect, Piece, cached};
use crate::http::generate::Answer;
use crate::http::tools;
use crate::http::usage::Figures;
use crate::http::whole::Choice;

/// Speaks as SGLang does.
#[derive(Debug)]
pub(super) struct Sglang;

// === impl Sglang ===

impl Dialect for Sglang {
    fn whole(&self, answer: &Answer, choices: &[Choice]) -> Value {
        let told = (0..).zip(choices).map(|(index, choice)| match answer.request.endpoint {
            Endpoint::ChatCompletions => chat_choice(answer, index, choice),
            _ => with_ids(answer, index, &choice.ids, json!({
                "index": index, "text": choice.text, "logprobs": null, "finish_reason": answer.finish_reason(),
                "matched_stop": null,
            })),
        });
        let length = choices.first().map_or(0, |choice| choice.ids.len());
        json!({
            "id": answer.request.id,
            "object": if is_chat(answer) { "chat.completion" } else { "text_completion" },
            "created": answer.created, "model": answer.request.model, "choices": told.collect::<Vec<_>>(),
            "usage": usage(answer.usage.figures()),
            "metadata": {
                "weight_version": "default",
                "weight_versions": [{ "version": "default", "start": 0, "end": length }],
            },
        })
    }

    fn begin(&self, answer: &Answer, choice: usize) -> Vec<Value> {
        match is_chat(answer) {
            true => {
                let delta = json!({ "reasoning_content": null, "role": "assistant", "content": "" });
                vec![chat_chunk(answer, choice, &delta, None)]
            }
            false => Vec::new(),
        }
    }

    fn piece(&self, answer: &Answer, piece: Piece<'_>) -> Vec<Value> {
        let mut chunks = Vec::new();
        if !is_chat(answer) {
            chunks.push(text_chunk(answer, piece));
        } else if let Some(call) = answer.call(piece.choice) {
            if piece.is_first {
                let begun = json!({
                    "id": call.id, "index": 0, "type": "function", "function": call.begun(),
                });
                chunks.push(call_chunk(answer, piece.choice, &begun));
            }
            let arguments = tools::piece(piece.text, piece.is_first, piece.is_last);
            let more = json!({
                "id": null, "index": 0, "type": "function", "function": { "name": null, "arguments": arguments },
            });
            chunks.push(call_chunk(answer, piece.choice, &more));
        } else {
            let delta = json!({ "reasoning_content": null, "content": piece.text });
            chunks.push(chat_chunk(answer, piece.choice, &delta, None));
        }
        if answer.request.continuous_usage {
            for chunk in &mut chunks {
                chunk["usage"] = usage(answer.usage.figures_of(piece.choice));
            }
        }
        chunks
    }

    fn end(&self, answer: &Answer, choice: usize) -> Option<Value> {
        let delta = json!({ "reasoning_content": null });
        is_chat(answer).then(|| chat_chunk(answer, choice, &delta, Some(answer.finish_reason())))
    }

    fn usage(&self, answer: &Answer) -> Option<Value> {
        if !answer.request.include_usage {
            return None;
        }
        let mut told = usage(answer.usage.figures());
        if !is_chat(answer) {
            without_nulls(&mut told);
        }
        Some(json!({
            "id": answer.request.id, "object": object(answer), "created": answer.created,
            "model": answer.request.model, "choices": [], "usage": told,
        }))
    }
}

fn is_chat(answer: &Answer) -> bool {
    answer.request.endpoint == Endpoint::ChatCompletions
}

fn object(answer: &Answer) -> &'static str {
    if is_chat(answer) { "chat.completion.chunk" } else { "text_completion" }
}

fn usage(figures: Figures) -> Value {
    json!({
        "prompt_tokens": figures.prompt, "total_tokens": figures.prompt + figures.completion,
        "completion_tokens": figures.completion,
        "prompt_tokens_details": cached(figures).map(|cached| json!({ "cached_tokens": cached })),
        "reasoning_tokens": 0, "completion_tokens_details": null,
    })
}

fn without_nulls(usage: &mut Value) {
    let Some(fields) = usage.as_object_mut() else { return };
    let told = std::mem::take(fields).into_iter().filter(|(_, value)| !value.is_null());
    *fields = told.collect::<Map<_, _>>();
}

fn chat_choice(answer: &Answer, index: usize, choice: &Choice) -> Value {
    let mut message = json!({ "role": "assistant", "content": choice.text, "reasoning_content": null });
    if let Some(call) = answer.call(index) {
        message["content"] = Value::Null;
        message["tool_calls"] = json!([{
            "id": call.id, "index": 0, "type": "function", "function": call.function(&choice.text),
        }]);
    }
    let mut told = json!({
        "index": index, "message": message, "logprobs": null, "finish_reason": answer.finish_reason(),
        "matched_stop": null,
    });
    if answer.request.return_token_ids {
        told["prompt_token_ids"] = json!(answer.request.prompt_of(index));
        told["response_token_ids"] = json!(choice.ids);
    }
    told
}

/// A text's choice with the ids that were asked for: those of the prompt once.
fn with_ids(answer: &Answer, index: usize, ids: &[TokenId], mut choice: Value) -> Value {
    if answer.request.return_token_ids {
        choice["token_ids"] = json!(ids);
        choice["prompt_token_ids"] = json!(answer.request.prompt_of(index));
    }
    choice
}

fn call_chunk(answer: &Answer, choice: usize, call: &Value) -> Value {
    let delta = json!({ "reasoning_content": null, "tool_calls": [call] });
    chat_chunk(answer, choice, &delta, None)
}

fn chat_chunk(answer: &Answer, choice: usize, delta: &Value, finish_reason: Option<&str>) -> Value {
    json!({
        "id": choice_id(answer, choice), "object": "chat.completion.chunk", "created": answer.created,
        "model": answer.request.model,
        "choices": [{
            "index": choice, "delta": delta, "logprobs": null, "finish_reason": finish_reason, "matched_stop": null,
        }],
    })
}

fn text_chunk(answer: &Answer, piece: Piece<'_>) -> Value {
    let mut choice = json!({
        "index": piece.choice, "text": piece.text, "logprobs": null,
        "finish_reason": piece.is_last.then(|| answer.finish_reason()), "matched_stop": null,
    });
    match piece.is_first {
        true => choice = with_ids(answer, piece.choice, &[piece.id], choice),
        false if answer.request.return_token_ids => choice["token_ids"] = json!([piece.id]),
        false => {}
    }
    json!({
        "id": answer.request.id, "object": "text_completion", "created": answer.created,
        "model": answer.request.model, "choices": [choice], "usage": null,
    })
}

/// Every further choice of a stream has an id of its own.
fn choice_id(answer: &Answer, choice: usize) -> String {
    match choice {
        0 => answer.request.id.clone(),
        choice => format!("{choice:x}{}", answer.request.id.get(1..).unwrap_or_default()),
    }
}
