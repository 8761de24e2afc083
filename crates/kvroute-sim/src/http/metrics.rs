//! `GET /metrics`: the families of vLLM that a router reads, with vLLM's labels.

use std::fmt::Write;
use std::sync::Arc;
use std::time::SystemTime;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::App;
use crate::stats::EngineStats;

/// One family: its name, its kind, what it says, and its series by further labels.
struct Family {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    series: Vec<(&'static str, f64)>,
}

/// The whole exposition.
pub(super) async fn metrics(State(app): State<Arc<App>>) -> Response {
    let content_type = [(header::CONTENT_TYPE, "text/plain; version=1.0.0; charset=utf-8")];
    (content_type, render(&app, &app.engine.stats())).into_response()
}

fn render(app: &App, stats: &EngineStats) -> String {
    let mut out = String::new();
    let started = app.started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    header_lines(
        &mut out,
        "process_start_time_seconds",
        "gauge",
        "Start time of the process since unix epoch in seconds.",
    );
    line(&mut out, "process_start_time_seconds", "", started.as_secs_f64());
    let base = format!("engine=\"0\",model_name=\"{}\"", escape(&app.config.model));
    let usage = stats.kv_blocks_held as f64 / f64::from(app.config.kv_blocks);
    for family in gauges(stats, usage).into_iter().chain(counters(stats)) {
        header_lines(&mut out, family.name, family.kind, family.help);
        for (label, value) in family.series {
            line(&mut out, family.name, &format!("{base}{label}"), value);
        }
    }
    header_lines(&mut out, CACHE_CONFIG, "gauge", "Information of the LLMEngine CacheConfig");
    line(&mut out, CACHE_CONFIG, &cache_config(app), 1.0);
    out
}

const CACHE_CONFIG: &str = "vllm:cache_config_info";

fn gauges(stats: &EngineStats, usage: f64) -> Vec<Family> {
    let gauge = |name, help, series| Family { name, kind: "gauge", help, series };
    vec![
        gauge(
            "vllm:num_requests_running",
            "Number of requests in model execution batches.",
            vec![("", stats.running as f64)],
        ),
        gauge(
            "vllm:num_requests_waiting",
            "Number of requests waiting to be processed.",
            vec![("", stats.waiting as f64)],
        ),
        gauge(
            "vllm:num_requests_waiting_by_reason",
            "Number of waiting requests by reason.",
            vec![(",reason=\"capacity\"", stats.waiting as f64), (",reason=\"deferred\"", 0.0)],
        ),
        gauge("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", vec![("", usage)]),
    ]
}

fn counters(stats: &EngineStats) -> Vec<Family> {
    let counter = |name, help, series| Family { name, kind: "counter", help, series };
    let (computed, reused) = (stats.computed_tokens as f64, stats.reused_tokens as f64);
    vec![
        counter(
            "vllm:prefix_cache_queries_total",
            "Prefix cache queries, in terms of number of queried tokens.",
            vec![("", stats.prompt_tokens as f64)],
        ),
        counter(
            "vllm:prefix_cache_hits_total",
            "Prefix cache hits, in terms of number of cached tokens.",
            vec![("", reused)],
        ),
        counter(
            "vllm:num_preemptions_total",
            "Cumulative number of preemption from the engine.",
            vec![("", stats.preemptions as f64)],
        ),
        counter(
            "vllm:prompt_tokens_total",
            "Number of prefill tokens processed.",
            vec![("", stats.prompt_tokens as f64)],
        ),
        counter(
            "vllm:prompt_tokens_by_source_total",
            "Number of prompt tokens by source.",
            vec![
                (",source=\"local_compute\"", computed),
                (",source=\"local_cache_hit\"", reused),
                (",source=\"external_kv_transfer\"", 0.0),
            ],
        ),
        counter(
            "vllm:prompt_tokens_cached_total",
            "Number of cached prompt tokens (local + external).",
            vec![("", reused)],
        ),
        counter(
            "vllm:generation_tokens_total",
            "Number of generation tokens processed.",
            vec![("", stats.generated_tokens as f64)],
        ),
        counter(
            "vllm:request_success_total",
            "Count of successfully processed requests.",
            vec![
                (",finished_reason=\"stop\"", 0.0),
                (",finished_reason=\"length\"", stats.finished_sequences as f64),
                (",finished_reason=\"abort\"", 0.0),
            ],
        ),
    ]
}

/// One of vLLM's blocks is a placeholder that no sequence gets, so it counts one more than it can use.
fn cache_config(app: &App) -> String {
    let blocks = app.config.kv_blocks + 1;
    let size = app.config.block_size.get();
    format!(
        "block_size=\"{size}\",enable_prefix_caching=\"True\",engine=\"0\",kv_cache_size_tokens=\"{}\",\
         num_gpu_blocks=\"{blocks}\",prefix_caching_hash_algo=\"sha256\"",
        u64::from(blocks) * u64::from(size)
    )
}

fn header_lines(out: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string cannot fail.
    let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
}

fn line(out: &mut String, name: &str, labels: &str, value: f64) {
    let _ = match labels {
        "" => writeln!(out, "{name} {value:?}"),
        labels => writeln!(out, "{name}{{{labels}}} {value:?}"),
    };
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
