//! Pools, the life of an attempt, and the relay between client and worker.
//!
//! This crate is where the pure parts (index, funnel, select) meet time, randomness and sockets. It serves no
//! HTTP itself: `kvroute-server` hands it requests and sends what it returns.

#![forbid(unsafe_code)]

mod admission;
mod advice;
mod affinity;
mod attempt;
mod cached_view;
pub mod config;
mod counting;
mod decisions;
mod desk;
mod dispatch;
mod engine_load;
mod error;
mod feed;
mod first_worker;
mod gate;
mod headers;
mod hints;
mod keeper;
mod knowledge;
mod lane;
mod log_gate;
mod membership;
mod memory;
mod placing;
mod plan;
mod pool;
mod promise;
mod rank;
mod relay;
mod request_id;
mod router;
mod seats;
mod snapshots;
mod source;
mod sources;
mod status;
mod supervisor;
mod unread;
mod upstream;
mod worker;

pub use advice::AdviceRequest;
pub use config::{PoolConfig, RouterConfig};
pub use decisions::{CandidateRecord, DecisionRecord, ReportRecord, ShadowRecord, Terms};
pub use error::{ErrorKind, Origin, RouteError};
pub use plan::{RouterError, RouterPlan};
pub use relay::RelayBody;
pub use router::{Inbound, Router};
pub use status::{ModelList, RankStatus, WorkerStatus};
pub use unread::Unread;
