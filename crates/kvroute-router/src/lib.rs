//! Pools, the life of an attempt, and the relay between client and worker.
//!
//! This crate is where the pure parts (index, funnel, select) meet time, randomness and sockets. It serves no
//! HTTP itself: `kvroute-server` hands it requests and sends what it returns.

#![forbid(unsafe_code)]

mod access;
mod admission;
mod advice;
mod affinity;
mod attempt;
mod breaker;
mod cached_view;
mod comparison;
pub mod config;
mod counting;
mod decisions;
mod desk;
mod discovery;
mod dispatch;
mod engine_load;
mod error;
mod feed;
mod finder;
mod first_worker;
mod fleet;
mod funnel_report;
mod funnel_window;
#[doc(hidden)]
pub mod fuzz;
mod gate;
mod handover;
mod headers;
mod health;
mod hints;
mod history;
mod identity;
mod keeper;
mod knowledge;
mod lane;
mod log_gate;
mod membership;
mod memory;
mod migration;
mod missing;
mod outputs;
mod placing;
mod plan;
mod pool;
mod previous_responses;
mod promise;
mod rank;
mod relay;
mod reload;
mod request_id;
mod resending;
mod retries;
mod retry_budget;
mod roster;
mod route;
mod router;
mod seats;
mod snapshot_path;
mod snapshots;
mod source;
mod sources;
mod spans;
mod status;
mod supervisor;
mod tenant;
mod trace_context;
mod trail;
mod unread;
mod upstream;
mod wall_clock;
mod window;
mod worker;

pub use access::ACCESS;
pub use advice::AdviceRequest;
pub use config::{PoolConfig, RouterConfig};
pub use counting::chat_rules;
pub use decisions::{CandidateRecord, DecisionRecord, ReportRecord, ShadowRecord, Terms};
pub use error::{ErrorKind, Origin, RouteError};
pub use finder::DiscoveryStatus;
pub use funnel_report::{ByName, FunnelReport, FunnelRow, HistoryRow, LostByStage, ModelRow, SurplusByStage};
pub use funnel_window::FunnelSpan;
pub use plan::{RouterError, RouterPlan};
pub use relay::RelayBody;
pub use reload::ReloadReport;
pub use roster::RosterError;
pub use router::{Inbound, Router};
pub use spans::{ATTEMPT, REQUEST, SPANS};
pub use status::{IdentityStatus, ModelList, RankStatus, WorkerStatus};
pub use trace_context::{SpanId, TraceContext, TraceId, TraceParent};
pub use unread::{Arrival, Unread};
