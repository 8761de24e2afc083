//! What an engine says of its own load: requests that run or wait, and how full its cache is.
//!
//! A router knows what it sent. What others send to the same engine it can only be told, and engines tell it to their
//! operators: in their metrics, or at an endpoint for routers. Both are asked as they are, bounded in time and bytes.

use std::collections::BTreeMap;
use std::time::Duration;

use http::StatusCode;
use kvroute_core::DpRank;

use crate::exposition::{Series, series};
use crate::http::{Limits, get_within};
use crate::probe::MAX_DP_RANKS;
use crate::{CallError, EngineKind, HttpClient};

/// Longest answer that is read; vLLM's metrics of eight ranks take about 1 MiB.
const LONGEST_ANSWER: usize = 4 << 20;

/// The load of one rank, as its engine counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EngineLoad {
    /// Requests that are computed.
    pub running: u64,
    /// Requests that are not begun.
    pub waiting: u64,
    /// Share of the cache, 0 to 1, that these requests hold; `None` where the engine does not tell it, or counts in what
    /// it only keeps for later.
    pub kv_usage: Option<f64>,
}

/// The loads of a server's ranks, at least of one.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineLoads {
    ranks: BTreeMap<DpRank, EngineLoad>,
}

/// A load that is not known.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// There is nothing to ask.
    #[error("{0} is not known to tell its load")]
    Unsupported(EngineKind),
    /// No answer.
    #[error("{path}: {source}")]
    Call {
        /// The endpoint.
        path: &'static str,
        /// Why.
        source: CallError,
    },
    /// Another status than 200.
    #[error("{path} answers {status}")]
    Refused {
        /// The endpoint.
        path: &'static str,
        /// The HTTP status.
        status: StatusCode,
    },
    /// An answer, and no load in it.
    #[error("{path} tells nothing of running and waiting requests")]
    Untold {
        /// The endpoint.
        path: &'static str,
    },
}

/// Where an engine tells its load. A row of its [`EngineSpec`](crate::spec::EngineSpec).
pub(crate) struct LoadQuestion {
    pub(crate) path: &'static str,
    pub(crate) answer: LoadAnswer,
}

/// How the answer is read.
pub(crate) enum LoadAnswer {
    /// It is an exposition with these families.
    Families(LoadFamilies),
    /// It is something else.
    Read(fn(&[u8]) -> LoadReading),
}

/// Families of an exposition.
pub(crate) struct LoadFamilies {
    pub(crate) running: &'static str,
    pub(crate) waiting: &'static str,
    /// Names that this had in different releases; empty where there is none to be trusted.
    pub(crate) kv_usage: &'static [&'static str],
    /// The label that holds the rank; `None` where a server is one rank.
    pub(crate) rank_label: Option<&'static str>,
}

/// What an answer holds, number by number.
#[derive(Debug, Default)]
pub(crate) struct LoadReading {
    ranks: BTreeMap<DpRank, Reading>,
}

#[derive(Debug, Default)]
struct Reading {
    running: Option<u64>,
    waiting: Option<u64>,
    kv_usage: Option<f64>,
}

/// Asks an engine for the load of its ranks, for so long at most.
///
/// # Errors
/// The engine does not tell, or not now.
pub async fn fetch_load(
    client: &HttpClient,
    url: &str,
    engine: EngineKind,
    patience: Duration,
) -> Result<EngineLoads, LoadError> {
    let limits = Limits { patience, longest: LONGEST_ANSWER };
    let mut failure = LoadError::Unsupported(engine);
    for question in engine.spec().load {
        let path = question.path;
        let answer = get_within(client, url, path, limits).await;
        let answer = answer.map_err(|source| LoadError::Call { path, source })?;
        match question.loads(&answer.body) {
            _ if answer.status != StatusCode::OK => {
                failure = LoadError::Refused { path, status: answer.status };
            }
            Some(loads) => return Ok(loads),
            None => failure = LoadError::Untold { path },
        }
    }
    Err(failure)
}

// === impl LoadError ===

impl LoadError {
    /// What to change so that the engine tells its load.
    pub const fn remedy(&self, engine: EngineKind) -> &'static str {
        match self {
            Self::Call { .. } => "see why the worker does not answer in time, or ask it less often",
            Self::Unsupported(_) | Self::Refused { .. } | Self::Untold { .. } => engine.load_remedy(),
        }
    }
}

