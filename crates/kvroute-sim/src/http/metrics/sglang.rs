//! SGLang's families. Series of ranks have a label of theirs where there is more than one.

use kvroute_core::WorkerRole;

use super::{Family, counter, escape, gauge, start_time};
use crate::http::App;
use crate::stats::EngineStats;

/// Every family.
pub(super) fn families(app: &App) -> Vec<Family> {
    let engine_type = match app.config.role {
        WorkerRole::Aggregated => "unified",
        role => role.as_str(),
    };
    let base = format!("engine_type=\"{engine_type}\",model_name=\"{}\"", escape(&app.config.model));
    let place = "moe_ep_rank=\"0\",pp_rank=\"0\",tp_rank=\"0\"";
    let handles = app.ranks.all();
    let labels = |rank: u32| match handles.len() {
        1 => format!("{base},{place}"),
        _ => format!("dp_rank=\"{rank}\",{base},{place}"),
    };
    let of_ranks = |value: &dyn Fn(&EngineStats) -> f64| {
        (0u32..).zip(handles).map(|(rank, handle)| (labels(rank), value(&handle.stats()))).collect::<Vec<_>>()
    };
    let blocks = f64::from(app.config.kv_blocks);
    let page = u64::from(app.config.block_size.get());
    let all = app.ranks.stats();
    let total = |value: u64| vec![(base.clone(), value as f64)];
    vec![
        start_time(app),
        gauge(
            "sglang:num_running_reqs",
            "The number of running requests.",
            of_ranks(&|stats| stats.running as f64),
        ),
        gauge(
            "sglang:num_queue_reqs",
            "The number of requests in the waiting queue.",
            of_ranks(&|stats| stats.waiting as f64),
        ),
        gauge(
            "sglang:token_usage",
            "The token usage.",
            of_ranks(&|stats| stats.kv_blocks_held as f64 / blocks),
        ),
        gauge("sglang:cache_hit_rate", "The prefix cache hit rate.", of_ranks(&hit_rate)),
        gauge(
            "sglang:num_used_tokens",
            "The number of used tokens.",
            of_ranks(&|stats| (stats.kv_blocks_held * page) as f64),
        ),
        gauge("sglang:page_size", "Page size of the KV cache.", of_ranks(&|_| page as f64)),
        gauge(
            "sglang:max_total_num_tokens",
            "Maximum total number of tokens in the KV cache pool.",
            of_ranks(&|_| app.config.capacity() as f64),
        ),
        counter(
            "sglang:prompt_tokens_total",
            "Number of prefill tokens processed.",
            total(all.prompt_tokens),
        ),
        counter(
            "sglang:generation_tokens_total",
            "Number of generation tokens processed.",
            total(all.generated_tokens),
        ),
        counter(
            "sglang:cached_tokens_total",
            "Number of cached prompt tokens.",
            vec![(format!("cache_source=\"device\",{base}"), all.reused_tokens as f64)],
        ),
        counter("sglang:num_requests_total", "Number of requests processed.", total(all.requests)),
    ]
}

fn hit_rate(stats: &EngineStats) -> f64 {
    stats.reused_tokens as f64 / stats.prompt_tokens.max(1) as f64
}
