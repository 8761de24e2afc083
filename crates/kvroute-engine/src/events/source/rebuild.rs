//! Making up for a loss that was not the engine's.
//!
//! A replay that failed, or that was given up because too much arrived meanwhile, costs the rank's blocks at once, but
//! the engine may still keep every message. So it is asked for all of them some time later, when whatever was wrong may
//! be over. Only an answer that begins with the first message is of use: then what is known is forgotten and built anew.
//! Where the engine no longer has the first one, it never will again.

use std::time::Duration;

use super::replaying::Replay;
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

// === impl Rebuild ===

impl Rebuild {
    /// What is to be done after a loss, given what was to be done before it.
    pub(super) fn after(reason: SourceReason, before: Option<Self>) -> Option<Self> {
        let may_help = matches!(reason, SourceReason::ReplayFailed | SourceReason::Flooded);
        may_help.then(|| before.unwrap_or(Self { wait: FIRST_WAIT, due: None }))
    }
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

    /// The first answer to a question for everything decides: what is known is forgotten if it is the first message.
    pub(super) fn rebuild_from(&mut self, sequence: u64, actions: &mut Vec<SourceAction>) {
        let Some(replay) = self.replay.as_mut().filter(|replay| replay.is_rebuilding) else { return };
        replay.is_rebuilding = false;
        if sequence == 0 {
            self.forget(actions);
        } else {
            self.missing = Some(SourceReason::ReplayTooShort);
            self.rebuild = None;
        }
    }
}
