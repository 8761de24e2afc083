//! How far a rank's part of the index can be trusted, and what would help.

use std::fmt;

use kvroute_core::{BlockSize, ReplayOutcome, SourceState};

use crate::events::block_sizes::{BlockSizes, TwoSizes};

// Longer advice than fits beside the rest.
const REPLAY_LOSSY: &str = "the engine's replay socket loses messages on the way, though it is asked again and again: \
     check the network between router and engine";
const REPLAY_OF_ANOTHER: &str = "the engine's replay socket has other contents than its event socket under the same numbers: \
     replay_endpoint in its --kv-events-config, or kv_replay, names another engine or rank";
const REPLAY_CONTRADICTS_ITSELF: &str = "the engine's replay socket gives other contents for the same messages each time: check that \
     replay_endpoint in its --kv-events-config, or kv_replay, is this engine's own";

/// State of a source and why it is not exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceStatus {
    /// The state.
    pub state: SourceState,
    /// What is wrong and what helps; absent when exact, and when remembered.
    pub reason: Option<SourceReason>,
}

/// Why what is known of a rank is not exact.
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
    /// Messages within the replay socket's answers are lost, however often it is asked.
    ReplayLossy,
    /// The replay socket has other messages under the numbers of live ones.
    ReplayOfAnother,
    /// Too much arrived during a replay to be kept.
    Flooded,
    /// No connection to the event socket.
    NotConnected,
    /// Connected again, and the replay socket does not answer: it may be another engine process.
    Unanswered,
    /// Connected again, and the engine has not yet said when it was started: it may be another process.
    Unidentified,
    /// Known from a snapshot, and not confirmed by the engine.
    Restored,
    /// The engine should have published something and did not.
    Silent,
    /// Reports fall short of what the index says, several in a row.
    Contradicted,
    /// The endpoint to poll does not answer.
    NotPolled,
    /// The endpoint to poll has not given any event yet.
    NothingPolled,
    /// An answer to a poll did not arrive, and no event since then has shown whether it held any.
    PollLost,
    /// Polled events are missing: somebody else read them, or the engine dropped them.
    EventsTaken,
    /// Blocks of another size than expected are refused.
    BlockSize {
        /// What the operator requires, the engine's probe said, or the events showed before.
        expected: BlockSize,
        /// What events have now.
        seen: BlockSize,
    },
    /// The blocks turned out to have another size than was believed, and those that were refused are missing.
    BlockSizeOverruled {
        /// What was believed.
        before: BlockSize,
        /// What is believed now.
        now: BlockSize,
    },
    /// The replay socket contradicts itself about the same messages.
    ReplayContradictsItself,
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
    /// Nothing is wrong.
    pub const EXACT: Self = Self { state: SourceState::Exact, reason: None };
    /// No events: the router remembers what it placed.
    pub const REMEMBERED: Self = Self { state: SourceState::Remembered, reason: None };
    /// Reports contradict the index.
    pub const SUSPECT: Self = Self { state: SourceState::Suspect, reason: Some(SourceReason::Contradicted) };

    pub(in crate::events) const fn degraded(reason: SourceReason) -> Self {
        Self { state: SourceState::Degraded, reason: Some(reason) }
    }

    pub(in crate::events) const fn blind(reason: SourceReason) -> Self {
        Self { state: SourceState::Blind, reason: Some(reason) }
    }

    /// The state of a stream whose blocks are refused. Where none was ever of the right size, nothing is heard that can
    /// be used.
    pub(in crate::events) fn of_sizes(sizes: &BlockSizes) -> Option<Self> {
        let (TwoSizes { before, then }, has_ever_agreed) = sizes.contradiction()?;
        let state = if has_ever_agreed { Self::degraded } else { Self::blind };
        Some(state(SourceReason::BlockSize { expected: before, seen: then }))
    }
}

// === impl SourceReason ===

impl SourceReason {
    /// Whether events are lost for good: the rank's blocks were forgotten, and some that the engine holds are unknown.
    pub const fn is_loss(self) -> bool {
        matches!(
            self,
            Self::JoinedLate
                | Self::EventsLost
                | Self::ReplayTooShort
                | Self::ReplayFailed
                | Self::ReplayLossy
                | Self::ReplayOfAnother
                | Self::Flooded
                | Self::EventsTaken
                | Self::BlockSizeOverruled { .. }
                | Self::ReplayContradictsItself
        )
    }

    pub(in crate::events) const fn overruled(sizes: TwoSizes) -> Self {
        Self::BlockSizeOverruled { before: sizes.before, now: sizes.then }
    }
}

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
                "the engine's replay socket does not answer as it should: \
                 check replay_endpoint in its --kv-events-config and the network"
            }
            Self::ReplayLossy => REPLAY_LOSSY,
            Self::ReplayOfAnother => REPLAY_OF_ANOTHER,
            Self::Flooded => "too many events arrived while missed ones were asked for",
            Self::NotConnected => {
                "no connection to the engine's event socket: give it --kv-events-config with \
                 endpoint tcp://*:PORT, and check the network"
            }
            Self::Unanswered => {
                "connected again, and the engine's replay socket does not say whether it is the same process: \
                 check replay_endpoint in its --kv-events-config and the network"
            }
            Self::Unidentified => "connected again, asking the engine's /metrics whether it was restarted",
            Self::Restored => {
                "known from a snapshot, and the engine's replay socket does not confirm it: \
                 check replay_endpoint in its --kv-events-config and the network"
            }
            Self::Silent => {
                "a finished request must have stored a block, and no event came: check that prefix caching is on, \
                 and enable_kv_cache_events and topic in the engine's --kv-events-config (tensorrt-llm: \
                 event_buffer_max_size in kv_cache_config)"
            }
            Self::Contradicted => {
                "the engine reports less reuse than its events promise, several times in a row: its cache was \
                 emptied without a word, or --kv-events-config names the address of another engine"
            }
            Self::NotPolled => {
                "the engine's /kv_cache_events does not answer: check the worker's url and the network"
            }
            Self::NothingPolled => {
                "no event yet: set event_buffer_max_size in the engine's kv_cache_config, and let nobody else \
                 read its /kv_cache_events; or set the worker's kv_events to \"none\", and what it was given is \
                 remembered instead"
            }
            Self::PollLost => {
                "an answer of the engine's /kv_cache_events was lost, perhaps with events: its next event shows whether"
            }
            Self::EventsTaken => {
                "events are missing: let nobody else read the engine's /kv_cache_events, and raise \
                 event_buffer_max_size in its kv_cache_config"
            }
            Self::BlockSize { expected, seen } => {
                return write!(
                    f,
                    "events store blocks of {seen} tokens where {expected} are expected, and are refused: set \
                     pool.block_size to \"auto\" or to the engine's own, and check that kv_events names this engine"
                );
            }
            Self::BlockSizeOverruled { before, now } => {
                return write!(
                    f,
                    "blocks have {now} tokens, not {before} as was believed, and those that were refused until this was \
                     certain are missing: a replay_endpoint in the engine's --kv-events-config gives them back"
                );
            }
            Self::ReplayContradictsItself => REPLAY_CONTRADICTS_ITSELF,
        })
    }
}
