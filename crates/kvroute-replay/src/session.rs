//! Recorded sessions: turns of which each waits for the answer before it.
//!
//! Their times are pauses, not moments: replayed at the recorded moments, turns of a slower engine would overlap, and
//! the fleet would be asked things that nobody could have asked yet.

use std::time::Duration;

use kvroute_core::{BlockSize, Tokens};

use crate::TraceRequest;

/// Sessions in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionTrace {
    /// Tokens that one block id stands for.
    pub block_size: BlockSize,
    /// The sessions.
    pub sessions: Vec<Session>,
    /// Sessions that were left out because a prompt of theirs is longer than was asked for.
    pub dropped: usize,
}

/// One conversation of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// As the trace names it.
    pub id: String,
    /// Its own requests, in order.
    pub requests: Vec<SessionRequest>,
    /// Agents that it sent out, in the order in which they came back.
    pub sub_agents: Vec<SubAgent>,
}

/// An agent that works for a session, with prompts of its own. The session's next request waits for it; sub-agents
/// between the same two requests run beside each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubAgent {
    /// As the trace names it.
    pub id: String,
    /// Requests of the session that were answered before it began.
    pub after: usize,
    /// Between the answer of the last of those and its beginning.
    pub pause: Duration,
    /// Its requests, in order.
    pub requests: Vec<SessionRequest>,
}

/// One request of a session or of a sub-agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRequest {
    /// Start as recorded, since the session (the sub-agent) began.
    pub at: Duration,
    /// Between the end of what it waited for and its start: time to think, or to run a tool.
    pub pause: Duration,
    /// How long the recorded answer took, where that is known.
    pub api_time: Option<Duration>,
    /// Prompt length; never zero.
    pub input: Tokens,
    /// Answer length; never zero.
    pub output: Tokens,
    /// Ids of the full blocks, no longer local to the session, as (first, count) of consecutive ones: a session
    /// repeats its whole prompt each turn, and its ids would be a thousand times its file.
    pub(crate) runs: Vec<(u64, u32)>,
}

// === impl SessionTrace ===

impl SessionTrace {
    /// Number of requests, those of sub-agents included.
    pub fn requests(&self) -> usize {
        self.sessions.iter().map(|session| session.all_requests().count()).sum()
    }

    /// Sum of the prompts' lengths.
    pub fn input(&self) -> Tokens {
        self.sessions.iter().flat_map(Session::all_requests).map(|request| request.input).sum()
    }
}

// === impl Session ===

impl Session {
    /// Its own requests, then those of its sub-agents.
    pub fn all_requests(&self) -> impl Iterator<Item = &SessionRequest> {
        self.requests.iter().chain(self.sub_agents.iter().flat_map(|agent| &agent.requests))
    }
}

// === impl SessionRequest ===

impl SessionRequest {
    /// The request with one id for each full block, to make a prompt of.
    pub fn to_trace_request(&self) -> TraceRequest {
        let ids = self.runs.iter().flat_map(|(first, count)| (*first..).take(*count as usize));
        TraceRequest { at: self.at, input: self.input, output: self.output, blocks: ids.collect() }
    }
}
