//! vLLM's families: one series a rank, which it calls engine.

use std::sync::atomic::Ordering;

use super::{Family, counter, escape, gauge, start_time};
use crate::http::App;
use crate::stats::EngineStats;

const CACHE_CONFIG: &str = "vllm:cache_config_info";

/// Every family.
pub(super) fn families(app: &App) -> Vec<Family> {
    let model = escape(&app.config.model);
    let ranks: Vec<_> = (0u32..)
        .zip(app.ranks.all())
        .map(|(rank, handle)| (format!("engine=\"{rank}\",model_name=\"{model}\""), handle.stats()))
        .collect();
    let mut families = vec![start_time(app)];
    families.extend(gauges(app, &ranks));
    families.extend(counters(&ranks));
    families.push(images_seen(app, &ranks));
    let help = "Information of the LLMEngine CacheConfig";
    let config = (0..ranks.len()).map(|rank| (cache_config(app, rank), 1.0)).collect();
    families.push(gauge(CACHE_CONFIG, help, config));
    families
}

/// The series of all ranks, with further labels where there are several a rank.
fn series(
    ranks: &[(String, EngineStats)],
    values: impl Fn(&EngineStats) -> Vec<(&'static str, f64)>,
) -> Vec<(String, f64)> {
    let of_rank = |(base, stats): &(String, EngineStats)| {
        let values = values(stats).into_iter();
        values.map(|(label, value)| (format!("{base}{label}"), value)).collect::<Vec<_>>()
    };
    ranks.iter().flat_map(of_rank).collect()
}

fn gauges(app: &App, ranks: &[(String, EngineStats)]) -> Vec<Family> {
    let blocks = f64::from(app.config.kv_blocks);
    vec![
        gauge(
            "vllm:num_requests_running",
            "Number of requests in model execution batches.",
            series(ranks, |stats| vec![("", stats.running as f64)]),
        ),
        gauge(
            "vllm:num_requests_waiting",
            "Number of requests waiting to be processed.",
            series(ranks, |stats| vec![("", stats.waiting as f64)]),
        ),
        gauge(
            "vllm:num_requests_waiting_by_reason",
            "Number of waiting requests by reason.",
            series(ranks, |stats| {
                vec![(",reason=\"capacity\"", stats.waiting as f64), (",reason=\"deferred\"", 0.0)]
            }),
        ),
        gauge(
            "vllm:kv_cache_usage_perc",
            "KV-cache usage. 1 means 100 percent usage.",
            series(ranks, |stats| vec![("", stats.kv_blocks_held as f64 / blocks)]),
        ),
    ]
}

fn counters(ranks: &[(String, EngineStats)]) -> Vec<Family> {
    let one = |name, help, value: fn(&EngineStats) -> u64| {
        counter(name, help, series(ranks, |stats| vec![("", value(stats) as f64)]))
    };
    vec![
        one(
            "vllm:prefix_cache_queries_total",
            "Prefix cache queries, in terms of number of queried tokens.",
            |stats| stats.prompt_tokens,
        ),
        one(
            "vllm:prefix_cache_hits_total",
            "Prefix cache hits, in terms of number of cached tokens.",
            |stats| stats.reused_tokens,
        ),
        one("vllm:num_preemptions_total", "Cumulative number of preemption from the engine.", |stats| {
            stats.preemptions
        }),
        one("vllm:prompt_tokens_total", "Number of prefill tokens processed.", |stats| stats.prompt_tokens),
        counter(
            "vllm:prompt_tokens_by_source_total",
            "Number of prompt tokens by source.",
            series(ranks, |stats| {
                vec![
                    (",source=\"local_compute\"", stats.computed_tokens as f64),
                    (",source=\"local_cache_hit\"", stats.reused_tokens as f64),
                    (",source=\"external_kv_transfer\"", stats.transferred_tokens as f64),
                ]
            }),
        ),
        one(
            "vllm:prompt_tokens_cached_total",
            "Number of cached prompt tokens (local + external).",
            |stats| stats.reused_tokens + stats.transferred_tokens,
        ),
        one("vllm:generation_tokens_total", "Number of generation tokens processed.", |stats| {
            stats.generated_tokens
        }),
        one("vllm:nixl_num_kv_expired_reqs_total", "Number of requests whose KV expired.", |stats| {
            stats.expired_leases
        }),
        counter(
            "vllm:request_success_total",
            "Count of successfully processed requests.",
            series(ranks, |stats| {
                vec![
                    (",finished_reason=\"stop\"", 0.0),
                    (",finished_reason=\"length\"", stats.finished_sequences as f64),
                    (",finished_reason=\"abort\"", 0.0),
                ]
            }),
        ),
    ]
}

/// The first rank's series has those of all: they are looked at before a request has a rank.
fn images_seen(app: &App, ranks: &[(String, EngineStats)]) -> Family {
    let seen = app.images_seen.load(Ordering::Relaxed) as f64;
    let of_rank = |(rank, (labels, _)): (usize, &(String, EngineStats))| {
        (labels.clone(), if rank == 0 { seen } else { 0.0 })
    };
    let help = "Multi-modal cache queries, in terms of number of queried items.";
    counter("vllm:mm_cache_queries_total", help, ranks.iter().enumerate().map(of_rank).collect())
}

/// One of vLLM's blocks is a placeholder that no sequence gets, so it counts one more than it can use.
fn cache_config(app: &App, rank: usize) -> String {
    let blocks = app.config.kv_blocks + 1;
    let size = app.config.block_size.get();
    format!(
        "block_size=\"{size}\",enable_prefix_caching=\"True\",engine=\"{rank}\",kv_cache_size_tokens=\"{}\",\
         num_gpu_blocks=\"{blocks}\",prefix_caching_hash_algo=\"sha256\"",
        u64::from(blocks) * u64::from(size)
    )
}
