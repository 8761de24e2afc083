//! The test of truth: recorded sessions of real engines, replayed in order. Before each request the index, fed
//! with the engine's own event frames so far, says what the engine must have cached; the engine's own report in
//! the recorded response says what it really reused. Both must be equal, token for token.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test reports a broken assumption by panicking")]

use std::io::Read;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use flate2::read::GzDecoder;
use kvroute_core::{Namespace, PromptBlocks, RankSlot, TokenId, Tokens, WorkerReport};
use kvroute_engine::events::EventDecoder;
use kvroute_index::{Applied, ReportedIndex};
use kvroute_openai::{BodyScan, ClientRequest, Endpoint, Observation, StreamScanner, UsageChunk};
use serde_json::Value;

const RANK: RankSlot = RankSlot::new(0);

/// One recorded engine: its cache as the events tell it.
#[derive(Default)]
struct Replay {
    decoder: EventDecoder,
    index: ReportedIndex,
    applied: Applied,
}

/// What was predicted and what was reported for one request.
#[derive(Debug, PartialEq, Eq)]
struct Comparison {
    request: u64,
    predicted: u64,
    reported: u64,
}

// === impl Replay ===

impl Replay {
    /// Runs a whole session; one comparison for each request that has a prompt.
    fn run(&mut self, session: &str) -> Vec<Comparison> {
        let mut comparisons = Vec::new();
        let mut pending = None;
        for line in session.lines() {
            let entry: Value = serde_json::from_str(line).unwrap();
            match entry["kind"].as_str().unwrap() {
                "request" => pending = self.predict(&entry),
                "response" => comparisons.extend(pending.take().map(|predicted| compare(&entry, predicted))),
                "events" => self.apply(&entry),
                other => panic!("unknown entry {other}"),
            }
        }
        comparisons
    }

    /// The prompt's length and the tokens that the engine should find cached; `None` for a cache reset.
    fn predict(&self, entry: &Value) -> Option<(ClientRequest, Tokens, Tokens)> {
        let path = entry["path"].as_str().unwrap();
        let endpoint = Endpoint::ALL.into_iter().find(|endpoint| endpoint.path() == path)?;
        let request = ClientRequest::parse(endpoint, Bytes::from(entry["body"].to_string())).unwrap();
        let ids: Vec<TokenId> = serde_json::from_value(entry["prompt_token_ids"].clone()).unwrap();
        let prompt = Tokens::from(ids.len());
        let Some(size) = self.index.block_size(RANK) else { return Some((request, prompt, Tokens::ZERO)) };
        let namespace = Namespace::new(request.cache_salt.as_deref(), None);
        let mut prefixes = Vec::new();
        self.index.cached_prefixes(&PromptBlocks::new(&ids, size, namespace), &[RANK], &mut prefixes);
        let cached = size.tokens(prefixes[0].blocks());
        Some((request, prompt, cached.min(size.reusable_tokens(prompt))))
    }

    fn apply(&mut self, entry: &Value) {
        let payload = STANDARD.decode(entry["frames_b64"][2].as_str().unwrap()).unwrap();
        let batch = self.decoder.decode(&payload);
        assert_eq!((batch.undecodable, batch.ignored), (0, 0), "in {entry}");
        for event in &batch.events {
            self.applied += self.index.apply(RANK, event);
        }
    }
}

fn compare(entry: &Value, (request, prompt, predicted): (ClientRequest, Tokens, Tokens)) -> Comparison {
    let report = report(&request, entry["body"].as_str().unwrap());
    assert_eq!(report.prompt.count(), Some(prompt.get()), "the report is about another prompt: {entry}");
    let reported = report.reused.count().unwrap();
    Comparison { request: entry["i"].as_u64().unwrap(), predicted: predicted.get(), reported }
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

fn replay(engine: &str) -> (Replay, Vec<Comparison>) {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(engine).join("session.jsonl.gz");
    let mut session = String::new();
    GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut session).unwrap();
    let mut replay = Replay::default();
    let comparisons = replay.run(&session);
    (replay, comparisons)
}

/// A session proves something only if much was reused and much was evicted, and nothing was left unexplained.
fn assert_substance(replay: &Replay, comparisons: &[Comparison]) {
    let reuses = comparisons.iter().filter(|comparison| comparison.reported > 0).count();
    assert!(
        reuses > comparisons.len() / 4,
        "only {reuses} of {} requests reused anything",
        comparisons.len()
    );
    let applied = &replay.applied;
    assert!(applied.stored > 100 && applied.removed > 50, "{applied:?}");
    let unexplained =
        [applied.orphaned, applied.unknown, applied.conflicting, applied.dropped, applied.rejected];
    assert_eq!(unexplained, [0; 5], "{applied:?}");
}

#[test]
fn every_report_of_the_sglang_session_is_predicted() {
    let (session, comparisons) = replay("sglang");
    assert_substance(&session, &comparisons);
    let wrong: Vec<_> = comparisons.iter().filter(|each| each.predicted != each.reported).collect();
    assert_eq!((comparisons.len(), wrong.len()), (68, 0), "{wrong:?}");
}

#[test]
fn every_report_of_the_vllm_session_but_the_one_behind_a_silent_reset_is_predicted() {
    let (session, comparisons) = replay("vllm");
    assert_substance(&session, &comparisons);
    let wrong: Vec<_> = comparisons.iter().filter(|each| each.predicted != each.reported).collect();
    // vLLM announces a reset only together with the next step's blocks, so the first request behind it is
    // predicted from the old cache.
    assert_eq!(wrong, [&Comparison { request: 22, predicted: 224, reported: 0 }]);
    assert_eq!(comparisons.len(), 69);
}
