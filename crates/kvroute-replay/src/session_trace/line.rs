//! One line of a session trace, checked and made into a session.

use std::time::Duration;

use kvroute_core::{BlockSize, Tokens};
use serde::Deserialize;

use crate::{LineFault, RequestFault, Session, SessionRequest, SubAgent};

pub(super) const EXAMPLE: &str = "{\"id\": \"a\", \"block_size\": 64, \"hash_id_scope\": \"local\", \"tool_tokens\": n, \
     \"system_tokens\": n, \"requests\": [{\"t\": s, \"type\": \"n\", \"in\": n, \"out\": n, \"hash_runs\": [[first, count], ..]}, ..]}";

/// More than any model takes; a bound, because one number of a line becomes so many ids.
const LONGEST_PROMPT: u64 = 1 << 24;

/// A hundred years: past it, seconds are surely another unit.
const LATEST: f64 = 100.0 * 365.0 * 86_400.0;

/// Ids of one session; the numbers above tell the sessions apart.
const IDS: u64 = 1 << 32;

/// The scopes of what sessions share, and what their sub-agents do. Sessions come behind them.
const SHARED: [u64; 2] = [0, IDS];
const FIRST_SCOPE: u64 = 2;

#[derive(Deserialize)]
pub(super) struct Line {
    id: String,
    block_size: u32,
    hash_id_scope: String,
    tool_tokens: u64,
    system_tokens: u64,
    requests: Vec<Entry>,
}

/// A request, or a sub-agent with requests.
#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "type")]
    kind: String,
    t: Option<f64>,
    r#in: Option<u64>,
    out: Option<u64>,
    api_time: Option<f64>,
    think_time: Option<f64>,
    hash_runs: Option<Vec<(u64, u64)>>,
    agent_id: Option<String>,
    duration_ms: Option<f64>,
    tool_tokens: Option<u64>,
    system_tokens: Option<u64>,
    requests: Option<Vec<Entry>>,
}

/// How the ids of a session or a sub-agent become those of the whole trace.
#[derive(Clone, Copy)]
struct Scope {
    block_size: BlockSize,
    base: u64,
    shared_base: u64,
    /// Leading blocks that others have as well.
    shared: u64,
}

/// Requests that follow each other, and when the last answer of them ended.
struct Strand {
    requests: Vec<SessionRequest>,
    ended: Duration,
}

// === impl Line ===

impl Line {
    pub(super) fn parse(text: &str) -> Result<Self, LineFault> {
        serde_json::from_str(text).map_err(|source| LineFault::Json { expected: "a session", source })
    }

    /// The size of its blocks, which is that of the lines before.
    pub(super) fn block_size(&self, expected: Option<BlockSize>) -> Result<BlockSize, LineFault> {
        let fault = |expected| LineFault::BlockSize { found: self.block_size, expected };
        let size = BlockSize::new(self.block_size)
            .map_err(|_| fault("the tokens that one id stands for, at least 1".into()))?;
        match expected {
            Some(expected) if expected != size => Err(fault(format!("{expected}, as on the lines before"))),
            _ => Ok(size),
        }
    }

    /// The session, with ids that no other `number` has.
    pub(super) fn session(self, number: usize, shares_preamble: bool) -> Result<Session, LineFault> {
        if self.hash_id_scope != "local" {
            return Err(LineFault::Scope(self.hash_id_scope));
        }
        let block_size = self.block_size(None)?;
        let scope = |shared_base, tools: u64, system: u64| {
            let preamble = Tokens::new(if shares_preamble { tools.saturating_add(system) } else { 0 });
            let base = (FIRST_SCOPE + number as u64) * IDS;
            Scope { block_size, base, shared_base, shared: block_size.complete_blocks(preamble).get() }
        };
        let own = scope(SHARED[0], self.tool_tokens, self.system_tokens);
        let mut strand = Strand { requests: Vec::new(), ended: Duration::ZERO };
        let (mut sub_agents, mut returned) = (Vec::new(), None);
        for (entry, number) in self.requests.into_iter().zip(1..) {
            let place = || format!("request {number}");
            if entry.kind != "subagent" {
                let waited_for = returned.take();
                strand.push(&entry, &own, waited_for).map_err(|fault| at(place(), fault))?;
                continue;
            }
            let (tools, system) = (entry.tool_tokens, entry.system_tokens);
            let scope = scope(SHARED[1], tools.unwrap_or(0), system.unwrap_or(0));
            let end = entry.seconds("t", entry.t).map_err(|fault| at(place(), fault))?;
            returned = returned.max(Some(end));
            sub_agents.push(sub_agent(entry, number, &scope, end, &strand)?);
        }
        if strand.requests.is_empty() && sub_agents.is_empty() {
            return Err(LineFault::NoRequests);
        }
        Ok(Session { id: self.id, requests: strand.requests, sub_agents })
    }
}

