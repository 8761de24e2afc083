//! What a router's decision must offer to be measured.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use kvroute_core::TokenId;

use crate::index::workload::Event;

/// One request as the decision gets it.
#[derive(Debug)]
pub(crate) struct Request {
    /// Unique in its run.
    pub(crate) id: String,
    /// One prompt, tokenized.
    pub(crate) prompts: Vec<Vec<TokenId>>,
}

/// Where the time of one decision went.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    /// From tokens to block and sequence hashes.
    pub(crate) hash: Duration,
    /// To the cached prefix of every worker, in the form that the next part takes.
    pub(crate) lookup: Duration,
    /// To a worker that is picked and booked; waiting for others that decide is part of it.
    pub(crate) decide: Duration,
}

/// Which threads a contestant will be called from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Callers {
    /// One, and nothing else runs.
    One,
    /// Several at a time.
    Several,
}

/// A router's decision, with the index and the load that it is taken from.
pub(crate) trait Contestant: Sized + Sync {
    const NAME: &'static str;

    /// What a caller keeps from decision to decision.
    type Room: Default + Send;
    /// An attempt in flight.
    type Placed: Send;
    type Event: Send;

    fn new(workers: usize, callers: Callers) -> Result<Self>;
    fn event(event: &Event) -> Self::Event;

    /// Applies one event of a worker to the index.
    fn apply(&self, event: Self::Event);

    /// Returns when decisions see everything that was applied.
    fn flush(&self) {}

    fn decide(&self, request: &Arc<Request>, room: &mut Self::Room) -> Result<(Self::Placed, Parts)>;

    /// The attempt's prompt is computed. Returns how long it took to note that.
    fn first_token(&self, placed: &Self::Placed) -> Result<Duration>;

    /// The attempt is over. Returns how long it took to note that.
    fn release(&self, placed: Self::Placed) -> Result<Duration>;

    /// Attempts in flight on each worker, as the contestant counts them.
    fn loads(&self) -> Vec<usize>;
}

// === impl Parts ===

impl Parts {
    pub(crate) fn whole(&self) -> Duration {
        self.hash + self.lookup + self.decide
    }
}
