//! The engine's own word about its start: what decides after a new connection where no message can be asked for again.

use std::time::Duration;

use super::{Channel, Source, SourceAction, SourceReason};

/// Some processes work out their start again each time, from a clock that is being corrected. None that has loaded a
/// model restarts within this time.
const START_SLACK: Duration = Duration::from_secs(2);

// === impl Source ===

impl Source {
    /// The engine is being asked when it was started. The answer is [`Source::started`].
    pub const fn await_start(&mut self) {
        self.awaits_start = true;
    }

    /// The engine said when it was started, by its own clock since the Unix epoch, or that it does not tell. Another
    /// start than before is a restart, unless the last known message has proved the contrary.
    pub fn started(&mut self, start: Option<Duration>, actions: &mut Vec<SourceAction>) {
        self.awaits_start = false;
        if let Some(start) = start {
            let differs = self.process_start.is_some_and(|before| before.abs_diff(start) > START_SLACK);
            let is_proved_same = self.has_replay && self.is_verified;
            if differs && !is_proved_same {
                self.restart_unseen(actions);
            }
            self.process_start = Some(start);
        }
        self.work_off_waiting(actions);
    }

    /// The engine was restarted while it was not heard, and its numbers did not show it.
    fn restart_unseen(&mut self, actions: &mut Vec<SourceAction>) {
        let replay = self.replay.take().unwrap_or_default();
        self.restart(actions);
        self.last_live = replay.backlog.back().or_else(|| self.waiting.back());
        if self.has_replay {
            self.start_replay(replay, actions);
        } else {
            self.doubt = Some(SourceReason::NothingReceived);
        }
    }

    /// Applies what waited for the engine's start.
    fn work_off_waiting(&mut self, actions: &mut Vec<SourceAction>) {
        let mut waiting = std::mem::take(&mut self.waiting);
        while let Some((sequence, payload)) = waiting.pop() {
            self.lose_unless_continued(sequence, SourceReason::EventsLost, actions);
            self.apply(Channel::Live, sequence, &payload, actions);
        }
    }

    pub(super) fn is_unidentified(&self) -> bool {
        self.awaits_start && !self.has_replay && self.last.is_some() && self.process_start.is_some()
    }
}