// === impl EngineLoads ===

impl EngineLoads {
    /// The load of a rank. Where a server of one rank gives it another number (rank 3 of a deployment of many servers),
    /// the one that it tells is meant.
    pub fn of(&self, rank: DpRank, ranks_of_server: u32) -> Option<EngineLoad> {
        let only = || self.ranks.values().next().filter(|_| ranks_of_server == 1 && self.ranks.len() == 1);
        self.ranks.get(&rank).or_else(only).copied()
    }

    /// All of them, by rank.
    pub fn iter(&self) -> impl Iterator<Item = (DpRank, EngineLoad)> {
        self.ranks.iter().map(|(rank, load)| (*rank, *load))
    }
}

// === impl LoadQuestion ===

impl LoadQuestion {
    /// The loads that an answer tells; `None` if it tells none.
    pub(crate) fn loads(&self, answer: &[u8]) -> Option<EngineLoads> {
        let reading = match &self.answer {
            LoadAnswer::Families(families) => families.read(answer),
            LoadAnswer::Read(read) => read(answer),
        };
        reading.finish()
    }
}

// === impl LoadFamilies ===

impl LoadFamilies {
    fn read(&self, exposition: &[u8]) -> LoadReading {
        let mut reading = LoadReading::default();
        for series in series(exposition) {
            if series.is(self.running) {
                self.rank_of(&series).into_iter().for_each(|rank| reading.running(rank, series.value));
            } else if series.is(self.waiting) {
                self.rank_of(&series).into_iter().for_each(|rank| reading.waiting(rank, series.value));
            } else if self.kv_usage.iter().any(|family| series.is(family)) {
                self.rank_of(&series).into_iter().for_each(|rank| reading.kv_usage(rank, series.value));
            }
        }
        reading
    }

    /// Without the label, which servers of one rank may leave out, it is the first rank.
    fn rank_of(&self, series: &Series<'_>) -> Option<u32> {
        match self.rank_label.and_then(|label| series.label(label)) {
            Some(rank) => rank.parse().ok(),
            None => Some(0),
        }
    }
}

// === impl LoadReading ===

impl LoadReading {
    /// Running requests of a rank.
    pub(crate) fn running(&mut self, rank: u32, requests: f64) {
        let (Some(reading), Some(requests)) = (self.rank(rank), whole(requests)) else { return };
        reading.running = reading.running.max(Some(requests));
    }

    /// Waiting requests of a rank.
    pub(crate) fn waiting(&mut self, rank: u32, requests: f64) {
        let (Some(reading), Some(requests)) = (self.rank(rank), whole(requests)) else { return };
        reading.waiting = reading.waiting.max(Some(requests));
    }

    /// Share of a rank's cache that its requests hold.
    pub(crate) fn kv_usage(&mut self, rank: u32, share: f64) {
        let Some(reading) = self.rank(rank).filter(|_| share.is_finite() && share >= 0.0) else { return };
        reading.kv_usage = Some(reading.kv_usage.unwrap_or_default().max(share.min(1.0)));
    }

    /// The rank's place. Every process of a rank that is spread over accelerators may tell the same numbers: of several
    /// the largest counts, never the sum.
    fn rank(&mut self, rank: u32) -> Option<&mut Reading> {
        (rank < MAX_DP_RANKS).then(|| self.ranks.entry(DpRank::new(rank)).or_default())
    }

    /// Only ranks of which both numbers of requests are told: half of them would look like a small load.
    fn finish(self) -> Option<EngineLoads> {
        let ranks: BTreeMap<_, _> =
            self.ranks.into_iter().filter_map(|(rank, reading)| Some((rank, reading.load()?))).collect();
        (!ranks.is_empty()).then_some(EngineLoads { ranks })
    }
}

// === impl Reading ===

impl Reading {
    fn load(&self) -> Option<EngineLoad> {
        let (running, waiting) = self.running.zip(self.waiting)?;
        Some(EngineLoad { running, waiting, kv_usage: self.kv_usage })
    }
}

/// A number of requests. No engine has more than fit into 32 bits, so that sums of them are safe.
fn whole(requests: f64) -> Option<u64> {
    (requests.is_finite() && requests >= 0.0).then(|| (requests as u64).min(u32::MAX.into()))
}

#[cfg(test)]
mod tests;
