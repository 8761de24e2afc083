//! Where the numbers of an attempt go.
//!
//! A trait, because three things keep them: the metrics of the live router, the totals of a replay, and the
//! recorder of the property tests.

use kvroute_core::Tokens;

use crate::{Judgement, Opening, ReportOutcome};

/// Keeps the numbers of one attempt. Phase, model and worker are the sink's own affair: it is made for one
/// attempt, with its labels frozen.
///
/// Called in this order: `opened` once, `judged` at most once, `closed` once. No call may block.
pub trait FunnelSink {
    /// A booking exists: everything that is known at selection, in one call.
    fn opened(&self, opening: &Opening);

    /// The attempt's one report outcome. Not called for endpoints without a prompt.
    fn judged(&self, judgement: &Judgement);

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
