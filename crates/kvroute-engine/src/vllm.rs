//! vLLM: KV events on ZeroMQ, announced at `/kv_event_sources` since 0.32; the block size stands in a metric label.

use kvroute_core::{BlockSize, Blocks, DpRank};
use kvroute_openai::Unasked;
use serde::Deserialize;

use crate::exposition::series;
use crate::load::{LoadAnswer, LoadFamilies, LoadQuestion};
use crate::probe::{Answers, Probe};
use crate::spec::{ChatStyle, EngineSpec};
use crate::tokenize_remote::{ids_of_chat, ids_of_prompt};

pub(crate) static SPEC: EngineSpec = EngineSpec {
    name: "vllm",
    owner: "vllm",
    telltale: "/kv_event_sources",
    questions: &["/version", "/metrics", "/kv_event_sources"],
    describe,
    assumed_block_size: None,
    accepts_stream_options: true,
    heeds_continuous_usage_alone: false,
    // Since 0.10.2; older releases ignore the field.
    gives_token_ids: true,
    unasked_token_ids: Unasked::Null,
    refuses_unknown_fields: false,
    sums_reuse_of_prompt_lists: false,
    rank_header: Some("x-data-parallel-rank"),
    chat_style: ChatStyle::Vllm,
    report_remedy: "start vllm with --enable-prompt-tokens-details",
    events_remedy: "start vllm with --kv-events-config '{\"enable_kv_cache_events\":true,\"publisher\":\"zmq\",\
                    \"endpoint\":\"tcp://*:5557\",\"replay_endpoint\":\"tcp://*:5558\"}'; before 0.32 also name \
                    the address in kv_events",
    load: &[LoadQuestion {
        path: "/metrics",
        answer: LoadAnswer::Families(LoadFamilies {
            running: "vllm:num_requests_running",
            waiting: "vllm:num_requests_waiting",
            // The second name is that of the first releases of its current core.
            kv_usage: &["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"],
            rank_label: Some("engine"),
        }),
    }],
    load_remedy: "start vllm without --disable-log-stats",
    tokenize_chat: Some(ids_of_chat),
    tokenize_text: Some(ids_of_prompt),
};

#[derive(Deserialize)]
struct Version {
    version: String,
}

#[derive(Deserialize)]
struct Source {
    data_parallel_rank: Option<u32>,
    endpoint: String,
    replay_endpoint: Option<String>,
    topic: Option<String>,
}

fn describe(answers: &Answers, probe: &mut Probe) {
    probe.version = answers.json("/version").map(|answer: Version| answer.version);
    if let Some(metrics) = answers.text("/metrics") {
        describe_cache(metrics, probe);
    }
    for source in answers.json::<Vec<Source>>("/kv_event_sources").unwrap_or_default() {
        let rank = DpRank::new(source.data_parallel_rank.unwrap_or(0));
        probe.announce(rank, &source.endpoint, source.replay_endpoint.as_deref(), source.topic);
    }
}

/// One series of `vllm:cache_config_info` an engine core; all ranks of a server have the same configuration.
fn describe_cache(metrics: &str, probe: &mut Probe) {
    let caches = series(metrics.as_bytes()).filter(|series| series.is("vllm:cache_config_info"));
    let caches: Vec<_> = caches.collect();
    let Some(cache) = caches.first() else { return };
    let number = |label: &str| cache.label(label).and_then(|value| value.parse::<u64>().ok());
    let block_size = number("block_size").and_then(|size| u32::try_from(size).ok());
    probe.block_size = block_size.and_then(|size| BlockSize::new(size).ok());
    // One block of them is never given to a request.
    probe.kv_capacity = number("num_gpu_blocks").map(|blocks| Blocks::new(blocks.saturating_sub(1)));
    probe.claim_ranks(u32::try_from(caches.len()).unwrap_or(u32::MAX));
    if cache.label("enable_prefix_caching").is_some_and(|value| value == "False") {
        probe.notes.push("prefix caching is off: remove --no-enable-prefix-caching".to_owned());
    }
}
