//! One rank's event stream as a state machine: what to apply, when to clear, what to ask again.
//!
//! The rule behind every branch: between two clears, what is applied is one unbroken run of one engine process's
//! messages. Numbers alone cannot prove that. An engine that restarts counts from 0 again, and by the time it is
//! heard its numbers may fit the old ones; so after every new connection the last known message is asked for
//! again and compared by content. A live number that is not above the last live one is a restart, whatever else
//! is known. Where the run breaks and cannot be mended, the rank is cleared: removals may have been among the
//! lost messages, and a block that is not there costs more than one that was forgotten.
//!
//! No clock, no socket: the caller reports what arrives and carries out the actions in order.

mod backlog;
mod state;
#[cfg(test)]
mod tests;

use std::time::Duration;

use bytes::Bytes;
use kvroute_core::{EventBatch, KvEvent, ReplayOutcome};
use xxhash_rust::xxh3::xxh3_64;

use super::EventDecoder;
use backlog::Backlog;
pub use state::{SourceIncident, SourceReason, SourceStatus};

/// A rank that is not connected for so long is blind.
pub const BLIND_AFTER: Duration = Duration::from_secs(15);
/// Replays in a row that may end without closing a gap.
const MAX_ATTEMPTS: u32 = 3;

/// State of one rank's stream. `now` is any monotonic time of the caller.
#[derive(Clone, Debug)]
pub struct Source {
    decoder: EventDecoder,
    has_replay: bool,
    disconnected_since: Option<Duration>,
    /// The last message applied.
    last: Option<Seen>,
    /// The highest number on the live channel, or what was known when it was connected.
    last_live: Option<u64>,
    /// Whether `last` is known to be of the process that now publishes.
    is_verified: bool,
    replay: Option<Replay>,
    /// Blocks may be missing until a clear, a restart or a replay from the first message.
    missing: Option<SourceReason>,
    /// Nothing is known to be missing, but that is not certain either until the next message.
    doubt: Option<SourceReason>,
}

/// What the caller must do, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceAction {
    /// Forget every block of the rank.
    Clear,
    /// Apply a batch. One from a replay has no publishing time, since its age says nothing about the router.
    Apply(EventBatch),
    /// Ask the replay socket for everything from a number on, instead of any replay before.
    RequestReplay {
        /// The first number wanted.
        from: u64,
    },
    /// Count something.
    Count(SourceIncident),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    sequence: u64,
    /// Payloads begin with a time stamp, so equal content means the same message of the same process.
    content: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Channel {
    Live,
    Replay,
}

#[derive(Clone, Debug, Default)]
struct Replay {
    backlog: Backlog,
    attempt: u32,
    /// The engine no longer had everything that was asked for.
    is_short: bool,
}

// === impl Source ===

impl Source {
    /// A source that is about to connect.
    pub fn new(has_replay: bool, now: Duration) -> Self {
        Self {
            decoder: EventDecoder::default(),
            has_replay,
            disconnected_since: Some(now),
            last: None,
            last_live: None,
            is_verified: false,
            replay: None,
            missing: None,
            doubt: Some(if has_replay { SourceReason::CatchingUp } else { SourceReason::NothingReceived }),
        }
    }

    /// State at a time, to be asked after every input and every second.
    pub fn status(&self, now: Duration) -> SourceStatus {
        if let Some(since) = self.disconnected_since {
            let is_blind = now.saturating_sub(since) >= BLIND_AFTER;
            let state = if is_blind { SourceStatus::blind } else { SourceStatus::degraded };
            return state(SourceReason::NotConnected);
        }
        let catching_up = self.replay.as_ref().map(|_| SourceReason::CatchingUp);
        match catching_up.or(self.missing).or(self.doubt) {
            Some(reason) => SourceStatus::degraded(reason),
            None => SourceStatus::EXACT,
        }
    }

