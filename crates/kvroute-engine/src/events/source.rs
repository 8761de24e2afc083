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
mod foreign;
mod incomplete;
mod rebuild;
mod replaying;
mod start;
mod state;
#[cfg(test)]
mod tests;

use std::time::Duration;

use bytes::Bytes;
use kvroute_core::{EventBatch, LastMessage};
use xxhash_rust::xxh3::xxh3_64;

use super::{BlockSizeClaim, EventDecoder};
use backlog::Backlog;
use foreign::Replayed;
use rebuild::Rebuild;
use replaying::Replay;
pub use state::{SourceIncident, SourceReason, SourceStatus};

/// A rank that is not connected for so long is blind.
pub const BLIND_AFTER: Duration = Duration::from_secs(15);

/// State of one rank's stream. `now` is any monotonic time of the caller.
#[derive(Clone, Debug)]
pub struct Source {
    decoder: EventDecoder,
    has_replay: bool,
    disconnected_since: Option<Duration>,
    /// The last message applied.
    last: Option<LastMessage>,
    /// Whether `last` is from a snapshot, and nothing has confirmed it yet.
    is_restored: bool,
    /// The highest number on the live channel, or what was known when it was connected.
    last_live: Option<u64>,
    /// Whether `last` is known to be of the process that now publishes.
    is_verified: bool,
    replay: Option<Replay>,
    /// How often a replay contradicted what was known, since the last connection.
    contradictions: u32,
    /// Whether that was too often, and no gap is worth a question.
    is_replay_distrusted: bool,
    /// Whether live messages have shown that the replay socket is another engine's, and nothing the contrary since.
    is_replay_foreign: bool,
    /// What the replay brought of what is applied, until a live message is beyond it.
    replayed: Replayed,
    /// Blocks may be missing until a clear, a restart or a replay from the first message.
    missing: Option<SourceReason>,
    /// When to ask for everything again, after a loss that the engine may still be able to make up for.
    rebuild: Option<Rebuild>,
    /// Nothing is known to be missing, but that is not certain either until the next message.
    doubt: Option<SourceReason>,
    /// When the process was started that published `last`, where it says so.
    process_start: Option<Duration>,
    /// Whether the engine is being asked for its start since the last connection.
    awaits_start: bool,
    /// Live messages that wait for the answer.
    waiting: Backlog,
}

