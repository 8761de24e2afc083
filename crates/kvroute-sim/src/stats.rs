//! What the engine truly did, as `GET /stats` tells it.

use serde::Serialize;

/// Counters since the start, and the present state. For every prompt, `prompt_tokens` is the sum of
/// `computed_tokens` and `reused_tokens`; a prompt with several choices counts once, work repeated after a
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
