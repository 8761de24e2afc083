//! What the router shares with what is around it: with replicas of it, and with whatever knows where workers are.
//!
//! [`discovery`] finds workers in a file or by the domain name system. All else is about replicas, and the histories of what was
//! ever computed, over a NATS server:
//!
//! Each replica tells all others what it taught its own history, and they teach theirs the same, so that "was this ever
//! computed" means the whole fleet. It is a courtesy, not a protocol that anything waits for: NATS delivers at most once,
//! a full queue drops, and a history that misses something only counts lower. Everything that is lost is counted, and a
//! replica that joins asks another one for what it missed.
//!
//! A request only copies hashes into a bounded queue ([`Sharing::taught`]). One task does the rest; it owns the connection,
//! whose end it notices and never hides.

#![forbid(unsafe_code)]

mod cluster;
mod config;
mod connecting;
pub mod discovery;
mod domains;
mod health;
mod joins;
mod link;
pub mod message;
mod outbox;
mod peers;
mod server;
mod session;
mod shared;
mod transfers;
mod watcher;

pub use cluster::{Cluster, Sharing};
pub use config::{ClusterConfig, Timing};
pub use server::ClusterError;
pub use watcher::SharingWatcher;
