//! Whether the index can follow the worker's cache.

use kvroute_engine::events::EventAddress;
use kvroute_engine::{EngineKind, Probe};
use kvroute_router::config::EventEndpoint;

use crate::commands::doctor::collected::{Examined, StreamCheck, Trial, TrialResult};
use crate::commands::doctor::finding::Finding;
use crate::commands::doctor::subjects::Subject;

pub(super) fn of_streams(subject: &Subject, examined: &Examined) -> Vec<Finding> {
    let probe = &examined.probe;
    if subject.settings.kv_events == EventEndpoint::None {
        return Vec::new();
    }
    let mut found = Vec::new();
    if examined.streams.is_empty() {
        found.extend(none(probe));
    }
    found.extend(examined.streams.iter().flat_map(|stream| of_stream(stream, probe)));
    if let Trial::Done(result) = &examined.trial {
        found.extend(silent(examined, result));
    }
    found
}

fn none(probe: &Probe) -> Option<Finding> {
    let remedy = probe.engine.events_remedy();
    match (probe.engine.can_publish_events(), is_told_events(probe)) {
        (false, _) => Some(Finding::hint(
            "events_impossible",
            "is not known to publish KV events: a router remembers what it placed there, which is an estimate",
            "nothing: every report corrects the estimate; if it does publish them, name their address in kv_events",
        )),
        (true, true) => Some(Finding::warning(
            "events_off",
            "publishes no KV events: what it caches (F2, F3) is only an estimate from the router's memory",
            remedy,
        )),
        (true, false) => Some(Finding::warning(
            "events_unannounced",
            "does not say where its KV events are: this release has no question for it, or publishes none",
            remedy,
        )),
    }
}

/// vLLM before 0.32 publishes events and has nobody to say so.
fn is_told_events(probe: &Probe) -> bool {
    let release = probe.version.as_deref().and_then(release);
    probe.engine != EngineKind::Vllm || release.is_none_or(|release| release >= (0, 32))
}

/// The first two numbers of a version.
fn release(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.trim_start_matches('v').split(['.', '-', '+']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn of_stream(stream: &StreamCheck, probe: &Probe) -> Vec<Finding> {
    let rank = if probe.dp_ranks > 1 { format!(" of rank {}", stream.dp_rank) } else { String::new() };
    if matches!(stream.address, EventAddress::Poll { .. }) {
        return vec![Finding::hint(
            "events_drained",
            "keeps its events for whoever asks first: two routers take them from each other",
            "let only one router follow it; set kv_events to \"none\" for the others",
        )];
    }
    let mut found = Vec::new();
    if let Err(problem) = &stream.live {
        found.push(Finding::error(
            "events_unreachable",
            format!("the KV event socket{rank} is not there: {problem}"),
            "open the port to the router, correct kv_events, or let the engine bind tcp://*:PORT",
        ));
    }
    match &stream.replay {
        None => found.push(Finding::hint(
            "replay_missing",
            format!("has no replay socket{rank}: events that are lost stay lost, and the index is degraded"),
            "add replay_endpoint to the engine's --kv-events-config",
        )),
        Some(Err(problem)) => found.push(Finding::warning(
            "replay_unreachable",
            format!("the replay socket{rank} does not answer as one: {problem}"),
            "open the port to the router, or correct kv_replay",
        )),
        Some(Ok(())) => {}
    }
    if let Some(unreadable) = stream.heard.map(|heard| heard.unreadable).filter(|unreadable| *unreadable > 0)
    {
        found.push(Finding::error(
            "events_unreadable",
            format!("{unreadable} messages or events{rank} could not be read"),
            "is this the KV event port, and is the engine's release among those in docs/engines.md?",
        ));
    }
    found
}

/// A prompt of whole blocks was computed, and nobody said so.
fn silent(examined: &Examined, result: &TrialResult) -> Option<Finding> {
    let heard = examined.streams.iter().filter_map(|stream| stream.heard);
    let (mut listened, mut blocks) = (0, 0);
    for stream in heard {
        listened += 1;
        blocks += stream.blocks;
    }
    let size = u64::from(examined.probe.own_block_size()?.get());
    let is_expected =
        listened > 0 && blocks == 0 && result.prompt_tokens.is_some_and(|tokens| tokens >= size);
    is_expected.then(|| {
        Finding::error(
            "events_silent",
            "the KV event socket is there, and a prompt of whole blocks was computed without an event",
            "check that the address and the topic are those of this engine; a publisher that connects elsewhere \
             needs kv_events = \"bind:…\"",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_their_first_two_numbers() {
        assert_eq!(release("0.32.0"), Some((0, 32)));
        assert_eq!(release("v0.9.2.dev1+g12"), Some((0, 9)));
        assert_eq!(release("1.2rc3"), None);
        assert_eq!(release("main"), None);
    }
}
