//! What the headers of a request ask of the selection.
//!
//! A session and a priority only arrange requests among each other, so any caller may name them. A pin and weights of
//! its own overrule the selection: they are understood from trusted callers, whose mistakes are refused, because a
//! request that goes elsewhere than it was told to deceives whoever told it. From all others they count as not sent.

use http::header::{HeaderMap, HeaderName, HeaderValue};
use kvroute_core::{DpRank, WorkerRank};
use kvroute_openai::{ErrorBody, RequestError};
use kvroute_select::{AffinityKey, CostWeights};
use xxhash_rust::xxh3::xxh3_64;

use crate::config::WorkerConfig;
use crate::error::RouteError;
use crate::headers::{OWN_PREFIX, WORKER};
use crate::log_gate::LogGate;

/// What one request asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Hints {
    /// Its session, hashed at once: no name is kept.
    pub(crate) session: Option<AffinityKey>,
    /// Who goes first among those who wait: the higher number.
    pub(crate) priority: i32,
    /// The worker or rank that it must go to.
    pub(crate) pin: Option<Pin>,
    /// Weights of its own.
    pub(crate) overrides: Overrides,
}

/// A worker by its name, or one rank of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pin {
    /// Name of the worker.
    pub(crate) worker: String,
    /// Its rank; `None` means each of them.
    pub(crate) dp_rank: Option<DpRank>,
}

/// Weights that stand in for the pool's own, by their names in the configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Overrides(Vec<(&'static str, f64)>);

/// Belongs to whom the client says; other programs know it too, so it passes on to the engine.
const SESSION: HeaderName = HeaderName::from_static("x-session-id");
const PRIORITY: HeaderName = HeaderName::from_static("x-kvroute-priority");
const OVERRIDE: HeaderName = HeaderName::from_static("x-kvroute-override");

/// Headers of this program that a request may have.
const KNOWN: [HeaderName; 3] = [PRIORITY, WORKER, OVERRIDE];

/// Longest value of a header of this program in bytes; nothing that is meant is longer.
const LONGEST: usize = 512;

/// Priorities are from the negative of it to it.
const HIGHEST_PRIORITY: i32 = 100;

/// How alike two names must be (Jaro-Winkler, 0 to 1) to suggest one for the other.
const ALIKE: f64 = 0.75;

/// Whoever sends headers that are not understood from it does so with every request.
static IGNORED: LogGate = LogGate::new();

// === impl Hints ===

impl Hints {
    /// Reads the headers of one request. Values that are not understood are the client's mistake, with status 400.
    pub(crate) fn read(headers: &HeaderMap, is_trusted: bool) -> Result<Self, RouteError> {
        let mut hints = Self { session: session(headers), priority: priority(headers)?, ..Self::default() };
        if !is_trusted {
            warn_of_ignored(headers);
            return Ok(hints);
        }
        if let Some(unknown) = own(headers).find(|name| !KNOWN.contains(name)) {
            return Err(unknown_header(unknown));
        }
        hints.pin = text(headers, &WORKER)?.map(Pin::parse).transpose()?;
        hints.overrides = text(headers, &OVERRIDE)?.map(Overrides::parse).transpose()?.unwrap_or_default();
        Ok(hints)
    }
}

/// Any bytes are a name, and of several the first is meant: the header is not this program's own, and a client that has
/// always sent it to somebody else makes no mistake. An empty name is none.
fn session(headers: &HeaderMap) -> Option<AffinityKey> {
    let name = headers.get_all(&SESSION).iter().find(|name| !name.is_empty())?;
    Some(AffinityKey::new(xxh3_64(name.as_bytes())))
}

fn priority(headers: &HeaderMap) -> Result<i32, RouteError> {
    let Some(text) = text(headers, &PRIORITY)? else { return Ok(0) };
    let number = text.parse().ok().filter(|number| (-HIGHEST_PRIORITY..=HIGHEST_PRIORITY).contains(number));
    number.ok_or_else(|| {
        let range = format!("a whole number from -{HIGHEST_PRIORITY} to {HIGHEST_PRIORITY}");
        refused(&PRIORITY, &format!("{text:?} is no priority; send {range}, of which the higher goes first"))
    })
}

/// The text of a header of this program, which may stand once.
fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, RouteError> {
    let Some(value) = only_value(headers, name)? else { return Ok(None) };
    let text = value.to_str().map_err(|_| refused(name, "the value is not plain ASCII text"))?;
    Ok(Some(text.trim()))
}

fn only_value<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a HeaderValue>, RouteError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(refused(name, "the header stands more than once; send it once"));
    }
    if value.len() > LONGEST {
        let length = value.len();
        return Err(refused(name, &format!("the value has {length} bytes; send at most {LONGEST}")));
    }
    Ok(Some(value))
}

/// Names of the headers that belong to this program.
fn own(headers: &HeaderMap) -> impl Iterator<Item = &HeaderName> {
    headers.keys().filter(|name| name.as_str().starts_with(OWN_PREFIX))
}

fn warn_of_ignored(headers: &HeaderMap) {
    let Some(header) = own(headers).find(|name| **name != PRIORITY) else { return };
    if let Some(unlogged) = IGNORED.open() {
        let header = shortened(header.as_str());
        tracing::warn!(
            header,
            unlogged,
            "header ignored: its caller is not trusted; if it may steer requests, add its address to server.trusted"
        );
    }
}

