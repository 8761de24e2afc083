//! What is cached nowhere where a history knows what was computed before: F0 − F1 and F1 − A by reason.
//!
//! New text costs its prefill whatever a router does; text that was computed before and is cached nowhere any more costs it
//! because a cache lost it. Only the second can be saved, so the two are different stages.
//!
//! The longest cached prefix may be longer than what the history knows: other routers send to the same workers, and a history
//! forgets. What it has more is a surplus, so that the account closes over any number of attempts.

use kvroute_core::{RemovalCause, Tokens, closed_label};

use crate::missing::{MissingBlock, Unexplained, causes};

closed_label! {
    /// Why input was not known to the history.
    NewReason {
        /// The tokens behind the last complete block of a prompt: no history knows a part of a block.
        PartialBlock = "partial_block",
        /// No request that the history learned has computed it.
        Unseen = "unseen",
    }
}

closed_label! {
    /// Why input that was computed before is cached nowhere.
    ResidencyReason {
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
        /// Nothing is known of its removal, and some rank's source does not tell everything.
        SourceBlind = "source_blind",
        /// Nothing is known of its removal, and every source tells what it has: it has left long ago.
        Unknown = "unknown",
    }
}

/// The ends of the two stages of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryTerms {
    /// F0.
    pub input: Tokens,
    /// F1.
    pub history: Tokens,
    /// A.
    pub anywhere: Tokens,
    /// Tokens behind the last complete block of each prompt, by the pool's smallest block size.
    pub partial: Tokens,
}

/// F0 − F1 and F1 − A by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryLoss {
    new: [Tokens; NewReason::ALL.len()],
    residency: [Tokens; ResidencyReason::ALL.len()],
    surplus: Tokens,
}

// === impl ResidencyReason ===

impl From<RemovalCause> for ResidencyReason {
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

// === impl HistoryLoss ===

impl HistoryLoss {
    /// Gives each lost token its reason. Of each prompt comes how far the history reaches beyond its longest cached prefix,
    /// and what is missing behind that prefix: blocks behind the end of the history are new, whatever became of them. What no
    /// block accounts for is unknown like a block that nothing is known of. Nothing is asked of the prompts once every token
    /// has its reason.
    pub fn of<B: IntoIterator<Item = MissingBlock>>(
        terms: HistoryTerms,
        prompts: impl IntoIterator<Item = (Tokens, B)>,
        is_any_source_blind: bool,
    ) -> Self {
        let HistoryTerms { input, history, anywhere, partial } = terms;
        let mut loss = Self { surplus: anywhere.saturating_sub(history), ..Self::default() };
        loss.explain_new(input.saturating_sub(history), partial);
        loss.explain_residency(history.saturating_sub(anywhere), prompts, is_any_source_blind);
        loss
    }

    /// Every reason of F0 − F1 with its tokens, zero included.
    pub fn new_by_reason(&self) -> impl Iterator<Item = (NewReason, Tokens)> + '_ {
        NewReason::ALL.into_iter().zip(self.new)
    }

    /// Every reason of F1 − A with its tokens, zero included.
    pub fn residency_by_reason(&self) -> impl Iterator<Item = (ResidencyReason, Tokens)> + '_ {
        ResidencyReason::ALL.into_iter().zip(self.residency)
    }

    /// F0 − F1.
    pub fn new_tokens(&self) -> Tokens {
        self.new.iter().copied().sum()
    }

    /// F1 − A, or nothing where A is longer.
    pub fn residency_tokens(&self) -> Tokens {
        self.residency.iter().copied().sum()
    }

    /// A − F1, or nothing where F1 is longer.
    pub const fn surplus_tokens(&self) -> Tokens {
        self.surplus
    }

    fn explain_new(&mut self, lost: Tokens, partial: Tokens) {
        let mut left = Unexplained(lost);
        self.new[NewReason::PartialBlock as usize] = left.take(partial);
        self.new[NewReason::Unseen as usize] = left.0;
    }

    fn explain_residency<B: IntoIterator<Item = MissingBlock>>(
        &mut self,
        lost: Tokens,
        prompts: impl IntoIterator<Item = (Tokens, B)>,
        is_any_source_blind: bool,
    ) {
        let unknown = match is_any_source_blind {
            true => ResidencyReason::SourceBlind,
            false => ResidencyReason::Unknown,
        };
        let mut left = Unexplained(lost);
        let mut prompts = prompts.into_iter();
        while !left.0.is_zero()
            && let Some((beyond, blocks)) = prompts.next()
        {
            let mut known = Unexplained(beyond);
            for (cause, tokens) in causes(blocks) {
                let taken = left.take(known.take(tokens));
                self.residency[cause.map_or(unknown, ResidencyReason::from) as usize] += taken;
                if known.0.is_zero() {
                    break;
                }
            }
        }
        self.residency[unknown as usize] += left.0;
    }
}

#[cfg(test)]
mod tests;
