//! What the selection already knows to be lost: F0 − A, A − F2 and F2 − F3, each token with its reason.
//!
//! A reason is decided where its facts are: the router knows which ranks were excluded, the selector what a candidate
//! would have cost, the index what left it. Here the facts become amounts that close: the reasons of a stage always add
//! up to its difference, whatever the facts lack.

use kvroute_core::{Exclusion, PlacementReason, RemovalCause, Tokens, closed_label};

use crate::CachedStages;

closed_label! {
    /// Between which two stages of the funnel tokens were lost.
    LossStage {
        /// Between the input and the longest cached prefix anywhere.
        Unavailable = "unavailable",
        /// Between the longest cached prefix anywhere and the longest one that could be picked.
        Eligibility = "eligibility",
        /// Between the longest one that could be picked and the one that was picked.
        Placement = "placement",
        /// Between the promise of the index and the engine's report.
        Delivery = "delivery",
    }
}

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

/// What is known of one block of a prompt that the longest cached prefix does not cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingBlock {
    /// Its tokens, less those that the prefix covers all the same, where block sizes differ.
    pub tokens: Tokens,
    /// Its newest removal from any rank that could take the attempt.
    pub removed: Option<RemovalCause>,
    /// Whether some rank still holds it, useless behind the hole in front of it.
    pub is_held: bool,
}

/// All that is lost by the selection, with its reasons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SelectionLosses {
    /// F0 − A.
    pub unavailable: UnavailableLoss,
    /// Of A − F2: the first reason that excluded any holder of A. `None` where nothing is lost there.
    pub eligibility: Option<Exclusion>,
    /// Of F2 − F3; `None` where nothing is lost there.
    pub placement: Option<PlacementReason>,
}

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
        let mut loss = Self::default();
        let mut left = lost;
        let unknown = match is_any_source_blind {
            true => UnavailableReason::SourceBlind,
            false => UnavailableReason::NotCached,
        };
        loss.take(UnavailableReason::PartialBlock, partial, &mut left);
        for blocks in prompts {
            let mut hole = None;
            for block in blocks {
                let reason = block.reason(hole, unknown);
                loss.take(reason, block.tokens, &mut left);
                hole = Some(reason);
            }
        }
        loss.take(unknown, left, &mut { left });
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

    fn take(&mut self, reason: UnavailableReason, tokens: Tokens, left: &mut Tokens) {
        let taken = tokens.min(*left);
        self.0[reason as usize] += taken;
        *left -= taken;
    }
}

// === impl MissingBlock ===

impl MissingBlock {
    fn reason(&self, hole: Option<UnavailableReason>, unknown: UnavailableReason) -> UnavailableReason {
        match hole {
            Some(hole) if self.is_held => hole,
            _ => self.removed.map_or(unknown, UnavailableReason::from),
        }
    }
}

// === impl SelectionLosses ===

impl SelectionLosses {
    /// True unless a stage has a difference without a reason, a reason without a difference, or an amount that is not the
    /// difference: `F0 = unavailable + A`.
    pub fn close(&self, input: Tokens, stages: &CachedStages) -> bool {
        let CachedStages { anywhere, best, selected } = *stages;
        self.unavailable.total() + anywhere == input
            && self.eligibility.is_some() == (best < anywhere)
            && self.placement.is_some() == (selected < best)
    }
}

#[cfg(test)]
pub(crate) mod tests;
