//! Where a pool finds workers beside those that are configured.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// One pool's discovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveryConfig {
    /// What is looked at.
    pub kind: DiscoveryKind,
    /// Longest time between two looks.
    pub refresh: Duration,
}

/// What is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiscoveryKind {
    /// A file with a worker a line, or a JSON list of them.
    File(PathBuf),
    /// Records of the domain name system.
    Dns {
        /// Which records, and what they lack.
        name: DnsName,
        /// Whether workers are asked over TLS.
        is_https: bool,
        /// The server that is asked; `None` asks those of the system.
        server: Option<SocketAddr>,
    },
}

/// Which records of a name say where workers are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DnsName {
    /// SRV records, which tell host and port.
    Service(String),
    /// A and AAAA records, which tell addresses; the port is configured.
    Host(String, u16),
}
