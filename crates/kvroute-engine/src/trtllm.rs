//! TensorRT-LLM's `trtllm-serve`: refuses unknown fields, tells no block size, tokenizes text only.
//!
//! Its KV events are polled from `/kv_cache_events`, where whoever asks drains them, so two routers steal from
//! each other. They are not read here; builds that also publish on ZeroMQ are followed by a configured address.

use serde::Deserialize;

use crate::probe::{Answers, Probe};
use crate::spec::{Brings, ChatStyle, EngineSpec, StepResult, TokenizeStep};

pub(crate) static SPEC: EngineSpec = EngineSpec {
    name: "tensorrt-llm",
    owner: "tensorrt_llm",
    telltale: "",
    questions: &["/version"],
    describe,
    assumed_block_size: None,
    accepts_stream_options: true,
    accepts_return_token_ids: false,
    refuses_unknown_fields: true,
    sums_reuse_of_prompt_lists: false,
    rank_header: None,
    chat_style: ChatStyle::Plain,
    report_remedy: "upgrade trtllm-serve to a release that reports cached tokens in usage (1.1 or later)",
    events_remedy: "publish tensorrt-llm's events on zeromq and name the address in kv_events",
    tokenize_chat: None,
    tokenize_text: Some(ids_of_text),
};

#[derive(Deserialize)]
struct Version {
    version: String,
}

fn describe(answers: &Answers, probe: &mut Probe) {
    probe.version = answers.json("/version").map(|answer: Version| answer.version);
}

/// The tokenizer adds its special tokens or not as the model says; the request cannot choose.
fn ids_of_text(_model: &str, text: &str, _add_special_tokens: bool) -> StepResult {
    let body = serde_json::to_vec(&serde_json::json!({ "prompt": text }))?;
    Ok(TokenizeStep { path: "/_internal/tokenize", body, brings: Brings::Tokens })
}
