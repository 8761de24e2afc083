//! Workers by the domain name system: SRV records, or the addresses of a host.
//!
//! Nothing is kept between two questions: the answer says how long it holds, and whoever asks waits for that. The two kinds
//! of addresses are asked for one by one, since an answer to one of them and a fault of the other are no whole answer.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{NameServerConfig, ResolveHosts, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError as NoAnswer, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{RData, Record, RecordType};

/// One question gets an answer in this time, or is asked once more.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often a question is asked again that got no answer.
const AGAIN: usize = 1;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// SRV records: they tell hosts and ports.
    Service(String),
    /// A and AAAA records: they tell addresses, and the port is known.
    Host(String, u16),
}

/// What stands behind a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Hosts and ports, as they stand in an address: IPv6 in brackets.
    pub places: BTreeSet<String>,
    /// How long that holds.
    pub holds: Duration,
}

/// Why a name could not be looked up.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DnsError {
    /// The system's configuration names no server that could be asked.
    #[error("the system's resolver is of no use: {0}; set pool.discovery.server")]
    System(NetError),
    /// No proper answer came.
    #[error("{name}: {reason}")]
    Failed {
        /// What was asked for.
        name: String,
        /// What went wrong.
        reason: NetError,
    },
}

/// Asks one server, or those of the system.
pub struct Dns {
    resolver: TokioResolver,
    question: Question,
}

// === impl Dns ===

impl Dns {
    /// Asks `server`; the system's servers where there is none. Nothing is sent yet.
    ///
    /// # Errors
    /// The system names no server that could be asked.
    pub fn new(question: Question, server: Option<SocketAddr>) -> Result<Self, DnsError> {
        let mut builder = match server {
            None => TokioResolver::builder_tokio().map_err(DnsError::System)?,
            Some(server) => {
                TokioResolver::builder_with_config(of_server(server), TokioRuntimeProvider::default())
            }
        };
        let options = builder.options_mut();
        (options.timeout, options.attempts, options.cache_size) = (PATIENCE, AGAIN, 0);
        if server.is_some() {
            options.use_hosts_file = ResolveHosts::Never;
        }
        let resolver = builder.build().map_err(DnsError::System)?;
        Ok(Self { resolver, question })
    }

    /// What stands behind the name now. A name behind which nothing stands is an answer, too.
    ///
    /// # Errors
    /// No proper answer came in time.
    pub async fn look_up(&self) -> Result<Answer, DnsError> {
        match &self.question {
            Question::Service(name) => Ok(services(&self.records(name, RecordType::SRV).await?)),
            Question::Host(name, port) => {
                let mut records = self.records(name, RecordType::A).await?;
                records.extend(self.records(name, RecordType::AAAA).await?);
                Ok(addresses(&records, *port))
            }
        }
    }

    async fn records(&self, name: &str, kind: RecordType) -> Result<Vec<Record>, DnsError> {
        match self.resolver.lookup(name, kind).await {
            Ok(lookup) => Ok(lookup.answers().to_vec()),
            Err(reason) if says_nobody(&reason) => Ok(Vec::new()),
            Err(reason) => Err(DnsError::Failed { name: name.to_owned(), reason }),
        }
    }
}

impl std::fmt::Debug for Dns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dns").field("question", &self.question).finish_non_exhaustive()
    }
}

/// Whether a server says that there are no such records. One that could not do its work has none to give either.
fn says_nobody(reason: &NetError) -> bool {
    match reason {
        NetError::Dns(NoAnswer::NoRecordsFound(none)) => {
            matches!(none.response_code, ResponseCode::NoError | ResponseCode::NXDomain)
        }
        _ => false,
    }
}

fn of_server(server: SocketAddr) -> ResolverConfig {
    let mut named = NameServerConfig::udp_and_tcp(server.ip());
    for connection in &mut named.connections {
        connection.port = server.port();
    }
    ResolverConfig::from_parts(None, Vec::new(), vec![named])
}

/// The services of the lowest priority number: others stand in for them, which the router does for itself.
fn services(records: &[Record]) -> Answer {
    let of = |record: &Record| match &record.data {
        RData::SRV(service) => Some((service.priority, service.target.to_string(), service.port)),
        _ => None,
    };
    let found: Vec<_> = records.iter().filter_map(of).collect();
    let first = found.iter().map(|(priority, ..)| *priority).min();
    let meant = found.iter().filter(|(priority, ..)| Some(*priority) == first);
    let places = meant.filter_map(|(_, target, port)| {
        let host = target.trim_end_matches('.').to_ascii_lowercase();
        // A lone dot says that there is no such service.
        (!host.is_empty() && *port > 0).then(|| format!("{host}:{port}"))
    });
    Answer { places: places.collect(), holds: holds(records) }
}

fn addresses(records: &[Record], port: u16) -> Answer {
    let of = |record: &Record| match &record.data {
        RData::A(address) => Some(IpAddr::V4(address.0)),
        RData::AAAA(address) => Some(IpAddr::V6(address.0)),
        _ => None,
    };
    let places = records.iter().filter_map(of).map(|address| SocketAddr::new(address, port).to_string());
    Answer { places: places.collect(), holds: holds(records) }
}

/// An answer holds as long as the part of it that holds the shortest.
fn holds(records: &[Record]) -> Duration {
    records
        .iter()
        .map(|record| record.ttl)
        .min()
        .map_or(Duration::ZERO, |ttl| Duration::from_secs(ttl.into()))
}

#[cfg(test)]
mod tests;
