//! `llama-server`: `timings` in the last chunk, usage in that of texts whether asked or not, and of one answer only.

use kvroute_openai::Endpoint;
use serde_json::{Value, json};

use super::{Dialect, Piece, cached};
use crate::http::generate::Answer;
use crate::http::tools;
use crate::http::usage::Figures;
use crate::http::whole::Choice;

/// What every answer names as its build.
const FINGERPRINT: &str = "b0-simulated";

/// Speaks as llama.cpp does.
#[derive(Debug)]
pub(super) struct LlamaCpp;

// === impl LlamaCpp ===

impl Dialect for LlamaCpp {
    fn whole(&self, answer: &Answer, choices: &[Choice]) -> Value {
        let told = (0..).zip(choices).map(|(index, choice)| match is_chat(answer) {
            true => chat_choice(answer, index, choice),
            false => json!({
                "text": choice.text, "index": index, "logprobs": null, "finish_reason": answer.finish_reason(),
            }),
        });
        let figures = answer.usage.figures();
        json!({
            "choices": told.collect::<Vec<_>>(), "created": answer.created, "model": answer.request.model,
            "system_fingerprint": FINGERPRINT,
            "object": if is_chat(answer) { "chat.completion" } else { "text_completion" },
            "usage": usage(figures), "id": answer.request.id, "timings": timings(answer, figures),
        })
    }

    /// A stream of several prompts begins with nothing.
    fn opening(&self, answer: &Answer) -> Option<Value> {
        (answer.request.generation.prompts.len() > 1).then_some(Value::Null)
    }

    fn begin(&self, answer: &Answer, choice: usize) -> Vec<Value> {
        if !is_chat(answer) {
            return Vec::new();
        }
        let begun = || chat_chunk(answer, choice, &json!({ "role": "assistant", "content": null }), None);
        let mut chunks = Vec::new();
        if answer.request.return_progress {
            let figures = answer.usage.figures_of(choice);
            let reused = figures.cached.map_or(0, |cached| cached.count());
            for (processed, computed) in [(reused, 0), (figures.prompt, figures.prompt - reused)] {
                let mut chunk = begun();
                if answer.request.timings_per_token {
                    chunk["timings"] =
                        timings(answer, Figures { completion: 0, prompt: reused + computed, ..figures });
                }
                chunk["prompt_progress"] = json!({
                    "total": figures.prompt, "cache": reused, "processed": processed,
                    "time_ms": answer.prompt_ms() as u64,
                });
                chunks.push(chunk);
            }
        }
        chunks.push(begun());
        chunks
    }

    fn piece(&self, answer: &Answer, piece: Piece<'_>) -> Vec<Value> {
        let mut chunks = match (is_chat(answer), answer.call(piece.choice)) {
            (false, _) => vec![text_chunk(answer, piece.choice, piece.text, None)],
            (true, None) => {
                let text = if piece.is_first { piece.text.trim_start() } else { piece.text };
                vec![chat_chunk(answer, piece.choice, &json!({ "content": text }), None)]
            }
            (true, Some(call)) => {
                let begun = json!({
                    "index": 0, "id": call.id, "type": "function", "function": call.begun(),
                });
                let arguments = tools::piece(piece.text, piece.is_first, piece.is_last);
                let more = json!({ "index": 0, "function": { "arguments": arguments } });
                let calls = piece.is_first.then_some(begun).into_iter().chain([more]);
                let delta = |call: &Value| json!({ "tool_calls": [call] });
                calls.map(|call| chat_chunk(answer, piece.choice, &delta(&call), None)).collect()
            }
        };
        if answer.request.timings_per_token {
            let figures = answer.usage.figures_of(piece.choice);
            chunks.iter_mut().for_each(|chunk| chunk["timings"] = timings(answer, figures));
        }
        chunks
    }

