//! What tests need to run real parts: engines and a router in this process or as processes of their own, what networks do
//! between them, a plain HTTP client, the books of a scrape, and what was logged.
//!
//! Failing here is a panic with a message: this crate is only ever used by tests.

#![forbid(unsafe_code)]
#![expect(clippy::panic, clippy::expect_used, reason = "a test helper fails the test that uses it")]

mod authority;
mod client;
mod closed_port;
mod exposition;
mod fault_run;
mod faulty_proxy;
mod fleet;
mod http2_front;
mod ledger;
mod log;
mod plain_worker;
mod process;

pub use authority::{Authority, Pair, connect_tls};
pub use client::{Answer, Client};
pub use closed_port::{ClosedPort, kept_address};
pub use exposition::Exposition;
pub use fault_run::FaultRun;
pub use faulty_proxy::{Fault, FaultyProxy};
pub use fleet::{Fleet, demo_tokenizer_folder, engine, server_config};
pub use http2_front::{Http2Fault, Http2Front, Reason as Http2Reason};
pub use ledger::Ledger;
pub use log::{CapturedLog, LogEntry};
pub use plain_worker::{PlainAnswer, PlainWorker};
pub use process::RunningProcess;
