//! Asking for missed messages: what is asked, what of the answer is taken, and what happens without one.
//!
//! An answer that gives the last known message another content, or does not know it, is another process's: what is known
//! goes, and everything is asked for. But a process does not change under a connection that stands, unless something is
//! in between that hides it. An answer that is contradicted again and again comes from several engines behind one
//! address, or from none. Then what is known may be any of theirs: it goes, the live messages alone count, and the
//! socket is left in peace until the next connection or the next attempt to rebuild. `foreign` has the case that live
//! messages contradict an answer, `incomplete` that a part of it is lost on the way.

use bytes::Bytes;
use kvroute_core::ReplayOutcome;
use xxhash_rust::xxh3::xxh3_64;

use super::backlog::Backlog;
use super::{Channel, Source, SourceAction, SourceIncident, SourceReason};

/// Replays in a row that may end without bringing anything new, and leave a gap.
pub(super) const MAX_ATTEMPTS: u32 = 3;

/// Replays on one connection that may contradict what is known.
pub(super) const MAX_CONTRADICTIONS: u32 = 2;

/// A replay under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Replay {
    pub(super) backlog: Backlog,
    pub(super) attempt: u32,
    /// The last message that was known when it was asked for.
    pub(super) known_before: Option<u64>,
    /// The last message that this answer has brought.
    pub(super) brought: Option<u64>,
    /// Messages of this answer that were applied.
    pub(super) applied: u64,
    /// Answers before this one of which a part was lost, and messages that were applied from all of them.
    pub(super) lost_parts: u32,
    pub(super) salvaged: u64,
    /// The engine no longer had everything that was asked for.
    pub(super) is_short: bool,
    /// Everything was asked for, to replace what is known; nothing has come yet.
    pub(super) is_rebuilding: bool,
    /// The last message that was known before everything was replaced.
    pub(super) replaces: Option<u64>,
}

// === impl Replay ===

impl Replay {
    pub(super) fn rebuilding() -> Self {
        Self { is_rebuilding: true, ..Self::default() }
    }
}

// === impl Source ===

impl Source {
    /// Whether a replay is under way. One that was asked for and is not any more brings nothing of use.
    pub const fn is_catching_up(&self) -> bool {
        self.replay.is_some()
    }

    /// A message from the replay socket.
    pub fn replayed(&mut self, sequence: u64, payload: &Bytes, actions: &mut Vec<SourceAction>) {
        self.rebuild_from(sequence, actions);
        let is_continued = self.continues(sequence);
        let Some(replay) = &mut self.replay else { return };
        let is_first = replay.brought.replace(sequence).is_none();
        match self.last {
            Some(last) if sequence < last.sequence => {}
            Some(last) if sequence == last.sequence && last.content == xxh3_64(payload) => {
                self.is_verified = true;
                self.is_restored = false;
                self.is_replay_foreign = false;
            }
            Some(last) if sequence == last.sequence => self.contradict(actions),
            _ if !is_continued && !is_first => self.ask_for_the_rest(SourceReason::ReplayLossy, actions),
            _ => {
                replay.is_short |= !is_continued;
                replay.applied += 1;
                self.lose_unless_continued(sequence, SourceReason::ReplayTooShort, actions);
                self.apply(Channel::Replay, sequence, payload, actions);
            }
        }
    }

    /// The replay socket has sent everything.
    pub fn replay_ended(&mut self, actions: &mut Vec<SourceAction>) {
        let Some(replay) = &self.replay else { return };
        if replay.replaces > self.last_sequence() {
            return self.contradict(actions);
        }
        let knows_nothing_of_last = self.last.is_some() && !self.is_verified;
        let leaves_gap =
            replay.backlog.front().is_some_and(|next| !self.knows(next) && !self.continues(next));
        let is_short = !knows_nothing_of_last && (replay.is_short || leaves_gap);
        let outcome = if is_short { ReplayOutcome::Short } else { ReplayOutcome::Complete };
        actions.push(SourceAction::Count(SourceIncident::ReplayEnded(outcome)));
        if replay.is_rebuilding || self.missing.is_none() {
            self.rebuild = None;
        }
        if knows_nothing_of_last {
            return self.restart_replay(actions);
        }
        self.doubt = None;
        self.is_replay_distrusted &= self.missing.is_some();
        self.work_off_backlog(SourceReason::ReplayTooShort, true, actions);
    }

