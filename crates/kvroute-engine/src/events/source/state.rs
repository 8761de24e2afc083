//! How far a rank's part of the index can be trusted, and what would help.

use std::fmt;

use kvroute_core::{ReplayOutcome, SourceState};

/// State of a source and why it is not exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceStatus {
    /// The state.
    pub state: SourceState,
    /// What is wrong and what helps; absent when exact.
    pub reason: Option<SourceReason>,
}

/// Why an event stream is not exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SourceReason {
    /// Connected, nothing received, nothing to ask.
    NothingReceived,
    /// A replay is under way.
    CatchingUp,
    /// The first event had a later number, and there is no replay socket.
    JoinedLate,
    /// Numbers are missing, and there is no replay socket.
    EventsLost,
    /// The engine's replay buffer does not reach back far enough.
    ReplayTooShort,
    /// The replay socket refused, timed out or broke.
    ReplayFailed,
    /// Too much arrived during a replay to be kept.
    Flooded,
    /// No connection to the event socket.
    NotConnected,
}

/// Something that happened to a stream, to be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceIncident {
    /// Live numbers skipped some that are not known from a replay either.
    Gap,
    /// So many batches will never come: the gap was given up.
    Missed(u64),
    /// A replay ended.
    ReplayEnded(ReplayOutcome),
    /// Another process of the engine publishes now.
    Restart,
    /// The connection to the event socket is gone: the engine may be, too.
    Disconnected,
}

// === impl SourceStatus ===

impl SourceStatus {
    pub(super) const EXACT: Self = Self { state: SourceState::Exact, reason: None };

    pub(super) const fn degraded(reason: SourceReason) -> Self {
        Self { state: SourceState::Degraded, reason: Some(reason) }
    }

    pub(super) const fn blind(reason: SourceReason) -> Self {
        Self { state: SourceState::Blind, reason: Some(reason) }
    }
}

// === impl SourceReason ===

impl fmt::Display for SourceReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NothingReceived => {
                "no event yet, and without a replay socket earlier ones may have been missed: \
                 set replay_endpoint in the engine's --kv-events-config"
            }
            Self::CatchingUp => "asking the engine for the events that were missed",
            Self::JoinedLate => {
                "the engine was running before, and has no replay socket: \
                 set replay_endpoint in its --kv-events-config"
            }
            Self::EventsLost => {
                "events were lost, and the engine has no replay socket: \
                 set replay_endpoint in its --kv-events-config"
            }
            Self::ReplayTooShort => {
                "the engine no longer keeps the events that were missed: \
                 raise buffer_steps in its --kv-events-config"
            }
            Self::ReplayFailed => {
                "the engine's replay socket does not answer: \
                 check replay_endpoint in its --kv-events-config and the network"
            }
            Self::Flooded => "too many events arrived while missed ones were asked for",
            Self::NotConnected => {
                "no connection to the engine's event socket: give it --kv-events-config with \
                 endpoint tcp://*:PORT, and check the network"
            }
        })
    }
}
