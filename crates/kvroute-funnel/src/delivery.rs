//! What became of the index's promise: F3 held against F4.
//!
//! Two parts of the difference are known with the report: what came on top, and what an engine never reuses
//! because it computes at least the last token of every prompt. Why the rest is missing shows only later: the
//! event that tells of an eviction may arrive after the report of the attempt that it concerns. So the rest
//! leaves the ledger as a [`PendingDelivery`], which whoever watches the events decides. One that nobody decides
//! books itself as unexplained when it is dropped, so that the account closes whatever happens.

use kvroute_core::{Tokens, closed_label, invariants};

use crate::FunnelSink;

/// F3 and F4 of one attempt and the parts of their difference, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// F3: what the index promised.
    pub predicted: Tokens,
    /// F4: what the engine reused.
    pub reported: Tokens,
    /// What the engine reused beyond the promise.
    pub surplus: Tokens,
    /// Part of the loss that no engine delivers: it computes at least the last token of a prompt.
    pub last_block: Tokens,
    /// The rest of the loss, whose reason shows only later.
    pub open: Tokens,
}

closed_label! {
    /// Why an engine reused less than the index promised, the first that applies.
    DeliveryReason {
        /// Engines compute at least the last token of a prompt, and with it the block that it stands in.
        LastBlock = "last_block",
        /// The index was behind: the engine had let a promised block go, or the index did not know for sure.
        StaleIndex = "stale_index",
        /// Neither.
        Unexplained = "unexplained",
    }
}

/// A loss without a reason yet. It must be decided once; dropping it books [`DeliveryReason::Unexplained`].
#[derive(Debug)]
#[must_use = "dropping it books the loss as unexplained at once"]
pub struct PendingDelivery<S: FunnelSink> {
    sink: S,
    /// Zero once it is booked.
    tokens: Tokens,
}

// === impl Delivery ===

impl Delivery {
    /// Splits the difference between what was promised and what was reused.
    pub(crate) fn of(reusable: Tokens, predicted: Tokens, reported: Tokens) -> Self {
        let lost = predicted.saturating_sub(reported);
        let last_block = lost.min(predicted.saturating_sub(reusable));
        Self {
            predicted,
            reported,
            surplus: reported.saturating_sub(predicted),
            last_block,
            open: lost - last_block,
        }
    }

    /// All that was promised and not reused.
    pub fn lost(&self) -> Tokens {
        self.last_block + self.open
    }

    /// True unless the parts do not add up to the difference, or tokens were both lost and won.
    pub fn is_consistent(&self) -> bool {
        invariants::delivery_closes(self.predicted, self.reported, self.lost(), self.surplus)
            && (self.lost().is_zero() || self.surplus.is_zero())
    }
}

// === impl PendingDelivery ===

impl<S: FunnelSink> PendingDelivery<S> {
    /// Takes over the sink of a closed attempt. `None` where nothing is left to decide.
    pub(crate) fn of(sink: S, tokens: Tokens) -> Option<Self> {
        (!tokens.is_zero()).then_some(Self { sink, tokens })
    }

    /// How much is lost; never zero.
    pub const fn tokens(&self) -> Tokens {
        self.tokens
    }

    /// The index was behind: a block that it had counted on was removed or cleared, or its source was not exact.
    pub fn stale_index(mut self) {
        self.book(DeliveryReason::StaleIndex);
    }

    /// Nothing that the index was told explains the loss.
    pub fn unexplained(mut self) {
        self.book(DeliveryReason::Unexplained);
    }

    fn book(&mut self, reason: DeliveryReason) {
        let tokens = std::mem::take(&mut self.tokens);
        if !tokens.is_zero() {
            self.sink.undelivered(reason, tokens);
        }
    }
}

impl<S: FunnelSink> Drop for PendingDelivery<S> {
    fn drop(&mut self) {
        self.book(DeliveryReason::Unexplained);
    }
}

#[cfg(test)]
mod tests;
