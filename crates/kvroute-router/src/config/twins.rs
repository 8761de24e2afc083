//! Workers that are probably one engine under two names.
//!
//! A worker is named by its address as it is written. No name is looked up for it: what a name server says changes, and one
//! name may stand for many engines. But this machine has names that everybody knows, and an IPv4 address may be written as
//! an IPv6 one; who writes the one here and the other there hardly means two engines. Yet two programs may share a port, one
//! for each kind of address, so this is told and not refused.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use kvroute_core::WorkerId;

use super::WorkerConfig;

/// Two names that probably lead to one engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Twins {
    /// The one that was named first.
    pub first: WorkerId,
    /// The other one.
    pub second: WorkerId,
}

/// Where an engine is, with the host written in one way.
type Place<'a> = (String, &'a str);

/// What this machine is called below.
const THIS_MACHINE: &str = "localhost";

/// Each worker that is probably one engine with an earlier one of another name.
pub fn twins<'a>(workers: impl IntoIterator<Item = &'a WorkerConfig>) -> Vec<Twins> {
    let (mut known, mut found) = (BTreeMap::<Place<'a>, WorkerId>::new(), Vec::new());
    for worker in workers {
        let second = worker.id();
        let first = known.entry(place(worker)).or_insert_with(|| second.clone());
        if *first != second {
            found.push(Twins { first: first.clone(), second });
        }
    }
    found
}

/// Host, and port with path. A worker's name does not tell the scheme, and neither does this.
fn place(worker: &WorkerConfig) -> Place<'_> {
    let host = worker.host();
    let authority = worker.url.split_once("://").map_or(worker.url.as_str(), |(_, authority)| authority);
    let behind = authority.trim_start_matches('[').strip_prefix(host).unwrap_or(authority);
    (one_name_of(host), behind.trim_start_matches(']').trim_end_matches('/'))
}

fn one_name_of(host: &str) -> String {
    let name = host.trim_end_matches('.');
    let address = name.parse().ok().map(|address: IpAddr| address.to_canonical());
    match address {
        // Whoever connects to no address in particular connects to this machine.
        Some(address) if address.is_unspecified() || is_the_loopback(address) => THIS_MACHINE.to_owned(),
        Some(address) => address.to_string(),
        None if name.ends_with(".localhost") => THIS_MACHINE.to_owned(),
        None => name.to_owned(),
    }
}

/// The address that `localhost` means; other loopback addresses are used to tell engines of one machine apart.
fn is_the_loopback(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(v4) if v4 == std::net::Ipv4Addr::LOCALHOST)
        || matches!(address, IpAddr::V6(v6) if v6 == std::net::Ipv6Addr::LOCALHOST)
}

// === impl Twins ===

impl fmt::Display for Twins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, second } = self;
        write!(
            f,
            "workers {first} and {second} are probably one engine, whose load and cache would be counted twice; name it once"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse_worker_url;
    use super::*;

    fn pairs(urls: &[&str]) -> Vec<(String, String)> {
        let workers: Vec<_> =
            urls.iter().map(|url| WorkerConfig::at(parse_worker_url(url).unwrap())).collect();
        let pair = |Twins { first, second }| (first.to_string(), second.to_string());
        twins(&workers).into_iter().map(pair).collect()
    }

    #[test]
    fn names_of_one_address_are_told_with_the_first_of_them() {
        for urls in [
            ["http://localhost:8000", "http://127.0.0.1:8000"],
            ["http://[::1]:8000", "http://localhost:8000/"],
            ["http://[::ffff:127.0.0.1]:8000", "https://a.localhost:8000"],
            ["http://0.0.0.0:8000", "http://127.0.0.1:8000"],
            ["http://[::]:8000", "http://127.0.0.1:8000"],
            ["http://10.0.0.1:8000/a", "http://[::ffff:10.0.0.1]:8000/a"],
            ["http://engine.example:80", "http://engine.example./"],
            ["http://t:80/t:80", "http://t.:80/t:80"],
        ] {
            assert_eq!(pairs(&urls).len(), 1, "{urls:?}");
        }
        let three = ["http://localhost:1", "http://127.0.0.1:1", "http://[::1]:1"];
        let told = [("localhost:1", "127.0.0.1:1"), ("localhost:1", "[::1]:1")];
        assert_eq!(pairs(&three), told.map(|(first, second)| (first.to_owned(), second.to_owned())));
    }

    #[test]
    fn other_places_are_other_engines() {
        let urls = [
            "http://localhost:8000",
            "http://localhost:8001",
            "http://127.0.0.2:8000",
            "http://127.0.0.1:8000/a",
            "http://localhost.example:8000",
            "http://10.0.0.1:8000",
            "http://10.0.0.1:8000/a",
            "http://engine:8000",
            "http://engine:8000",
        ];
        assert_eq!(pairs(&urls), []);
    }
}