    /// The number of the last message applied.
    pub fn last_sequence(&self) -> Option<u64> {
        self.last.map(|seen| seen.sequence)
    }

    /// A connection to the publisher stands.
    pub fn connected(&mut self, actions: &mut Vec<SourceAction>) {
        self.disconnected_since = None;
        self.is_verified = false;
        self.last_live = self.last_sequence();
        self.replay = None;
        if self.has_replay {
            self.start_replay(Replay::default(), actions);
        }
    }

    /// The connection is gone. A replay under way is given up: the next connection asks again.
    pub fn disconnected(&mut self, now: Duration) {
        self.disconnected_since.get_or_insert(now);
        if self.replay.take().is_some() {
            self.doubt = Some(SourceReason::CatchingUp);
        }
    }

    /// A message from the publisher.
    pub fn live(&mut self, sequence: u64, payload: Bytes, actions: &mut Vec<SourceAction>) {
        if self.last_live.is_some_and(|last| sequence <= last) {
            self.restart(actions);
            self.replay = None;
        } else if self
            .last_live
            .max(self.last_sequence())
            .is_some_and(|known| sequence.saturating_sub(1) > known)
        {
            actions.push(SourceAction::Count(SourceIncident::Gap));
        }
        self.last_live = Some(sequence);
        if self.knows(sequence) {
            return; // A replay was faster.
        }
        if let Some(replay) = &mut self.replay {
            let is_within_bound = replay.backlog.push(sequence, payload);
            if !is_within_bound {
                self.give_up_replay(SourceReason::Flooded, actions);
            }
        } else if self.has_replay && !self.continues(sequence) {
            let mut replay = Replay::default();
            let _is_within_bound = replay.backlog.push(sequence, payload);
            self.start_replay(replay, actions);
        } else {
            self.lose_unless_continued(sequence, SourceReason::EventsLost, actions);
            self.apply(Channel::Live, sequence, &payload, actions);
        }
    }

    /// A message from the replay socket.
    pub fn replayed(&mut self, sequence: u64, payload: &Bytes, actions: &mut Vec<SourceAction>) {
        let is_continued = self.continues(sequence);
        let Some(replay) = &mut self.replay else { return };
        match self.last {
            Some(last) if sequence < last.sequence => {}
            Some(last) if sequence == last.sequence && last.content == xxh3_64(payload) => {
                self.is_verified = true;
            }
            Some(last) if sequence == last.sequence => self.restart_replay(actions),
            _ => {
                replay.is_short |= !is_continued;
                self.lose_unless_continued(sequence, SourceReason::ReplayTooShort, actions);
                self.apply(Channel::Replay, sequence, payload, actions);
            }
        }
    }

    /// The replay socket has sent everything.
    pub fn replay_ended(&mut self, actions: &mut Vec<SourceAction>) {
        let Some(replay) = &self.replay else { return };
        let knows_nothing_of_last = self.last.is_some() && !self.is_verified;
        let leaves_gap =
            replay.backlog.front().is_some_and(|next| !self.knows(next) && !self.continues(next));
        let is_short = !knows_nothing_of_last && (replay.is_short || leaves_gap);
        let outcome = if is_short { ReplayOutcome::Short } else { ReplayOutcome::Complete };
        actions.push(SourceAction::Count(SourceIncident::ReplayEnded(outcome)));
        if knows_nothing_of_last {
            return self.restart_replay(actions);
        }
        self.doubt = None;
        self.work_off_backlog(SourceReason::ReplayTooShort, true, actions);
    }

    /// The replay socket refused, timed out or broke.
    pub fn replay_failed(&mut self, actions: &mut Vec<SourceAction>) {
        self.give_up_replay(SourceReason::ReplayFailed, actions);
    }

    fn give_up_replay(&mut self, reason: SourceReason, actions: &mut Vec<SourceAction>) {
        if self.replay.is_some() {
            actions.push(SourceAction::Count(SourceIncident::ReplayEnded(ReplayOutcome::Failed)));
            self.doubt = Some(reason);
            self.work_off_backlog(reason, false, actions);
        }
    }

