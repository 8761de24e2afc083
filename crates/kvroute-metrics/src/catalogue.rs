//! Every family that this release exports: the single place where a metric name is spelled.
//!
//! The exposition, the help texts and the committed documentation all follow from these rows. A row stands
//! here only if something in the router really moves it.

mod attempt;
mod connection;
mod decision;
mod distinct;
mod funnel;
mod handover;
mod history;
mod identity;
mod index;
mod latency;
mod ledger;
mod process;
mod queue;
mod request;
mod roster;
mod shadow;
mod source;
mod worker;

use kvroute_core::{Exclusion, Phase, PlacementReason};
use kvroute_funnel::{
    Close, DeliveryReason, LossStage, NewReason, ReportOutcome, ResidencyReason, UnavailableReason,
    UncountedReason,
};

use crate::{
    Endpoint, EngineRequests, EventKind, IdentityCheck, IdentityState, LatencyPart, MigrationReason, Plane,
    PrefillFallbackReason, Presence, QueueRefusal, RefusedConnection, RejectReason, ReloadOutcome,
    ReplayOutcome, RequestOutcome, RetryReason, RetryRefusal, SourceState, Stage, TokenizerCache,
    WorkerState, WorkerType,
};

pub(crate) use self::{
    attempt::*, connection::*, decision::*, funnel::*, handover::*, history::*, identity::*, index::*,
    latency::*, ledger::*, process::*, queue::*, request::*, roster::*, shadow::*, source::*, worker::*,
};

/// One metric family.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Full name under the default prefix; of a histogram without `_bucket`, `_sum` and `_count`.
    pub name: &'static str,
    /// What kind of metric it is.
    pub kind: Kind,
    /// Labels beside the constant ones, in a fixed order.
    pub labels: &'static [Label],
    /// Upper bounds of a histogram's buckets; empty otherwise.
    pub buckets: &'static [f64],
    /// What one unit of the value is.
    pub unit: &'static str,
    /// What the value means: the help text of the exposition.
    pub help: &'static str,
    /// Which attempts, requests or ranks it speaks of: families of one population can be divided by each other.
    pub population: &'static str,
    /// When it moves.
    pub moves: &'static str,
    /// What 0 means, and when a series is absent, which is never the same.
    pub zero: &'static str,
    /// What an operator does about it.
    pub act: &'static str,
    /// How it differs from the family of the same name in the public Dynamo router; empty if it does not.
    pub differs: &'static str,
}

/// Kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts samples by size.
    Histogram,
}

/// One label of a family.
#[derive(Clone, Copy, Debug)]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// What its value can be.
    pub values: Values,
}

/// The closed set that a label's value comes from.
#[derive(Clone, Copy, Debug)]
pub enum Values {
    /// One of these texts.
    Of(&'static [&'static str]),
    /// A name that the configuration or the code owns.
    NameOf(&'static str),
}

/// Which names a family lives under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Named as in the public Dynamo router, under the configurable prefix.
    Standard,
    /// The router's own.
    Own,
    /// About the process, as every Prometheus client exports them.
    Process,
}

