//! What an engine answers to a probe: model list, configuration, metrics, event addresses; and whether it agrees with
//! itself.
//!
//! The first byte chooses the engine for answers that do not name it. The answers are separated by a byte `0xff`, which no
//! text holds.

#![no_main]

use kvroute_engine::events::EventAddress;
use kvroute_engine::fuzz::probe_answers;
use kvroute_engine::{ComparedWorker, EngineKind, Probe, WorkerClaims, contradictions};
use kvroute_zmtp::Endpoint;
use libfuzzer_sys::fuzz_target;

/// No engine has so many; each is a cache, a place in every table and a series in every metric.
const PLAUSIBLE_RANKS: usize = 4096;

fuzz_target!(|input: &[u8]| {
    let [engine, bodies @ ..] = input else { return };
    let engine = EngineKind::ALL[usize::from(*engine) % EngineKind::ALL.len()];
    match probe_answers(engine, bodies.split(|byte| *byte == 0xff)) {
        Ok(probe) => {
            assert!(!probe.models.is_empty());
            assert!((1..=PLAUSIBLE_RANKS).contains(&(probe.dp_ranks as usize)), "{} ranks", probe.dp_ranks);
            for events in &probe.events {
                assert!(events.dp_rank.get() < probe.dp_ranks);
                check_events(&events.events);
                events.replay.iter().for_each(check_address);
            }
            assert!(probe.rank_claims.iter().all(|claim| (1..=probe.dp_ranks).contains(&claim.ranks)));
            check_contradictions(&probe);
        }
        Err(error) => assert!(error.to_string().contains("http://worker:8000")),
    }
});

/// Whoever disagrees is named, and nobody disagrees with a copy of himself.
fn check_contradictions(probe: &Probe) {
    let [one, other] = ["a", "b"].map(|name| ComparedWorker { name, probe, told: WorkerClaims::default() });
    let alone = contradictions(&[one]);
    for contradiction in &alone {
        assert_eq!(contradiction.workers, ["a"]);
        assert!(contradiction.claims.len() > 1, "{contradiction}");
    }
    assert_eq!(contradictions(&[one, other]).len(), 2 * alone.len());
}

fn check_events(address: &EventAddress) {
    match address {
        EventAddress::Connect(endpoint) => check_address(endpoint),
        EventAddress::Poll { url } => assert_eq!(url, "http://worker:8000"),
        EventAddress::Bind(endpoint) => unreachable!("no engine says where we bind: {endpoint}"),
    }
}

/// An announced address is written as it is read, and can be connected to.
fn check_address(endpoint: &Endpoint) {
    assert!(!endpoint.is_wildcard(), "{endpoint}");
    assert_eq!(endpoint.to_string().parse().as_ref(), Ok(endpoint));
}