fn at(place: String, fault: RequestFault) -> LineFault {
    LineFault::Request { place, fault }
}

/// A sub-agent is recorded when it ends, with the time that it took.
fn sub_agent(
    entry: Entry,
    number: usize,
    scope: &Scope,
    end: Duration,
    before: &Strand,
) -> Result<SubAgent, LineFault> {
    let place = || format!("request {number}");
    let took = entry.duration_ms.map(|duration| duration / 1000.0);
    let took = optional_seconds("duration_ms", took).map_err(|fault| at(place(), fault))?;
    let began = end.saturating_sub(took.unwrap_or(end));
    let mut strand = Strand { requests: Vec::new(), ended: Duration::ZERO };
    let requests = entry.requests.ok_or_else(|| at(place(), RequestFault::Missing("requests")))?;
    for (inner, inner_number) in requests.iter().zip(1..) {
        let fault = |fault| at(format!("request {number}, its request {inner_number}"), fault);
        if inner.kind == "subagent" {
            return Err(fault(RequestFault::Nested));
        }
        strand.push(inner, scope, None).map_err(fault)?;
    }
    Ok(SubAgent {
        id: entry.agent_id.unwrap_or_else(|| format!("sub-agent {number}")),
        after: before.requests.len(),
        pause: began.saturating_sub(before.ended),
        requests: strand.requests,
    })
}

// === impl Strand ===

impl Strand {
    /// Adds a request. Where it waited for something else than the answer before, `waited_for` is when that ended.
    fn push(
        &mut self,
        entry: &Entry,
        scope: &Scope,
        waited_for: Option<Duration>,
    ) -> Result<(), RequestFault> {
        if !matches!(entry.kind.as_str(), "n" | "s") {
            return Err(RequestFault::Kind(entry.kind.clone()));
        }
        let start = entry.seconds("t", entry.t)?;
        let think = optional_seconds("think_time", entry.think_time)?;
        let api_time = optional_seconds("api_time", entry.api_time)?;
        let input = entry.r#in.ok_or(RequestFault::Missing("in"))?;
        let output = entry.out.ok_or(RequestFault::Missing("out"))?;
        let pause = match (waited_for, think) {
            (None, Some(think)) => think,
            (None, None) if self.requests.is_empty() => Duration::ZERO,
            (ended, _) => start.saturating_sub(ended.unwrap_or(self.ended)),
        };
        self.requests.push(SessionRequest {
            at: start,
            pause,
            api_time,
            input: Tokens::new(input),
            output: Tokens::new(output.max(1)),
            runs: scope.runs(input, entry.hash_runs.as_deref())?,
        });
        self.ended = start + api_time.unwrap_or_default();
        Ok(())
    }
}

// === impl Entry ===

impl Entry {
    fn seconds(&self, field: &'static str, value: Option<f64>) -> Result<Duration, RequestFault> {
        optional_seconds(field, value)?.ok_or(RequestFault::Missing(field))
    }
}

fn optional_seconds(field: &'static str, value: Option<f64>) -> Result<Option<Duration>, RequestFault> {
    match value {
        Some(value) if !(0.0..=LATEST).contains(&value) => Err(RequestFault::Seconds { field, value }),
        value => Ok(value.map(Duration::from_secs_f64)),
    }
}

// === impl Scope ===

impl Scope {
    fn runs(&self, input: u64, runs: Option<&[(u64, u64)]>) -> Result<Vec<(u64, u32)>, RequestFault> {
        if !(1..=LONGEST_PROMPT).contains(&input) {
            return Err(RequestFault::Input { found: input, most: LONGEST_PROMPT });
        }
        let runs = runs.ok_or(RequestFault::Missing("hash_runs"))?;
        let needed = self.block_size.complete_blocks(Tokens::new(input)).get();
        let found = runs.iter().fold(0u64, |sum, (_, count)| sum.saturating_add(*count));
        if found != needed {
            let block_size = self.block_size.get();
            return Err(RequestFault::BlockCount { found, needed, input, block_size });
        }
        let shared = self.shared.min(needed);
        let mut global = Vec::with_capacity(runs.len() + 1);
        push(&mut global, self.shared_base, shared);
        let mut hidden = shared;
        for (first, count) in runs {
            let end = first.saturating_add(*count);
            if end > IDS {
                return Err(RequestFault::Id(end - 1));
            }
            let skipped = hidden.min(*count);
            hidden -= skipped;
            push(&mut global, self.base + first + skipped, count - skipped);
        }
        Ok(global)
    }
}

/// A count fits: it is at most that of a prompt's blocks.
fn push(runs: &mut Vec<(u64, u32)>, first: u64, count: u64) {
    if count > 0 {
        runs.push((first, count as u32));
    }
}
