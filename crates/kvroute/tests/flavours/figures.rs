//! What a cell of the table is judged by.

use kvroute_sim::EngineStats;
use kvroute_testkit::Exposition;

const F3: &str = "dynamo_component_router_kv_selected_cached_prefix_tokens_total";
const F4: &str = "dynamo_component_router_kv_worker_reused_tokens_total";
const REPORTS: &str = "kvroute_router_reuse_reports_total";

/// Figures of the router and of its only engine, at rest.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    /// F3; `None` where no index is asked.
    pub(crate) expected: Option<u64>,
    /// F4.
    pub(crate) reused: u64,
    /// Answers whose report was taken.
    pub(crate) reported: u64,
    /// Reports about another prompt than the one that was counted.
    pub(crate) mismatched: u64,
    /// Prompt tokens that the engine took from its cache.
    pub(crate) engine_reused: u64,
    /// Prompts that the engine computed.
    pub(crate) engine_prompt_tokens: u64,
}

// === impl Figures ===

impl Figures {
    pub(crate) fn new(scrape: &Exposition, stats: EngineStats) -> Self {
        let count = |name: &str, labels: &[(&str, &str)]| scrape.sum(name, labels).map(|value| value as u64);
        Self {
            expected: count(F3, &[]),
            reused: count(F4, &[]).unwrap_or_default(),
            reported: count(REPORTS, &[("outcome", "reported")]).unwrap_or_default(),
            mismatched: count(REPORTS, &[("outcome", "mismatched")]).unwrap_or_default(),
            engine_reused: stats.reused_tokens,
            engine_prompt_tokens: stats.prompt_tokens,
        }
    }

    /// What came after earlier figures.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            expected: self.expected.zip(earlier.expected).map(|(now, before)| now - before),
            reused: self.reused - earlier.reused,
            reported: self.reported - earlier.reported,
            mismatched: self.mismatched - earlier.mismatched,
            engine_reused: self.engine_reused - earlier.engine_reused,
            engine_prompt_tokens: self.engine_prompt_tokens - earlier.engine_prompt_tokens,
        }
    }
}
