//! What one attempt teaches, once all of its answers have come to their end.

use std::sync::Arc;

use kvroute_core::{BlockSize, HashedPrompts, TokenId};
use kvroute_openai::Observation;

use super::PoolHistory;
use crate::outputs::Outputs;

/// Gathered while the answer passes.
#[derive(Debug)]
pub(crate) struct Lesson {
    history: Arc<PoolHistory>,
    /// The block size that the attempt was looked up by.
    size: BlockSize,
    outputs: Outputs,
}

// === impl Lesson ===

impl Lesson {
    /// Of an attempt that was looked up by this block size, and whose answers are followed by `outputs`.
    pub(crate) fn new(history: &Arc<PoolHistory>, size: BlockSize, outputs: Outputs) -> Self {
        Self { history: Arc::clone(history), size, outputs }
    }

    /// Takes what was seen in the answer; `token_ids` came with it.
    pub(crate) fn observe(&mut self, observation: &Observation, token_ids: &[TokenId]) {
        self.outputs.observe(observation, token_ids);
    }

    /// The answer has come to its end. Returns whether anything was learned: not if one of several answers failed.
    pub(crate) fn teach(self, hashed: &HashedPrompts) -> bool {
        if !self.outputs.all_finished() {
            return false;
        }
        let learned = self.outputs.learned();
        for (index, prompt) in hashed.of_size(self.size).iter().enumerate() {
            let mut outputs = learned.behind(index).peekable();
            if outputs.peek().is_none() {
                self.history.teach(self.size, prompt.hashes(), &[]);
            }
            outputs.for_each(|output| self.history.teach(self.size, prompt.hashes(), output));
        }
        self.history.untracked(learned.untracked);
        true
    }
}
