//! What the engine truly did, as `GET /stats` tells it.

use serde::Serialize;

/// Counters since the start, and the present state. For every prompt, `prompt_tokens` is the sum of
/// `computed_tokens`, `reused_tokens` and `transferred_tokens`; a prompt with several choices counts once, work repeated after a
/// preemption not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EngineStats {
    /// Requests accepted for generation.
    pub requests: u64,
    /// Tokens of the prompts whose first token was generated.
    pub prompt_tokens: u64,
    /// Those that were computed.
    pub computed_tokens: u64,
    /// Those that were taken from the cache.
    pub reused_tokens: u64,
    /// Those whose KV another engine had computed and handed over. The prompt's last token counts as handed over too, though
    /// engines may compute it again.
    pub transferred_tokens: u64,
    /// Times that KV was given up which had been kept for another engine that did not come in time.
    pub expired_leases: u64,
    /// Blocks that hold KV now: of sequences, or cached.
    pub kv_blocks_used: u64,
    /// Blocks that sequences hold now.
    pub kv_blocks_held: u64,
    /// Different contents of complete blocks that are cached now, whoever holds them and however often.
    pub kv_contents_cached: u64,
    /// Tokens generated.
    pub generated_tokens: u64,
    /// Sequences that reached their token limit.
    pub finished_sequences: u64,
    /// Sequences being computed now.
    pub running: u64,
    /// Sequences that wait to be computed.
    pub waiting: u64,
    /// Times that a sequence had to give its blocks to an older one.
    pub preemptions: u64,
}

// === impl EngineStats ===

impl EngineStats {
    /// Those of several ranks together.
    pub(crate) fn sum(ranks: impl IntoIterator<Item = Self>) -> Self {
        ranks.into_iter().fold(Self::default(), |sum, rank| Self {
            requests: sum.requests + rank.requests,
            prompt_tokens: sum.prompt_tokens + rank.prompt_tokens,
            computed_tokens: sum.computed_tokens + rank.computed_tokens,
            reused_tokens: sum.reused_tokens + rank.reused_tokens,
            transferred_tokens: sum.transferred_tokens + rank.transferred_tokens,
            expired_leases: sum.expired_leases + rank.expired_leases,
            kv_blocks_used: sum.kv_blocks_used + rank.kv_blocks_used,
            kv_blocks_held: sum.kv_blocks_held + rank.kv_blocks_held,
            kv_contents_cached: sum.kv_contents_cached + rank.kv_contents_cached,
            generated_tokens: sum.generated_tokens + rank.generated_tokens,
            finished_sequences: sum.finished_sequences + rank.finished_sequences,
            running: sum.running + rank.running,
            waiting: sum.waiting + rank.waiting,
            preemptions: sum.preemptions + rank.preemptions,
        })
    }
}
