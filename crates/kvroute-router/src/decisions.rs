//! Why a request went where it went: a record of what a decision saw, kept for those who ask afterwards.
//!
//! A log line for each candidate would be unreadable and a counter explains nothing, so each decision leaves one record
//! in memory: the candidates that mattered with every term of their cost, those that were excluded and why, and in the
//! end what the engine reported. It holds no text of the request: no prompt, no token ids, and of its headers only the
//! request id.
//!
//! A decision takes a few microseconds and its record must not double that. So a thousand candidates are gone through
//! once and never sorted, names are shared and not copied, and the lock of the ring is held for a push. What can be done
//! by those who read (the ids, the JSON) is left to them.

mod kept;
mod log;
mod record;
mod report;

use std::sync::Arc;
use std::time::Duration;

use kvroute_core::{CachedTokens, ModelName, Tokens};
use kvroute_funnel::CachedStages;
use kvroute_select::{Candidate, Cost, PickReason};

pub(crate) use log::{DecisionId, DecisionLog, find, latest};
pub use record::{CandidateRecord, DecisionRecord, ShadowRecord, Terms};
pub use report::ReportRecord;

use crate::desk::GivenUp;
use crate::rank::Rank;

/// What one decision saw, borrowed from whoever took it. All slices are in the order of `ranks`.
#[derive(Debug)]
pub(crate) struct Considered<'a> {
    /// The pool's model.
    pub(crate) model: &'a ModelName,
    /// Name of the policy that decided.
    pub(crate) policy: &'static str,
    /// Why this rank.
    pub(crate) reason: PickReason,
    /// The pool's ranks of that moment.
    pub(crate) ranks: &'a [Arc<Rank>],
    /// The same as the policy saw them.
    pub(crate) candidates: &'a [Candidate],
    /// What each would have cost; empty where the policy weighs no cost.
    pub(crate) costs: &'a [Option<Cost>],
    /// Raw cached prefix of each rank, also where its credit is withheld; `None` where no index was asked.
    pub(crate) cached: Option<&'a [CachedTokens]>,
    /// Position of the picked one.
    pub(crate) picked: usize,
    /// Prompt tokens; `None` where they were not counted.
    pub(crate) input: Option<Tokens>,
    /// A, F2 and F3; `None` where no index was asked.
    pub(crate) stages: Option<CachedStages>,
    /// What was given up between them.
    pub(crate) given_up: GivenUp,
    /// Name of each shadow policy and the position of what it would have picked.
    pub(crate) shadows: Vec<(&'static str, Option<usize>)>,
    /// How long the request stood in line before.
    pub(crate) waited: Duration,
}

// === impl Considered ===

impl Considered<'_> {
    /// Raw cached prefix of a rank; `None` where no index was asked.
    fn cached_on(&self, position: usize) -> Option<Tokens> {
        self.cached?.get(position).map(|cached| cached.total())
    }

    /// What a rank would have cost; `None` where it was excluded or nothing was weighed.
    fn cost_of(&self, position: usize) -> Option<Cost> {
        self.costs.get(position).copied().flatten()
    }
}

#[cfg(test)]
mod tests;
