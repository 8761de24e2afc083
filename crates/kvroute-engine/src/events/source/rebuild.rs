//! Making up for a loss that was not the engine's.
//!
//! A replay that failed, or that was given up because too much arrived meanwhile, costs the rank's blocks at once, but
//! the engine may still keep every message. So it is asked for all of them some time later, when whatever was wrong may
//! be over. The same holds for a replay socket that contradicted itself, which is not asked at all in the meantime, and
//! for blocks that were refused until it was certain that they have the right size. Only an answer that begins with the first message is of use: then what is known is forgotten and built anew.
//! Where the engine no longer has the first one, it never will again.

use std::time::Duration;

use super::replaying::{MAX_CONTRADICTIONS, Replay};
use super::{Source, SourceAction, SourceReason};

/// Wait before the first attempt; doubled with each one, since every failure costs what was learned meanwhile.
const FIRST_WAIT: Duration = Duration::from_secs(10);
const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// An attempt to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rebuild {
    wait: Duration,
    due: Option<Duration>,
}

// === impl Source ===

impl Source {
    /// Time passes; to be told every second.
    pub fn tick(&mut self, now: Duration, actions: &mut Vec<SourceAction>) {
        let is_busy = self.disconnected_since.is_some() || self.replay.is_some();
        let Some(rebuild) = self.rebuild.as_mut().filter(|_| !is_busy) else { return };
        let due = *rebuild.due.get_or_insert(now + rebuild.wait);
        if now >= due {
            *rebuild = Rebuild { wait: (rebuild.wait * 2).min(LONGEST_WAIT), due: None };
            self.replay = Some(Replay::rebuilding());
            actions.push(SourceAction::RequestReplay { from: 0 });
        }
    }

    /// What is to be done after a loss, given what was to be done before it.
    pub(super) fn rebuild_after(&self, reason: SourceReason) -> Option<Rebuild> {
        let may_help = match reason {
            SourceReason::BlockSizeOverruled { .. } => self.has_replay,
            SourceReason::ReplayFailed
            | SourceReason::ReplayLossy
            | SourceReason::Flooded
            | SourceReason::ReplayContradictsItself => true,
            _ => false,
        };
        let first = || Rebuild { wait: self.first_wait(), due: None };
        (may_help && !self.is_replay_foreign).then(|| self.rebuild.unwrap_or_else(first))
    }

    /// An attempt that brings everything ends the doubling, but not for a replay socket that contradicts itself: each
    /// further time costs twice the wait.
    fn first_wait(&self) -> Duration {
        let further = self.contradictions.saturating_sub(MAX_CONTRADICTIONS + 1);
        FIRST_WAIT.saturating_mul(2_u32.saturating_pow(further)).min(LONGEST_WAIT)
    }

    /// The first answer to a question for everything decides: what is known is forgotten if it is the first message.
    pub(super) fn rebuild_from(&mut self, sequence: u64, actions: &mut Vec<SourceAction>) {
        let Some(replay) = self.replay.as_mut().filter(|replay| replay.is_rebuilding) else { return };
        replay.is_rebuilding = false;
        if sequence == 0 {
            replay.replaces = self.last.map(|last| last.sequence);
            self.forget(actions);
        } else {
            self.missing = Some(SourceReason::ReplayTooShort);
            self.rebuild = None;
        }
    }
}