    /// Applies what waited for the replay. A gap in it is asked for again, or costs the rank's blocks.
    fn work_off_backlog(
        &mut self,
        reason: SourceReason,
        may_ask_again: bool,
        actions: &mut Vec<SourceAction>,
    ) {
        let Some(mut replay) = self.replay.take() else { return };
        while let Some(next) = replay.backlog.front() {
            let asks_again = may_ask_again && replay.attempt < MAX_ATTEMPTS;
            if asks_again && !self.knows(next) && !self.continues(next) {
                return self.start_replay(replay, actions);
            }
            let Some((sequence, payload)) = replay.backlog.pop() else { return };
            if !self.knows(sequence) {
                self.lose_unless_continued(sequence, reason, actions);
                self.apply(Channel::Live, sequence, &payload, actions);
            }
        }
    }

    /// What is known of the old process goes, and the new one is asked from its start.
    fn restart_replay(&mut self, actions: &mut Vec<SourceAction>) {
        let Some(replay) = self.replay.take() else { return };
        self.restart(actions);
        self.start_replay(replay, actions);
    }

    /// Asks from the last known message on, that one included: it proves who answers.
    fn start_replay(&mut self, replay: Replay, actions: &mut Vec<SourceAction>) {
        let Replay { backlog, attempt, .. } = replay;
        self.replay = Some(Replay { backlog, attempt: attempt + 1, is_short: false });
        actions.push(SourceAction::RequestReplay { from: self.last_sequence().unwrap_or(0) });
    }

    /// Another process of the engine publishes now.
    fn restart(&mut self, actions: &mut Vec<SourceAction>) {
        actions.push(SourceAction::Count(SourceIncident::Restart));
        self.forget(actions);
        self.missing = None;
    }

    /// A message that does not continue the run breaks it for good: nothing can be asked any more.
    fn lose_unless_continued(
        &mut self,
        sequence: u64,
        reason: SourceReason,
        actions: &mut Vec<SourceAction>,
    ) {
        if self.continues(sequence) {
            return;
        }
        let missed = self.last.map_or(0, |last| sequence.saturating_sub(last.sequence).saturating_sub(1));
        if missed > 0 {
            actions.push(SourceAction::Count(SourceIncident::Missed(missed)));
        }
        let has_just_joined = self.last.is_none() && !self.has_replay;
        self.missing = Some(if has_just_joined { SourceReason::JoinedLate } else { reason });
        self.forget(actions);
    }

    fn forget(&mut self, actions: &mut Vec<SourceAction>) {
        if self.last.take().is_some() {
            actions.push(SourceAction::Clear);
        }
    }

    fn knows(&self, sequence: u64) -> bool {
        self.last.is_some_and(|last| sequence <= last.sequence)
    }

    /// True for the next message of a stream that is known to be the same. Without a replay socket nothing can
    /// be asked after a reconnect, and the number alone has to do.
    fn continues(&self, sequence: u64) -> bool {
        match self.last {
            Some(last) => {
                last.sequence.checked_add(1) == Some(sequence) && (self.is_verified || !self.has_replay)
            }
            None => sequence == 0,
        }
    }

    fn apply(&mut self, channel: Channel, sequence: u64, payload: &Bytes, actions: &mut Vec<SourceAction>) {
        let mut batch = self.decoder.decode(payload);
        if channel == Channel::Replay {
            batch.published = None;
        }
        let is_cleared = batch.events.iter().any(|event| matches!(event, KvEvent::Cleared));
        if is_cleared || sequence == 0 {
            self.missing = None;
        }
        self.last = Some(Seen { sequence, content: xxh3_64(payload) });
        self.is_verified = true;
        self.doubt = None;
        actions.push(SourceAction::Apply(batch));
    }
}
