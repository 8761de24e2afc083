//! What one attempt teaches, once all of its answers have come to their end.

use std::sync::Arc;

use kvroute_core::{HashedPrompts, TokenId};
use kvroute_openai::Observation;

use super::PoolHistory;
use crate::outputs::Outputs;

/// Gathered while the answer passes.
#[derive(Clone, Debug)]
pub(crate) struct Lesson {
    history: Arc<PoolHistory>,
    /// The prompts, as they were looked up.
    prompts: Arc<HashedPrompts>,
    outputs: Outputs,
}

// === impl Lesson ===

impl Lesson {
    /// Of prompts that were looked up, and whose answers are followed by `outputs`.
    pub(crate) fn new(history: &Arc<PoolHistory>, prompts: Arc<HashedPrompts>, outputs: Outputs) -> Self {
        Self { history: Arc::clone(history), prompts, outputs }
    }

    /// Takes what was seen in the answer; `token_ids` came with it.
    pub(crate) fn observe(&mut self, observation: &Observation, token_ids: &[TokenId]) {
        self.outputs.observe(observation, token_ids);
    }

    /// The answer has come to its end. Returns whether anything was learned: not if one of several answers failed.
    pub(crate) fn teach(self) -> bool {
        if !self.outputs.all_finished() {
            return false;
        }
        let (size, learned) = (self.outputs.block_size(), self.outputs.learned());
        for (index, prompt) in self.prompts.of_size(size).iter().enumerate() {
            let mut outputs = learned.behind(index).peekable();
            if outputs.peek().is_none() {
                self.history.teach(size, prompt.hashes(), &[]);
            }
            outputs.for_each(|output| self.history.teach(size, prompt.hashes(), output));
        }
        self.history.untracked(learned.untracked);
        true
    }

    /// The prompts are computed; whatever is generated behind them is learned of another attempt.
    pub(crate) fn teach_prompts(&self) {
        let size = self.outputs.block_size();
        for prompt in self.prompts.of_size(size) {
            self.history.teach(size, prompt.hashes(), &[]);
        }
    }
}