/// Every family, by topic.
pub const CATALOGUE: &[&Row] = &[
    // The funnel.
    &INPUT_TOKENS,
    &BEST_CACHED,
    &SELECTED_CACHED,
    &WORKER_REUSED,
    &ANYWHERE_CACHED,
    &REUSE_REPORTS,
    &REPORTED_INPUT,
    &EXPECTED_INPUT,
    &LEDGER_INPUT,
    &REPEATED_INPUT,
    &REUSE_LOST,
    &LOST_SECONDS,
    &REUSE_SURPLUS,
    &COMPARED_PREDICTED,
    &COMPARED_REPORTED,
    &UNCACHED_PREFILL,
    &UNCOUNTED_ATTEMPTS,
    // The history.
    &HISTORY_CACHED,
    &HISTORY_CACHED_BY_MODEL,
    &HISTORY_OBSERVED_INPUT,
    &HISTORY_OBSERVATIONS,
    &HISTORY_UNIQUE_HASHES,
    &HISTORY_REPRESENTED_TOKENS,
    &HISTORY_ESTIMATED_BYTES,
    &HISTORY_CAPACITY_BLOCKS,
    &HISTORY_CAPACITY_BYTES,
    &HISTORY_OLDEST_ENTRY_AGE,
    &HISTORY_UNTRACKED_OUTPUT,
    &HISTORY_SNAPSHOT_SECONDS,
    &HISTORY_SHARING,
    &HISTORY_SYNC_MESSAGES,
    &HISTORY_SYNC_DROPPED,
    &CLUSTER_PEERS,
    // Attempts.
    &BOOKINGS,
    &DISPATCHED_ATTEMPTS,
    &ATTEMPTS,
    &RETRIES,
    &RETRIES_REFUSED,
    &MIGRATIONS,
    &PREFILL_FALLBACKS,
    &STRANDED_PREFILL,
    // Identity.
    &IDENTITY_STATE,
    &IDENTITY_CHECKS,
    &TOKENIZER_CACHE,
    // Requests.
    &REQUESTS,
    &FIRST_TOKEN_SECONDS,
    &INTER_TOKEN_SECONDS,
    &OUTPUT_TOKENS,
    &STAGE_REQUESTS,
    &STAGE_SECONDS,
    &ADDED_LATENCY_SECONDS,
    // The queue.
    &QUEUE_PENDING,
    &QUEUE_WAIT_SECONDS,
    &QUEUE_REFUSED,
    // Decisions.
    &DECISIONS,
    &DECISIONS_RECORDED,
    &DECISIONS_UNRECORDED,
    &SHADOW_SELECTED,
    &SHADOW_INPUT,
    &HIT_RATE,
    &NON_MAX_OVERLAP,
    &OVERLAP_BLOCKS_LOST,
    &BLOCK_HASHING_MS,
    &SEQUENCE_HASHING_MS,
    &FIND_MATCHES_MS,
    &SCHEDULING_MS,
    &DECISION_MS,
    // Connections.
    &REFUSED_CONNECTIONS,
    // Workers.
    &POOL_WORKERS,
    &DISCOVERY_AGE,
    &DISCOVERY_FAILING,
    &CONFIG_RELOADS,
    &WORKER_STATE,
    &ACTIVE_DECODE_BLOCKS,
    &ACTIVE_PREFILL_TOKENS,
    &LAST_FIRST_TOKEN_SECONDS,
    &LAST_INPUT_TOKENS,
    &LAST_INTER_TOKEN_SECONDS,
    &WORKER_PREDICTED,
    &WORKER_REPORTED,
    &WORKER_RECENT,
    &WORKER_ENGINE_REQUESTS,
    &WORKER_ENGINE_LOAD_AGE,
    // The index and its sources.
    &INDEX_BYTES,
    &BUDGET_EVICTIONS,
    &SOURCE_STATE,
    &INDEX_BLOCKS,
    &BLOCKS_REJECTED,
    &EVENT_LAG_SECONDS,
    &INDEX_EVENTS,
    &INDEX_GAPS,
    &MISSED_BATCHES,
    &INDEX_REPLAYS,
    &INDEX_RESTARTS,
    &REMEMBERED_BLOCKS,
    &REMEMBERED_EVICTED,
    &REMEMBERED_FALLBACKS,
    &REMEMBERED_OUTPUT_BATCHES,
    // The process.
    &BUILD_INFO,
    &PROCESS_CPU_SECONDS,
    &PROCESS_OPEN_FDS,
    &PROCESS_MAX_FDS,
    &PROCESS_VIRTUAL_MEMORY,
    &PROCESS_RESIDENT_MEMORY,
    &PROCESS_START_TIME,
    &PROCESS_THREADS,
];

/// What every standard name begins with until an operator says otherwise.
const DEFAULT_PREFIX: &str = "dynamo";

const PHASE: Label = Label { name: "phase", values: Values::Of(&texts!(Phase)) };
const MODEL: Label = Label { name: "model", values: Values::NameOf("model of the pool") };
const POLICY: Label = Label { name: "policy", values: Values::NameOf("policy of the pool") };
const WORKER_ID: Label = Label { name: "worker_id", values: Values::NameOf("worker") };
const DP_RANK: Label = Label { name: "dp_rank", values: Values::NameOf("data-parallel rank of the worker") };
const WORKER_TYPE: Label = Label { name: "worker_type", values: Values::Of(WorkerType::VALUES) };

// === impl Row ===

impl Row {
    /// The name under a prefix: standard families exchange their leading `dynamo` for it.
    pub fn exposed_name(&self, prefix: &str) -> String {
        match (self.group(), self.name.strip_prefix(DEFAULT_PREFIX)) {
            (Group::Standard, Some(rest)) => format!("{prefix}{rest}"),
            _ => self.name.to_owned(),
        }
    }

    /// The group, by the name.
    pub fn group(&self) -> Group {
        if self.name.starts_with(DEFAULT_PREFIX) {
            return Group::Standard;
        }
        if self.name.starts_with("process_") { Group::Process } else { Group::Own }
    }
}

// === impl Kind ===

impl Kind {
    /// As the text format spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// The texts of all values of a closed set, at compile time.
macro_rules! texts {
    ($set:ty) => {{
        let mut texts = [""; <$set>::ALL.len()];
        let mut index = 0;
        while index < texts.len() {
            texts[index] = <$set>::ALL[index].as_str();
            index += 1;
        }
        texts
    }};
}
use texts;

#[cfg(test)]
mod tests;
