//! llama.cpp's families, without labels.

use super::{Family, counter, gauge};
use crate::http::App;

/// Every family.
pub(super) fn families(app: &App) -> Vec<Family> {
    let stats = app.ranks.stats();
    let one = |value: u64| vec![(String::new(), value as f64)];
    vec![
        counter(
            "llamacpp:prompt_tokens_total",
            "Number of prompt tokens processed, excluding cached tokens",
            one(stats.computed_tokens),
        ),
        counter(
            "llamacpp:prompt_tokens_cached_total",
            "Number of prompt tokens reused from the cache",
            one(stats.reused_tokens),
        ),
        counter(
            "llamacpp:tokens_predicted_total",
            "Number of generation tokens processed",
            one(stats.generated_tokens),
        ),
        gauge("llamacpp:requests_processing", "Number of requests processing", one(stats.running)),
        gauge("llamacpp:requests_deferred", "Number of requests deferred", one(stats.waiting)),
    ]
}