    /// The replay socket refused, timed out or broke.
    pub fn replay_failed(&mut self, actions: &mut Vec<SourceAction>) {
        self.give_up_replay(SourceReason::ReplayFailed, actions);
    }

    pub(super) fn give_up_replay(&mut self, reason: SourceReason, actions: &mut Vec<SourceAction>) {
        if self.replay.is_some() {
            actions.push(SourceAction::Count(SourceIncident::ReplayEnded(ReplayOutcome::Failed)));
            self.doubt = Some(match self.last {
                None => reason,
                Some(_) if self.is_restored => SourceReason::Restored,
                Some(_) if self.is_verified => reason,
                Some(_) => SourceReason::Unanswered,
            });
            self.work_off_backlog(reason, false, actions);
        }
    }

    /// Applies what waited for the replay. A gap in it is asked for again, or costs the rank's blocks.
    pub(super) fn work_off_backlog(
        &mut self,
        reason: SourceReason,
        may_ask_again: bool,
        actions: &mut Vec<SourceAction>,
    ) {
        let Some(mut replay) = self.replay.take() else { return };
        if self.last_sequence() > replay.known_before {
            replay.attempt = 0;
        }
        while let Some(next) = replay.backlog.front() {
            let asks_again = may_ask_again && !self.is_replay_distrusted && replay.attempt < MAX_ATTEMPTS;
            if asks_again && !self.knows(next) && !self.continues(next) {
                return self.start_replay(replay, actions);
            }
            let Some((sequence, payload)) = replay.backlog.pop() else { return };
            if self.knows(sequence) && !self.disown_if_contradicted(sequence, &payload, actions) {
                continue;
            }
            let reason = if self.is_replay_foreign { SourceReason::ReplayOfAnother } else { reason };
            self.lose_unless_continued(sequence, reason, actions);
            self.apply(Channel::Live, sequence, &payload, actions);
        }
    }

    /// The last known message has another content here, or is not part of an answer to the question for everything.
    fn contradict(&mut self, actions: &mut Vec<SourceAction>) {
        if self.is_replay_foreign || self.contradictions >= MAX_CONTRADICTIONS {
            actions.push(SourceAction::Count(SourceIncident::ReplayEnded(ReplayOutcome::Failed)));
        }
        self.restart_replay(actions);
    }

    /// What is known of the old process goes, and the new one is asked from its start.
    fn restart_replay(&mut self, actions: &mut Vec<SourceAction>) {
        if self.is_replay_foreign {
            return self.disown_again(actions);
        }
        self.contradictions = self.contradictions.saturating_add(1);
        if self.contradictions > MAX_CONTRADICTIONS {
            return self.distrust_replay(actions);
        }
        let Some(replay) = self.replay.take() else { return };
        self.restart(actions);
        // What waits is the new process's, and the first of it is no second restart.
        self.last_live = replay.backlog.back();
        self.start_replay(Replay { backlog: replay.backlog, ..Replay::default() }, actions);
    }

    fn distrust_replay(&mut self, actions: &mut Vec<SourceAction>) {
        self.is_replay_distrusted = true;
        self.miss(SourceReason::ReplayContradictsItself);
        self.forget(actions);
        self.work_off_backlog(SourceReason::ReplayContradictsItself, false, actions);
    }

    /// Asks from the last known message on, that one included: it proves who answers.
    pub(super) fn start_replay(&mut self, replay: Replay, actions: &mut Vec<SourceAction>) {
        let Replay { backlog, attempt, .. } = replay;
        let known_before = self.last_sequence();
        self.replay = Some(Replay { backlog, attempt: attempt + 1, known_before, ..Replay::default() });
        actions.push(SourceAction::RequestReplay { from: known_before.unwrap_or(0) });
    }
}
