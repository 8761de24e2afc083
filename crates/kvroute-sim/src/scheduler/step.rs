//! Common steps of prompts and answers, as engines with chunked prefill make them.
//!
//! A step takes one token of every running sequence and as many prompt tokens as its budget has room for, and lasts as
//! long as both take together. Blocks of a prompt that ends in a step count as cached from the step's start, so that an
//! equal prompt behind it in the same step reuses them, as it does in engines that cache what they schedule.

use std::time::Duration;

use super::{Progress, STEPS_WITHOUT_DELAY, Scheduler};

// === impl Scheduler ===

impl Scheduler {
    pub(super) fn advance_steps(&mut self, now: Duration, progress: &mut Progress) {
        let mut steps_left = STEPS_WITHOUT_DELAY;
        while steps_left > 0 {
            let Some(end) = self.step_end.or_else(|| self.start_step(now)) else { return };
            if end > now {
                return;
            }
            steps_left -= usize::from(end == self.clock);
            self.clock = end;
            self.finish_step(progress);
        }
    }

    pub(super) fn next_step(&self) -> Option<Duration> {
        let has_begun = !self.running.is_empty() || !self.prefills.is_empty();
        let is_idle = !has_begun && (self.waiting.is_empty() || self.is_stuck);
        self.step_end.or_else(|| (!is_idle).then_some(self.clock))
    }

    /// Decides what the next step does. Returns when it ends; `None` if nothing is to be done by now.
    fn start_step(&mut self, now: Duration) -> Option<Duration> {
        let start = self.next_start().filter(|start| *start <= now)?;
        let mut left = self.step_tokens;
        if let Some(begun) = self.prefills.front() {
            left -= left.min(begun.missing);
            self.take(0, self.step_tokens);
        }
        while left > 0 && self.waiting.front().is_some_and(|next| next.arrived <= start) {
            let Some(missing) = self.admit_next().map(|prefill| prefill.missing) else { break };
            self.take(self.prefills.len() - 1, left);
            left -= left.min(missing);
        }
        let prompts = self.prefill_rate.time_for(self.step_tokens - left);
        self.clock = start;
        self.step_end = Some(start + prompts + self.decode_speed.step(&self.running));
        self.step_end
    }

    /// At once while there is something to go on with, otherwise with the first that arrived.
    fn next_start(&self) -> Option<Duration> {
        if !self.running.is_empty() || !self.prefills.is_empty() {
            return Some(self.clock);
        }
        self.waiting.front().map(|first| first.arrived.max(self.clock))
    }

    /// Lets the step compute some tokens of a prompt.
    fn take(&mut self, position: usize, tokens: usize) {
        let prefill = &mut self.prefills[position];
        prefill.missing -= prefill.missing.min(tokens);
        if prefill.missing == 0 {
            let tokens = prefill.sequence.chain.len();
            prefill.created += self.cache.store(&mut prefill.sequence.chain, tokens);
        }
    }

    fn finish_step(&mut self, progress: &mut Progress) {
        self.step_end = None;
        if !self.running.is_empty() {
            self.decode(progress);
        }
        while self.prefills.front().is_some_and(|prefill| prefill.missing == 0) {
            self.finish_prefill(progress);
        }
    }
}
