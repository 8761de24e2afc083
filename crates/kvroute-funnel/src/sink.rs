//! Where the numbers of an attempt go.
//!
//! A trait, because three things keep them: the metrics of the live router, the totals of a replay, and the
//! recorder of the property tests.

use kvroute_core::{Tokens, closed_label};

use crate::{DeliveryReason, Judgement, Opening, PendingDelivery, ReportOutcome};

/// Keeps the numbers of one attempt. Phase, model and worker are the sink's own affair: it is made for one
/// attempt, with its labels frozen.
///
/// Called in this order: `opened` once, `judged` at most once, `closed` once. `undelivered` follows `judged` at
/// once for what is known then, and at most once more, after `closed`, for what was decided later. No call may
/// block.
pub trait FunnelSink {
    /// A booking exists: everything that is known at selection, in one call, the losses between F0 and F3 included.
    fn opened(&self, opening: &Opening);

    /// The attempt's one report outcome. Not called for endpoints without a prompt.
    fn judged(&self, judgement: &Judgement);

    /// Tokens that were promised and not reused, with the reason; never zero. Over one attempt they add up to
    /// [`Delivery::lost`](crate::Delivery::lost) of its judgement.
    fn undelivered(&self, reason: DeliveryReason, tokens: Tokens);

    /// The attempt is over.
    fn closed(&self, closing: &Closing);
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Close {
    /// The worker's answer was passed on to its end.
    Completed,
    /// The worker or the way to it failed.
    Failed,
    /// The client went away, or nobody waited any more.
    Cancelled,
}

closed_label! {
    /// What became of an attempt that the history was asked about.
    HistoryObservation {
        /// The history learned it.
        Complete = "complete",
        /// It failed, was cancelled or broke off, so that nothing was taught.
        Incomplete = "incomplete",
    }
}

/// What is known of an attempt once it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closing {
    /// How it ended.
    pub close: Close,
    /// Whether the worker had the request at all; false when connecting failed.
    pub dispatched: bool,
    /// The report outcome; `None` for endpoints without a prompt.
    pub outcome: Option<ReportOutcome>,
    /// F4, where the outcome adds to it.
    pub reused: Option<Tokens>,
    /// What the history learned of it; present exactly when its [`Opening`] has F1.
    pub observation: Option<HistoryObservation>,
}

/// A closed attempt, and what is still to be decided of it.
#[derive(Debug)]
pub struct Closed<S: FunnelSink> {
    /// What is known.
    pub closing: Closing,
    /// The loss that has no reason yet, if there is one. Dropping it books it as unexplained.
    pub pending: Option<PendingDelivery<S>>,
}

// === impl Close ===

impl Close {
    /// Every ending, in the order of the documentation.
    pub const ALL: [Self; 3] = [Self::Completed, Self::Failed, Self::Cancelled];

    /// The label value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}
