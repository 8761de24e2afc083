//! The test of truth: recorded sessions of real engines, replayed in order. Before each request the index, fed with the
//! engine's own event frames so far, says what the engine must have cached; the engine's own report in the recorded
//! response says what it really reused. Both must be equal, token for token: on an undisturbed stream, on one that
//! loses messages and has them replayed, and for a router that joins in the middle.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test reports a broken assumption by panicking")]

#[path = "engine_sessions/stream.rs"]
mod stream;

use std::io::Read;
use std::path::Path;

use bytes::Bytes;
use flate2::read::GzDecoder;
use kvroute_core::{Namespace, PromptBlocks, TokenId, Tokens, WorkerReport};
use kvroute_engine::events::SourceStatus;
use kvroute_index::Prefixes;
use kvroute_openai::{BodyScan, ClientRequest, Endpoint, Observation, StreamScanner, UsageChunk};
use serde_json::Value;

use stream::{RANK, Stream};

/// One recorded engine: its cache as the events tell it.
struct Replay {
    stream: Stream,
    /// Entries of the session before the router connects.
    joins_at: usize,
}

/// What was predicted and what was reported for one request.
#[derive(Debug, PartialEq, Eq)]
struct Comparison {
    request: u64,
    predicted: u64,
    reported: u64,
    /// Whether the router had heard of all that the engine had published.
    is_current: bool,
}

/// A request with its prompt's length, the tokens that the engine should find cached, and whether all is heard.
type Prediction = (ClientRequest, Tokens, Tokens, bool);

// === impl Replay ===

impl Replay {
    /// Runs a whole session; one comparison for each request that has a prompt and comes after the join.
    fn run(&mut self, session: &str) -> Vec<Comparison> {
        let mut comparisons = Vec::new();
        let mut pending = None;
        for (position, line) in session.lines().enumerate() {
            if position == self.joins_at {
                self.stream.connect();
            }
            let entry: Value = serde_json::from_str(line).unwrap();
            match entry["kind"].as_str().unwrap() {
                "request" => pending = self.predict(&entry).filter(|_| position >= self.joins_at),
                "response" => comparisons.extend(pending.take().map(|predicted| compare(&entry, predicted))),
                "events" => self.stream.publish(&entry),
                other => panic!("unknown entry {other}"),
            }
        }
        comparisons
    }

    /// `None` for a cache reset.
    fn predict(&self, entry: &Value) -> Option<Prediction> {
        let path = entry["path"].as_str().unwrap();
        let endpoint = Endpoint::ALL.into_iter().find(|endpoint| endpoint.path() == path)?;
        let request = ClientRequest::parse(endpoint, Bytes::from(entry["body"].to_string())).unwrap();
        let ids: Vec<TokenId> = serde_json::from_value(entry["prompt_token_ids"].clone()).unwrap();
        let prompt = Tokens::from(ids.len());
        let is_current = self.stream.is_current();
        let Some(size) = self.stream.index.block_size(RANK) else {
            return Some((request, prompt, Tokens::ZERO, is_current));
        };
        let namespace = Namespace::new(request.cache_salt.as_deref(), None);
        let mut prefixes = Prefixes::default();
        self.stream.index.cached_prefixes(&PromptBlocks::new(&ids, size, namespace), &mut prefixes);
        let cached = size.tokens(prefixes.of(RANK).blocks());
        Some((request, prompt, cached.min(size.reusable_tokens(prompt)), is_current))
    }
}

fn compare(entry: &Value, (request, prompt, predicted, is_current): Prediction) -> Comparison {
    let report = report(&request, entry["body"].as_str().unwrap());
    assert_eq!(report.prompt.count(), Some(prompt.get()), "the report is about another prompt: {entry}");
    let reported = report.reused.count().unwrap();
    Comparison { request: entry["i"].as_u64().unwrap(), predicted: predicted.get(), reported, is_current }
}

/// The engine's report, read as the relay reads it.
fn report(request: &ClientRequest, body: &str) -> WorkerReport {
    let body = Bytes::from(body.to_owned());
    let mut observations = Vec::new();
    if request.stream {
        let mut scanner = StreamScanner::new(UsageChunk::Forward);
        scanner.push(&body, &mut observations);
        scanner.finish(&mut observations);
    } else {
        observations = BodyScan::read(body).observations;
    }
    let report = observations.into_iter().find_map(|observation| match observation {
        Observation::Report(report) => Some(report),
        _ => None,
    });
    report.unwrap()
}

