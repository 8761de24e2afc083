//! Pools, the life of an attempt, and the relay between client and worker.
//!
//! This crate is where the pure parts (index, funnel, select) meet time, randomness and sockets. It serves no
//! HTTP itself: `kvroute-server` hands it requests and sends what it returns.

#![forbid(unsafe_code)]

mod attempt;
mod cached_view;
pub mod config;
mod counting;
mod desk;
mod dispatch;
mod error;
mod feed;
mod headers;
mod knowledge;
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
mod snapshots;
mod source;
mod sources;
mod status;
mod supervisor;
mod unread;
mod upstream;
mod worker;

pub use config::{PoolConfig, RouterConfig};
pub use error::{ErrorKind, Origin, RouteError};
pub use plan::{RouterError, RouterPlan};
pub use relay::RelayBody;
pub use router::{Inbound, Router};
pub use status::{ModelList, RankStatus, WorkerStatus};
pub use unread::Unread;
