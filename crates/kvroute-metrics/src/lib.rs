//! Everything that the router exports: one catalogue of families, typed handles on them, and the exposition.
//!
//! Three rules shape this crate. A metric name is spelled in [`CATALOGUE`] and nowhere else. A label value
//! comes from a closed type, so that no text of a client can become a series. And labels are resolved once,
//! into handles that the hot path holds: counting is one atomic addition, and a scrape takes no lock that a
//! request waits for.
//!
//! Nothing is global: two [`Metrics`] in one process know nothing of each other.

#![forbid(unsafe_code)]

mod attempt;
mod buckets;
mod catalogue;
mod connection;
mod error;
mod exposition;
mod families;
mod funnel;
mod handover;
mod history;
mod identity;
mod index;
mod label;
mod latency;
mod ledger;
mod metrics;
mod options;
mod overhead;
mod phase;
mod pool;
mod queue;
mod remembered;
mod request;
mod roster;
pub mod rows;
mod series;
mod shadow;
mod sharing;
mod source;
mod stage;
mod totals;
mod worker;

pub use attempt::AttemptMetrics;
pub use catalogue::{CATALOGUE, Group, Kind, Label, Row, Values};
pub use connection::ConnectionMetrics;
pub use error::MetricsError;
pub use funnel::{CachedTotals, LedgerTotals, Losses, ModelFunnel, PhaseFunnel};
pub use history::{HistoryBounds, HistoryLevels, HistoryMetrics};
pub use identity::{IdentityMetrics, TokenizerCacheMetrics};
pub use kvroute_core::{Direction, MessageResult, ReplayOutcome, SharingState, SourceState};
pub use label::{
    Endpoint, EngineRequests, EventKind, IdentityCheck, IdentityState, MigrationReason, Plane,
    PrefillFallbackReason, Presence, QueueRefusal, RefusedConnection, RejectReason, ReloadOutcome,
    RequestOutcome, RetryReason, RetryRefusal, Stage, TokenizerCache, WorkerState, WorkerType,
};
pub use latency::{AddedLatency, LatencyPart};
pub use metrics::Metrics;
pub use options::MetricsOptions;
pub use overhead::{DecisionMarks, OverheadMetrics};
pub use pool::{PoolLabels, PoolMetrics, SelectionOverlap};
pub use queue::{QueueMetrics, RequestInLine};
pub use remembered::RememberedMetrics;
pub use request::{RequestCounters, RequestRecorder, RequestShape};
pub use roster::{CrewMetrics, DiscoveryMetrics, ReloadMetrics};
pub use sharing::SharingMetrics;
pub use source::SourceMetrics;
pub use stage::{StageInFlight, StageMetrics};
pub use worker::{RankMetrics, WorkerMetrics};
