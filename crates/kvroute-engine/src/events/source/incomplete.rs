//! Answers of which a part is lost on the way.
//!
//! An engine's replay socket throws away what its reader is too slow for, and goes on. A gap behind the first message of
//! an answer, or silence behind it, is therefore no sign that the engine has forgotten anything: what came so far is one
//! run, it stays, and the rest is asked for again. An answer that brings nothing new counts as an attempt like any other.
//! One that does may be followed by the next, but the questions must be worth it: beyond a few, each needs a number of
//! messages that were brought. An engine that throws away beyond 1,000 is far from that.

use kvroute_core::ReplayOutcome;

use super::replaying::{MAX_ATTEMPTS, Replay};
use super::{Source, SourceAction, SourceIncident, SourceReason};

/// Answers that may be incomplete, however little they bring.
const FREE_PARTS: u32 = 8;
/// Messages that earn a further one.
const MESSAGES_PER_PART: u64 = 16;

// === impl Source ===

impl Source {
    /// The replay socket fell silent or broke before the end of its answer.
    pub fn replay_broke_off(&mut self, actions: &mut Vec<SourceAction>) {
        if self.replay.as_ref().is_some_and(|replay| replay.applied > 0) {
            self.ask_for_the_rest(SourceReason::ReplayFailed, actions);
        } else {
            self.replay_failed(actions);
        }
    }

    /// Asks from the last message that was applied. Where that has been tried enough, the replay is given up.
    pub(super) fn ask_for_the_rest(&mut self, reason: SourceReason, actions: &mut Vec<SourceAction>) {
        let Some(replay) = &mut self.replay else { return };
        replay.salvaged = replay.salvaged.saturating_add(replay.applied);
        replay.lost_parts = replay.lost_parts.saturating_add(1);
        if replay.applied > 0 {
            replay.attempt = 0;
        }
        let earned = u64::from(FREE_PARTS).saturating_add(replay.salvaged / MESSAGES_PER_PART);
        if replay.attempt >= MAX_ATTEMPTS || u64::from(replay.lost_parts) > earned {
            self.rebuild = self.rebuild_after(reason);
            return self.give_up_replay(reason, actions);
        }
        actions.push(SourceAction::Count(SourceIncident::ReplayEnded(ReplayOutcome::Failed)));
        let before = self.replay.take().unwrap_or_default();
        let Replay { lost_parts, salvaged, is_short, replaces, .. } = before;
        self.start_replay(before, actions);
        if let Some(replay) = &mut self.replay {
            *replay = Replay { lost_parts, salvaged, is_short, replaces, ..std::mem::take(replay) };
        }
    }
}
