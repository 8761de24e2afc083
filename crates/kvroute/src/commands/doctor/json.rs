//! The findings as one object, for programs. Fields may be added and are never renamed.

use kvroute_core::BlockSize;
use serde::Serialize;

use super::collected::{Examined, Parity, Patient, Trial};
use super::finding::{Diagnosis, Finding};
use crate::failure::Failure;

#[derive(Serialize)]
struct Report<'a> {
    workers: Vec<Worker<'a>>,
    /// Between workers.
    findings: &'a [Finding],
}

#[derive(Serialize)]
struct Worker<'a> {
    url: &'a str,
    #[serde(flatten)]
    examined: Option<Facts<'a>>,
    findings: &'a [Finding],
}

#[derive(Serialize)]
struct Facts<'a> {
    engine: &'static str,
    version: Option<&'a str>,
    models: Vec<&'a str>,
    role: Option<&'static str>,
    dp_ranks: u32,
    block_size: Option<u32>,
    kv_capacity_blocks: Option<u64>,
    context_length: Option<u64>,
    vocabulary: Option<u32>,
    can_tokenize: bool,
    event_streams: Vec<Stream>,
    conformance: Conformance<'a>,
    parity: Option<ParityCounts>,
}

#[derive(Serialize)]
struct Stream {
    dp_rank: u32,
    address: String,
    reachable: bool,
    /// `null` where there is no replay socket.
    replay_answers: Option<bool>,
    /// Blocks that were announced during the trial; `null` where nothing was tried.
    stored_blocks: Option<u64>,
}

#[derive(Serialize)]
struct Conformance<'a> {
    verdict: &'static str,
    /// Why nothing was proved.
    reason: Option<&'a str>,
    prompt_tokens: Option<u64>,
    reused_tokens: Option<u64>,
}

#[derive(Serialize)]
struct ParityCounts {
    compared: usize,
    equal: usize,
}

/// One line, with its end.
pub(super) fn render(patients: &[Patient], diagnosis: &Diagnosis) -> Result<String, Failure> {
    let workers = patients.iter().zip(&diagnosis.workers).map(|(patient, findings)| Worker {
        url: &patient.subject.url,
        examined: patient.examined.as_ref().ok().map(facts),
        findings,
    });
    let report = Report { workers: workers.collect(), findings: &diagnosis.fleet };
    let json = serde_json::to_string(&report);
    json.map(|json| format!("{json}\n"))
        .map_err(|error| Failure::while_doing("cannot write the report", error))
}

fn facts(examined: &Examined) -> Facts<'_> {
    let probe = &examined.probe;
    Facts {
        engine: probe.engine.as_str(),
        version: probe.version.as_deref(),
        models: probe.models.iter().map(|model| model.id.as_str()).collect(),
        role: probe.role.map(kvroute_core::WorkerRole::as_str),
        dp_ranks: probe.dp_ranks,
        block_size: probe.own_block_size().map(BlockSize::get),
        kv_capacity_blocks: probe.kv_capacity.map(kvroute_core::Blocks::get),
        context_length: probe.context_length.map(kvroute_core::Tokens::get),
        vocabulary: probe.vocabulary,
        can_tokenize: probe.can_tokenize,
        event_streams: streams(examined),
        conformance: conformance(examined),
        parity: match &examined.parity {
            Parity::Compared(check) => {
                let (compared, equal) = check.counts();
                Some(ParityCounts { compared, equal })
            }
            Parity::NoTokenizer | Parity::Off => None,
        },
    }
}

fn streams(examined: &Examined) -> Vec<Stream> {
    let stream = |stream: &super::collected::StreamCheck| Stream {
        dp_rank: stream.dp_rank.get(),
        address: super::text::address(&stream.address),
        reachable: stream.live.is_ok(),
        replay_answers: stream.replay.as_ref().map(Result::is_ok),
        stored_blocks: stream.heard.map(|heard| heard.blocks),
    };
    examined.streams.iter().map(stream).collect()
}

fn conformance(examined: &Examined) -> Conformance<'_> {
    let verdict = examined.verdict().as_str();
    match &examined.trial {
        Trial::NotSent(reason) => {
            Conformance { verdict, reason: Some(reason), prompt_tokens: None, reused_tokens: None }
        }
        Trial::Refused(problem) => {
            Conformance { verdict, reason: Some(problem), prompt_tokens: None, reused_tokens: None }
        }
        Trial::Done(result) => Conformance {
            verdict,
            reason: None,
            prompt_tokens: result.prompt_tokens,
            reused_tokens: result.reused(),
        },
    }
}