/// What the caller must do, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceAction {
    /// Forget every block of the rank.
    Clear,
    /// Apply a batch. One from a replay has no publishing time, since its age says nothing about the router.
    Apply {
        /// What to apply.
        batch: EventBatch,
        /// Where a snapshot that has this batch may be resumed; `None` where blocks may be missing.
        position: Option<LastMessage>,
    },
    /// Ask the replay socket for everything from a number on, instead of any replay before.
    RequestReplay {
        /// The first number wanted.
        from: u64,
    },
    /// Count something.
    Count(SourceIncident),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Channel {
    Live,
    Replay,
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
            is_restored: false,
            last_live: None,
            is_verified: false,
            replay: None,
            contradictions: 0,
            is_replay_distrusted: false,
            is_replay_foreign: false,
            replayed: Replayed::default(),
            missing: None,
            rebuild: None,
            doubt: Some(if has_replay { SourceReason::CatchingUp } else { SourceReason::NothingReceived }),
            process_start: None,
            awaits_start: false,
            waiting: Backlog::default(),
        }
    }

    /// A source that is about to connect, where the index was restored as it was behind a message.
    pub fn resumed(has_replay: bool, now: Duration, last: LastMessage) -> Self {
        Self { last: Some(last), is_restored: true, ..Self::new(has_replay, now) }
    }

    /// The same source, where the size of its blocks is known before anything is heard.
    #[must_use]
    pub fn expecting(self, claim: BlockSizeClaim) -> Self {
        Self { decoder: EventDecoder::expecting(claim), ..self }
    }

    /// State at a time, to be asked after every input and every second.
    pub fn status(&self, now: Duration) -> SourceStatus {
        if let Some(since) = self.disconnected_since {
            let is_blind = now.saturating_sub(since) >= BLIND_AFTER;
            let state = if is_blind { SourceStatus::blind } else { SourceStatus::degraded };
            return state(SourceReason::NotConnected);
        }
        if self.is_catching_up() {
            return SourceStatus::degraded(SourceReason::CatchingUp);
        }
        if let Some(contradicted) = SourceStatus::of_sizes(self.decoder.sizes()) {
            return contradicted;
        }
        let unidentified = self.is_unidentified().then_some(SourceReason::Unidentified);
        match self.missing.or(unidentified).or(self.doubt) {
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
        self.awaits_start = false;
        self.waiting = Backlog::default();
        self.replay = None;
        self.contradictions = 0;
        self.is_replay_distrusted = false;
        if self.is_restored && !self.has_replay {
            self.forget(actions);
        }
        self.last_live = self.last_sequence();
        if self.has_replay {
            self.start_replay(Replay::default(), actions);
        } else {
            self.doubt = Some(SourceReason::NothingReceived);
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
            self.waiting = Backlog::default();
        } else if self
            .last_live
            .max(self.last_sequence())
            .is_some_and(|known| sequence.saturating_sub(1) > known)
        {
            actions.push(SourceAction::Count(SourceIncident::Gap));
        }
        self.last_live = Some(sequence);
        if self.knows(sequence) {
            // A replay was faster, or it is another engine's.
            return self.compare_with_replayed(sequence, payload, actions);
        }
        if self.is_unidentified() {
            let is_within_bound = self.waiting.push(sequence, payload);
            if !is_within_bound {
                self.started(None, actions);
            }
        } else if let Some(replay) = &mut self.replay {
            let is_within_bound = replay.backlog.push(sequence, payload);
            if !is_within_bound {
                self.give_up_replay(SourceReason::Flooded, actions);
            }
        } else if self.has_replay && !self.is_replay_distrusted && !self.continues(sequence) {
            let mut replay = Replay::default();
            let _is_within_bound = replay.backlog.push(sequence, payload);
            self.start_replay(replay, actions);
        } else {
            let reason = match (self.has_replay, self.is_replay_foreign) {
                (false, _) => SourceReason::EventsLost,
                (true, false) => SourceReason::ReplayContradictsItself,
                (true, true) => SourceReason::ReplayOfAnother,
            };
            self.lose_unless_continued(sequence, reason, actions);
            self.apply(Channel::Live, sequence, &payload, actions);
        }
    }

    /// Another process of the engine publishes now.
    fn restart(&mut self, actions: &mut Vec<SourceAction>) {
        actions.push(SourceAction::Count(SourceIncident::Restart));
        self.forget(actions);
        self.missing = None;
        self.rebuild = None;
        self.decoder.restart();
        if self.awaits_start {
            // The answer will be of the process that was found here, and is no second restart.
            self.process_start = None;
        }
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
        let reason = if has_just_joined { SourceReason::JoinedLate } else { reason };
        self.miss(reason);
        self.forget(actions);
    }

    fn miss(&mut self, reason: SourceReason) {
        self.missing = Some(reason);
        self.rebuild = self.rebuild_after(reason);
    }

    fn forget(&mut self, actions: &mut Vec<SourceAction>) {
        self.is_restored = false;
        self.replayed = Replayed::default();
        if self.last.take().is_some() {
            actions.push(SourceAction::Clear);
        }
    }

    /// Where a snapshot may be resumed: by a replay, of a stream that misses nothing. What the decoder has learned of
    /// cache groups is in no snapshot, and removals cannot be understood without it.
    fn position(&self) -> Option<LastMessage> {
        let is_resumable = self.has_replay && self.missing.is_none() && !self.decoder.knows_groups();
        self.last.filter(|_| is_resumable)
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
        if self.decoder.has_announced_clear() || sequence == 0 {
            self.missing = None;
        }
        if self.decoder.has_announced_clear() {
            self.rebuild = None;
        }
        if let Some(sizes) = self.decoder.take_loss() {
            self.miss(SourceReason::overruled(sizes));
        }
        let content = xxh3_64(payload);
        self.replayed.applied(channel, sequence, content);
        self.last = Some(LastMessage { sequence, content });
        self.is_verified = true;
        self.is_restored = false;
        self.doubt = None;
        actions.push(SourceAction::Apply { batch, position: self.position() });
    }
}
