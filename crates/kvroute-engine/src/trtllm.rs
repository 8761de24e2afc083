//! TensorRT-LLM's `trtllm-serve`: refuses unknown fields, tells no block size, tokenizes text only.
//!
//! Its KV events are polled from `/kv_cache_events`, where whoever asks drains them, so two routers steal from each
//! other, and a probe must not ask: a GET is refused where the path exists, and takes nothing. Whether the engine was
//! told to keep events shows only in that some come. Builds that also publish on ZeroMQ are followed by a configured
//! address.

use kvroute_openai::Unasked;
use serde::Deserialize;

use crate::capabilities::{Handoff, RankSteering};
use crate::load::{LoadAnswer, LoadFamilies, LoadQuestion};
use crate::probe::{Answers, Probe};
use crate::spec::{Brings, ChatStyle, EngineSpec, StepResult, TokenizeStep};

const EVENTS: &str = "/kv_cache_events";

pub(crate) static SPEC: EngineSpec = EngineSpec {
    name: "tensorrt-llm",
    owner: "tensorrt_llm",
    telltale: "",
    questions: &["/version", EVENTS],
    describe,
    assumed_block_size: None,
    accepts_stream_options: true,
    heeds_continuous_usage_alone: false,
    // It refuses fields that it does not know.
    gives_token_ids: false,
    unasked_token_ids: Unasked::Absent,
    takes_cache_salt: false,
    refuses_unknown_fields: true,
    sums_reuse_of_prompt_lists: false,
    rank_steering: RankSteering::None,
    handoff: Some(Handoff::DisaggregatedParams),
    aborts: None,
    chat_style: ChatStyle::Plain,
    report_remedy: "upgrade trtllm-serve to a release that reports cached tokens in usage (1.1 or later)",
    caching_remedy: "set enable_block_reuse in tensorrt-llm's kv_cache_config",
    can_publish_events: true,
    events_remedy: "set event_buffer_max_size in tensorrt-llm's kv_cache_config, with a release that has \
                    /kv_cache_events; or publish its events on zeromq and name the address in kv_events",
    // `/metrics` has what one reader may have once, as JSON; the exposition stands beside it. Its numbers are those of the
    // latest step, so an engine at rest may show the last request for ever.
    load: &[LoadQuestion {
        path: "/prometheus/metrics/",
        answer: LoadAnswer::Families(LoadFamilies {
            running: "trtllm_num_active_requests",
            waiting: "trtllm_server_queue_length",
            kv_usage: &["trtllm_kv_cache_utilization"],
            rank_label: None,
        }),
    }],
    load_remedy: "set return_perf_metrics and enable_iter_perf_stats in tensorrt-llm's options, with a release that \
                  exports trtllm_num_active_requests",
    tokenize_chat: None,
    tokenize_text: Some(ids_of_text),
    render: None,
    render_remedy: "",
};

#[derive(Deserialize)]
struct Version {
    version: String,
}

fn describe(answers: &Answers, probe: &mut Probe) {
    probe.version = answers.json("/version").map(|answer: Version| answer.version);
    if answers.is_only_posted(EVENTS) {
        probe.announce_polling();
    }
}

/// The tokenizer adds its special tokens or not as the model says; the request cannot choose.
fn ids_of_text(_model: &str, text: &str, _add_special_tokens: bool) -> StepResult {
    let body = serde_json::to_vec(&serde_json::json!({ "prompt": text }))?;
    Ok(TokenizeStep { path: "/_internal/tokenize", body, brings: Brings::Tokens })
}
