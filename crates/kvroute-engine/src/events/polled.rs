//! One polled event list as a state machine: what to apply, when to clear, how far it can be trusted.
//!
//! There is no replay: whoever asks gets the events, and they are gone. So a number that is missing was read by
//! somebody else, or the engine's buffer was full; either way it does not come back, and the rank is cleared. A number
//! not above the last one, or a cache that was created, is a new process. An event whose number cannot be read stands
//! for one number, and so costs itself only.
//!
//! An answer that does not arrive may have held events, which are gone with it. Empty answers behind it prove nothing: only
//! the next number does, by following the last one or not.
//!
//! Blocks of another size than the others are refused, as `block_sizes` argues.
//!
//! No clock, no socket, as [`Source`](super::Source).

use std::time::Duration;

use kvroute_core::{DpRank, EventBatch, KvEvent};

use super::block_sizes::BlockSizeClaim;
use super::trtllm::{PolledChange, PolledDecoder, PolledEvent, list};
use super::{BLIND_AFTER, SourceAction, SourceIncident, SourceReason, SourceStatus};

/// State of one rank's list. `now` is any monotonic time of the caller.
#[derive(Clone, Debug)]
pub struct PolledSource {
    decoder: PolledDecoder,
    dp_rank: DpRank,
    unanswered_since: Option<Duration>,
    /// The number of the last event, and of how many behind it no number could be read.
    last: Option<u64>,
    unnumbered: u64,
    /// Whether anything was applied since the last clear.
    has_applied: bool,
    missing: Option<SourceReason>,
    /// Whether an answer failed since the last number.
    is_answer_lost: bool,
    has_other_ranks: bool,
}

// === impl PolledSource ===

impl PolledSource {
    /// A source that is about to ask for the first time.
    pub fn new(dp_rank: DpRank, now: Duration) -> Self {
        Self {
            decoder: PolledDecoder::default(),
            dp_rank,
            unanswered_since: Some(now),
            last: None,
            unnumbered: 0,
            has_applied: false,
            missing: None,
            is_answer_lost: false,
            has_other_ranks: false,
        }
    }

    /// The same source, where the size of its blocks is known before it is asked for the first time.
    #[must_use]
    pub fn expecting(self, claim: BlockSizeClaim) -> Self {
        Self { decoder: PolledDecoder::expecting(claim), ..self }
    }

    /// State at a time, to be asked after every answer and every failure.
    pub fn status(&self, now: Duration) -> SourceStatus {
        if let Some(since) = self.unanswered_since {
            let is_blind = now.saturating_sub(since) >= BLIND_AFTER;
            let state = if is_blind { SourceStatus::blind } else { SourceStatus::degraded };
            return state(SourceReason::NotPolled);
        }
        let unheard = self.last.is_none().then_some(SourceReason::NothingPolled);
        let lost = self.is_answer_lost.then_some(SourceReason::PollLost);
        match (SourceStatus::of_sizes(self.decoder.sizes()), self.missing.or(unheard).or(lost)) {
            (Some(contradicted), _) => contradicted,
            (None, Some(reason)) => SourceStatus::degraded(reason),
            (None, None) => SourceStatus::EXACT,
        }
    }

    /// Whether events named another rank than ours. The engine picks the rank itself then, and only one of its caches
    /// is known.
    pub const fn has_other_ranks(&self) -> bool {
        self.has_other_ranks
    }

    /// An answer, true if it held events; `None` for what is no list of them.
    pub fn answered(&mut self, body: &[u8], actions: &mut Vec<SourceAction>) -> Option<bool> {
        let events = list(body)?;
        self.unanswered_since = None;
        let has_events = events.len() > 0;
        let mut batch = EventBatch::default();
        for event in events {
            self.take(&event, &mut batch, actions);
        }
        self.apply(&mut batch, actions);
        Some(has_events)
    }

    /// No answer.
    pub fn failed(&mut self, now: Duration, actions: &mut Vec<SourceAction>) {
        self.is_answer_lost = true;
        if self.unanswered_since.is_none() {
            self.unanswered_since = Some(now);
            actions.push(SourceAction::Count(SourceIncident::Disconnected));
        }
    }

    fn take(&mut self, event: &PolledEvent<'_>, batch: &mut EventBatch, actions: &mut Vec<SourceAction>) {
        if event.dp_rank.is_some_and(|rank| rank != self.dp_rank) {
            self.has_other_ranks = true;
            batch.ignored += 1;
            return;
        }
        self.follow(event.id, batch, actions);
        let change = self.decoder.read(event);
        if let Some(sizes) = self.decoder.take_loss() {
            self.missing = Some(SourceReason::overruled(sizes));
        }
        match change {
            PolledChange::Created => self.create(batch, actions),
            PolledChange::Ignored => batch.ignored += 1,
            PolledChange::Refused => batch.rejected += 1,
            PolledChange::Undecodable => batch.undecodable += 1,
            PolledChange::Events(events) => batch.events.extend(events),
        }
    }

    /// Looks at the number of an event.
    fn follow(&mut self, id: Option<u64>, batch: &mut EventBatch, actions: &mut Vec<SourceAction>) {
        let Some(id) = id else {
            self.unnumbered += 1;
            return;
        };
        self.is_answer_lost = false;
        let unnumbered = std::mem::take(&mut self.unnumbered);
        let last = self.last.replace(id);
        if last.is_some_and(|last| id <= last) {
            return self.restart(id, batch, actions);
        }
        let next = last.map_or(0, |last| last + 1);
        let skipped = (id - next).saturating_sub(unnumbered);
        if skipped > 0 {
            self.lose(skipped, last.is_some(), batch, actions);
        }
    }

    fn restart(&mut self, id: u64, batch: &mut EventBatch, actions: &mut Vec<SourceAction>) {
        self.apply(batch, actions);
        actions.push(SourceAction::Count(SourceIncident::Restart));
        self.forget(actions);
        self.decoder.restart();
        self.missing = (id > 0).then_some(SourceReason::EventsTaken);
    }

    /// `is_counted`: what was read before the first question is nobody's loss.
    fn lose(
        &mut self,
        skipped: u64,
        is_counted: bool,
        batch: &mut EventBatch,
        actions: &mut Vec<SourceAction>,
    ) {
        self.apply(batch, actions);
        if is_counted {
            actions.push(SourceAction::Count(SourceIncident::Gap));
            actions.push(SourceAction::Count(SourceIncident::Missed(skipped)));
        }
        self.forget(actions);
        self.missing = Some(SourceReason::EventsTaken);
    }

    /// A new, empty cache.
    fn create(&mut self, batch: &mut EventBatch, actions: &mut Vec<SourceAction>) {
        self.apply(batch, actions);
        self.forget(actions);
        self.missing = None;
        batch.ignored += 1;
    }

    fn forget(&mut self, actions: &mut Vec<SourceAction>) {
        if std::mem::take(&mut self.has_applied) {
            actions.push(SourceAction::Clear);
        }
    }

    fn apply(&mut self, batch: &mut EventBatch, actions: &mut Vec<SourceAction>) {
        if *batch == EventBatch::default() {
            return;
        }
        let batch = std::mem::take(batch);
        let has_stored = batch.events.iter().any(|event| matches!(event, KvEvent::Stored(_)));
        self.has_applied |= has_stored;
        actions.push(SourceAction::Apply { batch, position: None });
    }
}

#[cfg(test)]
mod tests;
