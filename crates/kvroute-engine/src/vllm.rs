//! vLLM: KV events on ZeroMQ, announced at `/kv_event_sources` since 0.32; the block size stands in a metric label.

use std::collections::BTreeMap;

use kvroute_core::{BlockSize, Blocks, DpRank};
use kvroute_openai::Unasked;
use serde::Deserialize;
use serde_json::Value;

use crate::capabilities::{Handoff, RankSteering};
use crate::exposition::series;
use crate::load::{LoadAnswer, LoadFamilies, LoadQuestion};
use crate::probe::{Answers, MAX_DP_RANKS, Probe};
use crate::spec::{ChatStyle, EngineSpec};
use crate::tokenize_remote::{ids_of_chat, ids_of_prompt};

const SOURCES: &str = "/kv_event_sources";

pub(crate) static SPEC: EngineSpec = EngineSpec {
    name: "vllm",
    owner: "vllm",
    telltale: SOURCES,
    questions: &["/version", "/metrics", SOURCES],
    describe,
    assumed_block_size: None,
    accepts_stream_options: true,
    heeds_continuous_usage_alone: false,
    // Since 0.10.2; older releases ignore the field.
    gives_token_ids: true,
    unasked_token_ids: Unasked::Null,
    takes_cache_salt: true,
    refuses_unknown_fields: false,
    sums_reuse_of_prompt_lists: false,
    rank_steering: RankSteering::Header("x-data-parallel-rank"),
    handoff: Some(Handoff::KvTransferParams),
    aborts: None,
    chat_style: ChatStyle::Vllm,
    report_remedy: "start vllm with --enable-prompt-tokens-details",
    caching_remedy: "start vllm without --no-enable-prefix-caching",
    can_publish_events: true,
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
    render: Some("/v1/chat/completions/render"),
    render_remedy: "start vllm 0.32 or later with --enable-scale-out",
};

#[derive(Deserialize)]
struct Version {
    version: String,
}

#[derive(Deserialize)]
struct Source {
    data_parallel_rank: Option<u32>,
    enable_kv_cache_events: Option<bool>,
    publisher: Option<String>,
    /// As it is bound: the rank is in the port already.
    endpoint: String,
    replay_endpoint: Option<String>,
    topic: Option<String>,
}

fn describe(answers: &Answers, probe: &mut Probe) {
    probe.version = answers.json("/version").map(|answer: Version| answer.version);
    if let Some(metrics) = answers.text("/metrics") {
        describe_cache(metrics, probe);
        probe.items_seen = items_seen(metrics);
    }
    let sources = answers.json(SOURCES).map(sources_by_rank).unwrap_or_default();
    if let Some((last, _)) = sources.last_key_value().filter(|(last, _)| **last < MAX_DP_RANKS) {
        probe.claim_ranks(SOURCES, last + 1);
    }
    for (rank, source) in sources {
        probe.announce(DpRank::new(rank), &source.endpoint, source.replay_endpoint.as_deref(), source.topic);
    }
}

/// Those that publish, by rank: a map with ranks for keys (0.32), or a list whose entries name theirs. What cannot be read
/// costs itself only.
fn sources_by_rank(answer: Value) -> BTreeMap<u32, Source> {
    let entries: Vec<(Option<u32>, Value)> = match answer {
        Value::Object(by_rank) => {
            by_rank.into_iter().map(|(rank, entry)| (rank.parse().ok(), entry)).collect()
        }
        Value::Array(list) => list.into_iter().map(|entry| (None, entry)).collect(),
        _ => Vec::new(),
    };
    let read = |(key, entry): (Option<u32>, Value)| {
        let source: Source = serde_json::from_value(entry).ok()?;
        let rank = key.or(source.data_parallel_rank).unwrap_or(0);
        source.publishes().then_some((rank, source))
    };
    entries.into_iter().filter_map(read).collect()
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
    probe.claim_ranks("/metrics", u32::try_from(caches.len()).unwrap_or(u32::MAX));
    probe.caches_prefixes = match cache.label("enable_prefix_caching").as_deref() {
        Some("True") => Some(true),
        Some("False") => Some(false),
        _ => None,
    };
}

/// Images and their like that the processors' cache was asked for, all engine cores together.
fn items_seen(metrics: &str) -> Option<u64> {
    let counts = series(metrics.as_bytes()).filter(|series| series.is("vllm:mm_cache_queries_total"));
    let counts: Vec<f64> = counts.map(|series| series.value).collect();
    (!counts.is_empty()).then(|| counts.iter().sum::<f64>() as u64)
}

// === impl Source ===

impl Source {
    fn publishes(&self) -> bool {
        self.enable_kv_cache_events.unwrap_or(true)
            && self.publisher.as_deref().is_none_or(|name| name == "zmq")
    }
}