fn unknown_header(name: &HeaderName) -> RouteError {
    let own = KNOWN;
    let remedy = remedy(name.as_str(), &own.each_ref().map(HeaderName::as_str));
    refused(name, &format!("no such header is understood; {remedy}"))
}

/// What was probably meant, or all that could be.
fn remedy(name: &str, known: &[&str]) -> String {
    let likeness = |known: &str| strsim::jaro_winkler(&name.to_ascii_lowercase(), known);
    let nearest = known.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    let hint = match nearest.filter(|nearest| likeness(nearest) >= ALIKE) {
        Some(nearest) => format!("did you mean {nearest}? "),
        None => String::new(),
    };
    format!("{hint}known are {}", known.join(", "))
}

fn refused(header: &HeaderName, reason: &str) -> RouteError {
    let header = shortened(header.as_str()).to_owned();
    let error = ErrorBody::new("invalid_request_error", format!("{header}: {reason}"));
    RouteError::bad_request(RequestError {
        status: 400,
        error: error.with_param(header).with_code("invalid_header"),
    })
}

/// Not all of a name that is no name.
fn shortened(name: &str) -> &str {
    name.get(..LONGEST).unwrap_or(name)
}

// === impl Pin ===

impl Pin {
    /// `NAME` or `NAME/RANK`. A name may have slashes of its own, so only digits behind the last one are a rank.
    fn parse(text: &str) -> Result<Self, RouteError> {
        let with_rank = text.rsplit_once('/').and_then(|(worker, rank)| Some((worker, digits(rank)?)));
        let (worker, dp_rank) = match with_rank {
            Some((worker, rank)) => (worker, Some(DpRank::new(rank))),
            None => (text, None),
        };
        if worker.is_empty() {
            let form = "a worker's name, host:port, or one of its ranks, host:port/0";
            return Err(refused(&WORKER, &format!("{text:?} names no worker; send {form}")));
        }
        Ok(Self { worker: worker.to_owned(), dp_rank })
    }

    /// Whether it means a rank. What looks like a rank at its end may belong to the worker's name too.
    pub(crate) fn names(&self, rank: &WorkerRank) -> bool {
        let name = rank.worker.as_str();
        let Some(dp_rank) = self.dp_rank else { return name == self.worker };
        let is_whole_name = || {
            let last = name.strip_prefix(self.worker.as_str()).and_then(|rest| rest.strip_prefix('/'));
            last.and_then(digits) == Some(dp_rank.get())
        };
        (name == self.worker && rank.dp_rank == dp_rank) || is_whole_name()
    }

    /// Whether it may mean a rank of a worker of which nothing but the configuration is known.
    pub(crate) fn may_name(&self, worker: &WorkerConfig) -> bool {
        let is_within = |rank: &DpRank| worker.dp_ranks.is_none_or(|ranks| rank.get() < ranks);
        let ranks = [Some(DpRank::new(0)), self.dp_rank.filter(is_within)];
        ranks.into_iter().flatten().any(|rank| self.names(&WorkerRank::new(worker.id(), rank)))
    }
}

impl std::fmt::Display for Pin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.worker)?;
        self.dp_rank.map_or(Ok(()), |rank| write!(f, "/{rank}"))
    }
}

fn digits(text: &str) -> Option<u32> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

// === impl Overrides ===

impl Overrides {
    /// `NAME=NUMBER` with commas between them.
    fn parse(text: &str) -> Result<Self, RouteError> {
        let mut overrides: Vec<(&str, f64)> = Vec::new();
        for part in text.split(',') {
            let (name, value) = assignment(part.trim())?;
            if overrides.iter().any(|(given, _)| *given == name) {
                return Err(refused(&OVERRIDE, &format!("{name} is given twice; give it once")));
            }
            overrides.push((name, value));
        }
        Ok(Self(overrides))
    }

    /// The weights with these in their places.
    pub(crate) fn apply(&self, mut weights: CostWeights) -> CostWeights {
        for (name, weight) in weights.by_name() {
            if let Some((_, value)) = self.0.iter().find(|(given, _)| *given == name) {
                *weight = *value;
            }
        }
        weights
    }
}

fn assignment(part: &str) -> Result<(&'static str, f64), RouteError> {
    let Some((name, number)) = part.split_once('=') else {
        let form = "NAME=NUMBER with commas between them, such as temperature=0.5,device_weight=1";
        return Err(refused(&OVERRIDE, &format!("{part:?} has no '='; send {form}")));
    };
    let (name, number) = (name.trim_end(), number.trim_start());
    let known = CostWeights::default().by_name().map(|(name, _)| name);
    let Some(known) = known.into_iter().find(|known| *known == name) else {
        return Err(refused(&OVERRIDE, &format!("{name:?} is no weight; {}", remedy(name, &known))));
    };
    match number.parse().ok().filter(|number| (0.0..=CostWeights::MAX).contains(number)) {
        Some(value) => Ok((known, value)),
        None => {
            let reason = format!("{known} is {number:?}; send a number from 0 to {}", CostWeights::MAX);
            Err(refused(&OVERRIDE, &reason))
        }
    }
}

#[cfg(test)]
mod tests;
