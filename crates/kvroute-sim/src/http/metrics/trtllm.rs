//! TensorRT-LLM's families, which it has beside its JSON statistics.

use super::{Family, counter, escape, gauge};
use crate::http::App;

/// Every family.
pub(super) fn families(app: &App) -> Vec<Family> {
    let stats = app.ranks.stats();
    let labels = format!("model_name=\"{}\",engine_type=\"undefined\"", escape(&app.config.model));
    let one = |value: f64| vec![(labels.clone(), value)];
    let usage = stats.kv_blocks_held as f64 / f64::from(app.config.kv_blocks);
    let hit_rate = stats.reused_tokens as f64 / stats.prompt_tokens.max(1) as f64;
    vec![
        gauge("trtllm_num_active_requests", "Number of active requests.", one(stats.running as f64)),
        gauge("trtllm_server_queue_length", "Number of queued requests.", one(stats.waiting as f64)),
        gauge("trtllm_kv_cache_utilization", "KV cache utilization.", one(usage)),
        gauge("trtllm_kv_cache_hit_rate", "KV cache hit rate.", one(hit_rate)),
        counter("trtllm_prompt_tokens_total", "Prompt tokens.", one(stats.prompt_tokens as f64)),
        counter(
            "trtllm_prompt_cached_tokens_total",
            "Cached prompt tokens.",
            one(stats.reused_tokens as f64),
        ),
    ]
}