fn session(engine: &str) -> String {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(engine).join("session.jsonl.gz");
    let mut session = String::new();
    GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut session).unwrap();
    session
}

fn replay(engine: &str, stream: Stream, joins_at: usize) -> (Stream, Vec<Comparison>) {
    let mut replay = Replay { stream, joins_at };
    let comparisons = replay.run(&session(engine));
    (replay.stream, comparisons)
}

/// A session proves something only if much was reused and much was evicted, and nothing was left unexplained.
fn assert_substance(stream: &Stream, comparisons: &[Comparison]) {
    let reuses = comparisons.iter().filter(|comparison| comparison.reported > 0).count();
    assert!(
        reuses > comparisons.len() / 4,
        "only {reuses} of {} requests reused anything",
        comparisons.len()
    );
    let applied = &stream.applied;
    assert!(applied.stored > 100 && applied.removed > 50, "{applied:?}");
    let unexplained =
        [applied.orphaned, applied.unknown, applied.conflicting, applied.dropped, applied.rejected];
    assert_eq!(unexplained, [0; 5], "{applied:?}");
}

/// Requests that were predicted wrongly by a router that had heard everything.
fn wrong(comparisons: &[Comparison]) -> Vec<(u64, u64, u64)> {
    let wrong = comparisons.iter().filter(|each| each.is_current && each.predicted != each.reported);
    wrong.map(|each| (each.request, each.predicted, each.reported)).collect()
}

/// vLLM announces a reset only together with the next step's blocks, so the first request behind it is predicted from
/// the old cache.
const BEHIND_A_SILENT_RESET: (u64, u64, u64) = (22, 224, 0);

#[test]
fn every_report_of_the_sglang_session_is_predicted() {
    let (stream, comparisons) = replay("sglang", Stream::whole(), 0);
    assert_substance(&stream, &comparisons);
    assert_eq!((comparisons.len(), wrong(&comparisons)), (68, vec![]));
}

#[test]
fn every_report_of_the_vllm_session_but_the_one_behind_a_silent_reset_is_predicted() {
    let (stream, comparisons) = replay("vllm", Stream::whole(), 0);
    assert_substance(&stream, &comparisons);
    assert_eq!((comparisons.len(), wrong(&comparisons)), (69, vec![BEHIND_A_SILENT_RESET]));
}

#[test]
fn messages_that_are_lost_on_the_wire_are_replayed_and_every_report_is_predicted() {
    for (engine, requests, allowed) in [("sglang", 68, None), ("vllm", 69, Some(BEHIND_A_SILENT_RESET))] {
        let (whole, _) = replay(engine, Stream::whole(), 0);
        for seed in 1..=20 {
            let (stream, comparisons) = replay(engine, Stream::lossy(0.05, seed), 0);
            let outdated = comparisons.iter().filter(|each| !each.is_current).count();
            println!(
                "{engine}, seed {seed}: {} messages lost, {outdated} requests before it showed",
                stream.lost
            );
            assert!(stream.lost > 0 || seed > 1, "nothing was lost: this proves nothing");
            assert!(outdated <= 2 * stream.lost && outdated * 5 <= requests, "{outdated} requests");
            assert_eq!(comparisons.len(), requests);
            let wrong = wrong(&comparisons);
            assert!(wrong.iter().all(|each| Some(*each) == allowed), "seed {seed}: {wrong:?}");
            assert_eq!(stream.clears, whole.clears, "seed {seed}: a gap that was replayed cleared the rank");
            if stream.is_current() {
                assert_eq!(stream.status(), SourceStatus::EXACT);
                assert_eq!(stream.index.blocks(RANK), whole.index.blocks(RANK));
            }
        }
    }
}

#[test]
fn a_router_that_joins_in_the_middle_predicts_every_report_from_then_on() {
    for (engine, allowed) in [("sglang", None), ("vllm", Some(BEHIND_A_SILENT_RESET))] {
        let entries = session(engine).lines().count();
        for joins_at in [entries / 8, entries / 3, entries / 2, entries * 3 / 4] {
            let (stream, comparisons) = replay(engine, Stream::whole(), joins_at);
            assert!(comparisons.len() > 10, "{} comparisons", comparisons.len());
            let wrong = wrong(&comparisons);
            assert!(wrong.iter().all(|each| Some(*each) == allowed), "joined at {joins_at}: {wrong:?}");
            assert_eq!((stream.status(), stream.is_current()), (SourceStatus::EXACT, true));
        }
    }
}
