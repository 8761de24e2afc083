//! What was learned of each worker, before anybody judges it.

use kvroute_core::{BlockSize, DpRank, WorkerReport};
use kvroute_engine::events::EventAddress;
use kvroute_engine::{EngineLoads, LoadError, Probe, ProbeError};

use super::parity::ParityCheck;
use super::subjects::Subject;

/// One worker that was asked everything.
#[derive(Debug)]
pub(super) struct Patient {
    pub(super) subject: Subject,
    /// What it is; without that there is nothing else.
    pub(super) examined: Result<Examined, ProbeError>,
}

/// What a worker that answers was found to be.
#[derive(Debug)]
pub(super) struct Examined {
    pub(super) probe: Probe,
    pub(super) load: Result<EngineLoads, LoadError>,
    /// One entry a rank whose events are to be followed.
    pub(super) streams: Vec<StreamCheck>,
    pub(super) trial: Trial,
    pub(super) parity: Parity,
}

/// The event sockets of one rank.
#[derive(Debug)]
pub(super) struct StreamCheck {
    pub(super) dp_rank: DpRank,
    pub(super) address: EventAddress,
    /// Whether somebody is there.
    pub(super) live: Result<(), String>,
    /// The same of the replay socket; `None` where there is none.
    pub(super) replay: Option<Result<(), String>>,
    /// What the stream brought during the trial; `None` where nothing was tried.
    pub(super) heard: Option<HeardEvents>,
}

/// Events that came while the trial ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HeardEvents {
    pub(super) messages: u64,
    /// Blocks that were stored.
    pub(super) blocks: u64,
    /// Their size.
    pub(super) block_size: Option<BlockSize>,
    /// Messages or events that could not be read.
    pub(super) unreadable: u64,
}

/// The same prompt, sent twice.
#[derive(Debug)]
pub(super) enum Trial {
    /// It was not to be sent, or would have hung: why.
    NotSent(&'static str),
    /// It got no proper answer.
    Refused(String),
    /// Both got one.
    Done(TrialResult),
}

/// What the engine said of two equal prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TrialResult {
    /// Tokens of the prompt by the engine's count, where it tells one.
    pub(super) prompt_tokens: Option<u64>,
    /// The same by the tokenizer here, where there is one.
    pub(super) counted_tokens: Option<u64>,
    /// What the second answer said of reuse.
    pub(super) warm: Option<WorkerReport>,
}

/// Whether prompts are counted here as the engine counts them.
#[derive(Debug)]
pub(super) enum Parity {
    /// Nobody counts here.
    NoTokenizer,
    /// They are not counted, as it is wanted.
    Off,
    /// These were compared.
    Compared(ParityCheck),
}

/// What the trial proved of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// An event was heard, and reuse was reported.
    Proved,
    /// Reuse was reported; there is no event stream to be heard.
    ReportsOnly,
    /// An event was heard; no reuse was reported.
    EventsOnly,
    /// Neither.
    Failed,
    /// Nothing was tried.
    NotTried,
}

// === impl Examined ===

impl Examined {
    /// What the same prompt, sent twice, proved.
    pub(super) fn verdict(&self) -> Verdict {
        let result = match &self.trial {
            Trial::Done(result) => result,
            Trial::NotSent(_) => return Verdict::NotTried,
            Trial::Refused(_) => return Verdict::Failed,
        };
        let is_reported = result.reused().is_some_and(|reused| reused > 0);
        let is_heard = self.streams.iter().filter_map(|stream| stream.heard).any(|heard| heard.blocks > 0);
        match (is_heard, is_reported) {
            (true, true) => Verdict::Proved,
            (false, true) => Verdict::ReportsOnly,
            (true, false) => Verdict::EventsOnly,
            (false, false) => Verdict::Failed,
        }
    }
}

// === impl TrialResult ===

impl TrialResult {
    /// Tokens that the second request did not compute again, where the engine says so.
    pub(super) fn reused(&self) -> Option<u64> {
        self.warm?.reused.count()
    }
}

// === impl Verdict ===

impl Verdict {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Proved => "proved",
            Self::ReportsOnly => "reports_only",
            Self::EventsOnly => "events_only",
            Self::Failed => "failed",
            Self::NotTried => "not_tried",
        }
    }
}
