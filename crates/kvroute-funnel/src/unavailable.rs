//! What is cached nowhere where no history tells new text from text that was computed before: F0 − A by reason.

use kvroute_core::{RemovalCause, Tokens, closed_label};

use crate::missing::{MissingBlock, Unexplained, causes};

closed_label! {
    /// Why input was cached nowhere.
    UnavailableReason {
        /// The tokens behind the last complete block of a prompt: no engine caches a part of a block.
        PartialBlock = "partial_block",
        /// The worker that had the block left the pool.
        WorkerGone = "worker_gone",
        /// The cache that had it was emptied, or its event stream began anew.
        Cleared = "cleared",
        /// The index had no room for it within its own byte budget.
        IndexBudget = "index_budget",
        /// The remembered index let it go.
        Forgotten = "forgotten",
        /// The engine evicted it.
        Evicted = "evicted",
        /// Nothing is known of it, and some rank's source does not tell everything.
        SourceBlind = "source_blind",
        /// Nothing is known of it, and every source tells what it has: it is new, or has left long ago.
        NotCached = "not_cached",
    }
}

/// F0 − A by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnavailableLoss([Tokens; UnavailableReason::ALL.len()]);

// === impl UnavailableReason ===

impl From<RemovalCause> for UnavailableReason {
    fn from(cause: RemovalCause) -> Self {
        match cause {
            RemovalCause::WorkerGone => Self::WorkerGone,
            RemovalCause::Cleared => Self::Cleared,
            RemovalCause::IndexBudget => Self::IndexBudget,
            RemovalCause::Forgotten => Self::Forgotten,
            RemovalCause::Evicted => Self::Evicted,
        }
    }
}

// === impl UnavailableLoss ===

impl UnavailableLoss {
    /// Gives each of `lost` tokens its reason: at most `partial` lie behind the last complete block of their prompt; the
    /// others are those of the missing blocks, prompt by prompt. What no block accounts for is unknown like a block that
    /// nothing is known of.
    pub fn of<B: IntoIterator<Item = MissingBlock>>(
        lost: Tokens,
        partial: Tokens,
        prompts: impl IntoIterator<Item = B>,
        is_any_source_blind: bool,
    ) -> Self {
        let unknown = match is_any_source_blind {
            true => UnavailableReason::SourceBlind,
            false => UnavailableReason::NotCached,
        };
        let (mut loss, mut left) = (Self::default(), Unexplained(lost));
        loss.add(UnavailableReason::PartialBlock, left.take(partial));
        for (cause, tokens) in prompts.into_iter().flat_map(causes) {
            loss.add(cause.map_or(unknown, UnavailableReason::from), left.take(tokens));
        }
        loss.add(unknown, left.0);
        loss
    }

    /// Every reason with its tokens, zero included.
    pub fn by_reason(&self) -> impl Iterator<Item = (UnavailableReason, Tokens)> + '_ {
        UnavailableReason::ALL.into_iter().zip(self.0)
    }

    /// All of it.
    pub fn total(&self) -> Tokens {
        self.0.iter().copied().sum()
    }

    fn add(&mut self, reason: UnavailableReason, tokens: Tokens) {
        self.0[reason as usize] += tokens;
    }
}

#[cfg(test)]
mod tests;
