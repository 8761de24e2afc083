//! Everything that differs from engine to engine: what it answers to a probe, how it publishes KV events, how it
//! tokenizes, what may be sent to it.
//!
//! Each engine is one file that fills one row of the table in `spec`; the rest of the router asks [`EngineKind`] and
//! never compares names. KV events have one decoder and one state machine for all engines, since they share a wire.

#![forbid(unsafe_code)]

mod capabilities;
mod connector;
mod contradictions;
pub mod events;
mod exposition;
#[doc(hidden)]
pub mod fuzz;
mod health;
mod http;
mod kind;
mod llamacpp;
mod load;
mod openai;
mod probe;
mod render_remote;
mod sglang;
mod shortage;
mod spec;
pub mod tls;
mod tokenize_remote;
mod trtllm;
mod vllm;

pub use capabilities::{AbortCall, Handoff, RankSteering};
pub use connector::{Connector, WorkerStream};
pub use contradictions::{
    Claim, ComparedWorker, Contradiction, ContradictionKind, WorkerClaims, contradictions,
};
pub use health::{HealthError, check_health};
pub use http::{CallError, HttpClient};
pub use kind::EngineKind;
pub use load::{EngineLoad, EngineLoads, LoadError, fetch_load};
pub use probe::{AnnouncedEvents, Probe, ProbeError, RankClaim, ServedModel, probe};
pub use render_remote::{RemoteRenderer, RenderedChat};
pub use shortage::{io_error_in, is_shortage};
pub use spec::ChatStyle;
pub use tls::{TlsError, UpstreamTls};
pub use tokenize_remote::{RemoteTokenizeError, RemoteTokenizer};
