//! What an engine answers to a probe: model list, configuration, metrics, event addresses.
//!
//! The first byte chooses the engine for answers that do not name it. The answers are separated by a byte `0xff`, which no
//! text holds.

#![no_main]

use kvroute_engine::EngineKind;
use kvroute_engine::events::EventAddress;
use kvroute_engine::fuzz::probe_answers;
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
        }
        Err(error) => assert!(error.to_string().contains("http://worker:8000")),
    }
});

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
