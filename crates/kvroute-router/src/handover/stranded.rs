//! Computed prompts that nobody takes over.

use std::sync::Arc;

use kvroute_core::Tokens;

use crate::pool::Pool;

/// A prompt that was computed for another worker. Dropped before that one has taken it over, it is counted: its KV stays
/// at its worker until the engine's own time limit frees it, and no engine that hands over in turn can be told to.
#[derive(Debug)]
pub(super) struct Computed {
    pool: Arc<Pool>,
    prompt: Tokens,
    is_taken: bool,
}

// === impl Computed ===

impl Computed {
    /// So long a prompt, not taken over yet.
    pub(super) fn new(pool: &Arc<Pool>, prompt: Tokens) -> Self {
        Self { pool: Arc::clone(pool), prompt, is_taken: false }
    }

    /// Another worker answers to it.
    pub(super) fn taken(mut self) {
        self.is_taken = true;
    }
}

impl Drop for Computed {
    fn drop(&mut self) {
        if !self.is_taken {
            self.pool.metrics().stranded(self.prompt);
            tracing::debug!(model = %self.pool.model(), tokens = self.prompt.get(), "computed prompt was not taken over");
        }
    }
}