    fn end(&self, answer: &Answer, choice: usize) -> Option<Value> {
        let figures = answer.usage.figures_of(choice);
        let finish_reason = Some(answer.finish_reason());
        if is_chat(answer) {
            let mut chunk = chat_chunk(answer, choice, &json!({}), finish_reason);
            if !answer.request.include_usage {
                chunk["timings"] = timings(answer, figures);
            }
            return Some(chunk);
        }
        let mut chunk = text_chunk(answer, choice, "", finish_reason);
        let id = chunk.as_object_mut().and_then(|fields| fields.shift_remove("id"));
        chunk["usage"] = usage(figures);
        chunk["id"] = id.unwrap_or_default();
        chunk["timings"] = timings(answer, figures);
        Some(chunk)
    }

    fn usage(&self, answer: &Answer) -> Option<Value> {
        if !is_chat(answer) || !answer.request.include_usage {
            return None;
        }
        let figures = answer.usage.figures();
        let mut chunk = chunk(answer, &json!([]));
        chunk["usage"] = usage(figures);
        chunk["timings"] = timings(answer, figures);
        Some(chunk)
    }
}

fn is_chat(answer: &Answer) -> bool {
    answer.request.endpoint == Endpoint::ChatCompletions
}

fn usage(figures: Figures) -> Value {
    let mut usage = json!({
        "completion_tokens": figures.completion, "prompt_tokens": figures.prompt,
        "total_tokens": figures.prompt + figures.completion,
    });
    if let Some(cached) = cached(figures) {
        usage["prompt_tokens_details"] = json!({ "cached_tokens": cached });
    }
    usage
}

/// What was reused and what was computed, and how long it took.
fn timings(answer: &Answer, figures: Figures) -> Value {
    let reused = figures.cached.map_or(0, |cached| cached.count()).min(figures.prompt);
    let computed = figures.prompt - reused;
    let (prompt_ms, predicted_ms) = (answer.prompt_ms(), answer.predicted_ms());
    let per_token = |ms: f64, tokens: u64| if tokens == 0 { 0.0 } else { ms / tokens as f64 };
    let per_second = |ms: f64, tokens: u64| if ms == 0.0 { 0.0 } else { tokens as f64 * 1000.0 / ms };
    json!({
        "cache_n": reused,
        "prompt_n": computed, "prompt_ms": prompt_ms,
        "prompt_per_token_ms": per_token(prompt_ms, computed),
        "prompt_per_second": per_second(prompt_ms, computed),
        "predicted_n": figures.completion, "predicted_ms": predicted_ms,
        "predicted_per_token_ms": per_token(predicted_ms, figures.completion),
        "predicted_per_second": per_second(predicted_ms, figures.completion),
    })
}

fn chat_choice(answer: &Answer, index: usize, choice: &Choice) -> Value {
    let message = match answer.call(index) {
        None => json!({ "role": "assistant", "content": choice.text.trim_start() }),
        Some(call) => json!({
            "role": "assistant", "content": null,
            "tool_calls": [{ "type": "function", "function": call.function(&choice.text), "id": call.id }],
        }),
    };
    json!({ "finish_reason": answer.finish_reason(), "index": index, "message": message })
}

fn chat_chunk(answer: &Answer, choice: usize, delta: &Value, finish_reason: Option<&str>) -> Value {
    chunk(answer, &json!([{ "finish_reason": finish_reason, "index": choice, "delta": delta }]))
}

fn text_chunk(answer: &Answer, choice: usize, text: &str, finish_reason: Option<&str>) -> Value {
    json!({
        "choices": [{ "text": text, "index": choice, "logprobs": null, "finish_reason": finish_reason }],
        "created": answer.created, "model": answer.request.model, "system_fingerprint": FINGERPRINT,
        "object": "text_completion", "id": answer.request.id,
    })
}

fn chunk(answer: &Answer, choices: &Value) -> Value {
    json!({
        "choices": choices, "created": answer.created, "id": answer.request.id, "model": answer.request.model,
        "system_fingerprint": FINGERPRINT, "object": "chat.completion.chunk",
    })
}
