//! `trtllm-serve`, as its source tells it: streams of chats leave nulls out, all else has them.

use kvroute_core::TokenId;
use kvroute_openai::Endpoint;
use serde_json::{Value, json};

use super::{Dialect, Piece, cached};
use crate::http::generate::Answer;
use crate::http::tools;
use crate::http::usage::Figures;
use crate::http::whole::Choice;

/// Speaks as TensorRT-LLM does.
#[derive(Debug)]
pub(super) struct TrtLlm;

// === impl TrtLlm ===

impl Dialect for TrtLlm {
    fn whole(&self, answer: &Answer, choices: &[Choice]) -> Value {
        let handed = answer.handed.as_ref().unwrap_or(&Value::Null);
        let told = (0..).zip(choices).map(|(index, choice)| match is_chat(answer) {
            true => chat_choice(answer, index, choice, handed),
            false => json!({
                "index": index, "text": choice.text, "token_ids": null, "logprobs": null,
                "context_logits": null, "finish_reason": answer.finish_reason(), "stop_reason": null,
                "disaggregated_params": handed, "avg_decoded_tokens_per_iter": 1.0,
            }),
        });
        let mut whole = json!({
            "id": answer.request.id,
            "object": if is_chat(answer) { "chat.completion" } else { "text_completion" },
            "created": answer.created, "model": answer.request.model, "choices": told.collect::<Vec<_>>(),
            "usage": usage(answer.usage.figures()), "prompt_token_ids": prompt_ids(answer, handed),
        });
        if is_chat(answer) {
            whole["prompt_token_ids_b64"] = Value::Null;
        }
        whole
    }

    fn begin(&self, answer: &Answer, choice: usize) -> Vec<Value> {
        match is_chat(answer) {
            true => vec![chat_chunk(answer, choice, &json!({ "role": "assistant" }), false)],
            false => Vec::new(),
        }
    }

    fn piece(&self, answer: &Answer, piece: Piece<'_>) -> Vec<Value> {
        if !is_chat(answer) {
            return vec![text_chunk(answer, piece)];
        }
        let Some(call) = answer.call(piece.choice) else {
            let delta = json!({ "content": piece.text, "reasoning_content": "" });
            return vec![chat_chunk(answer, piece.choice, &delta, piece.is_last)];
        };
        let arguments = tools::piece(piece.text, piece.is_first, piece.is_last);
        let call = match piece.is_first {
            true => json!({
                "id": call.id, "type": "function", "index": 0,
                "function": { "name": call.name, "arguments": arguments },
            }),
            false => json!({ "type": "function", "index": 0, "function": { "arguments": arguments } }),
        };
        let delta = json!({ "content": "", "reasoning_content": "", "tool_calls": [call] });
        vec![chat_chunk(answer, piece.choice, &delta, piece.is_last)]
    }

    fn end(&self, _: &Answer, _: usize) -> Option<Value> {
        None
    }

    fn usage(&self, answer: &Answer) -> Option<Value> {
        let is_asked = answer.request.include_usage;
        is_asked.then(|| chunk(answer, &json!([]), &usage(answer.usage.figures())))
    }

    fn pads_begin(&self) -> bool {
        true
    }
}

fn is_chat(answer: &Answer) -> bool {
    answer.request.endpoint == Endpoint::ChatCompletions
}

fn usage(figures: Figures) -> Value {
    json!({
        "prompt_tokens": figures.prompt, "total_tokens": figures.prompt + figures.completion,
        "completion_tokens": figures.completion,
        "prompt_tokens_details": cached(figures).map(|cached| json!({ "cached_tokens": cached })),
    })
}

/// A context answer brings the prompt's ids, so that the other engine need not tokenize.
fn prompt_ids(answer: &Answer, handed: &Value) -> Value {
    let prompts: &[Vec<TokenId>] = &answer.request.generation.prompts;
    match (handed.is_null(), is_chat(answer)) {
        (true, _) => Value::Null,
        (false, true) => json!(prompts.first()),
        (false, false) => json!(prompts),
    }
}

fn chat_choice(answer: &Answer, index: usize, choice: &Choice, handed: &Value) -> Value {
    let call = answer
        .call(index)
        .map(|call| json!({ "id": call.id, "type": "function", "function": call.function(&choice.text) }));
    let content = if call.is_some() { "" } else { &choice.text };
    json!({
        "index": index,
        "message": {
            "role": "assistant", "content": content, "reasoning_content": "", "reasoning": null,
            "tool_calls": call.into_iter().collect::<Vec<_>>(),
        },
        "logprobs": null, "finish_reason": answer.finish_reason(), "stop_reason": null,
        "mm_embedding_handle": null, "disaggregated_params": handed, "avg_decoded_tokens_per_iter": 1.0,
    })
}

fn chat_chunk(answer: &Answer, choice: usize, delta: &Value, is_last: bool) -> Value {
    let mut told = json!({ "index": choice, "delta": delta });
    if is_last {
        told["finish_reason"] = answer.finish_reason().into();
    }
    let mut chunk = chunk(answer, &json!([told]), &Value::Null);
    match answer.request.continuous_usage {
        true => chunk["usage"] = usage(answer.usage.figures_of(choice)),
        false => drop(chunk.as_object_mut().and_then(|fields| fields.shift_remove("usage"))),
    }
    chunk
}

fn text_chunk(answer: &Answer, piece: Piece<'_>) -> Value {
    let choice = json!({
        "index": piece.choice, "text": piece.text, "token_ids": null, "logprobs": null,
        "finish_reason": piece.is_last.then(|| answer.finish_reason()), "stop_reason": null,
        "avg_decoded_tokens_per_iter": 1.0,
    });
    let continuous = answer.request.continuous_usage.then(|| usage(answer.usage.figures_of(piece.choice)));
    chunk(answer, &json!([choice]), &continuous.unwrap_or_default())
}

fn chunk(answer: &Answer, choices: &Value, usage: &Value) -> Value {
    json!({
        "id": answer.request.id,
        "object": if is_chat(answer) { "chat.completion.chunk" } else { "text_completion" },
        "created": answer.created, "model": answer.request.model, "choices": choices, "usage": usage,
    })
}
