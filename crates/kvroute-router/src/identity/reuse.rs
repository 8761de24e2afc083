//! The cross-check of an engine's reuse with the index: an engine that keeps reusing what the index has never seen is not a
//! great cache. Its events speak of other tokens than the router looks up.

use std::collections::VecDeque;
use std::time::Duration;

use kvroute_core::Tokens;

/// What one report says beside what the index said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reuse {
    /// F0.
    pub(crate) input: Tokens,
    /// F3.
    pub(crate) predicted: Tokens,
    /// F4.
    pub(crate) reused: Tokens,
    /// The least that is worth a look: some blocks.
    pub(crate) noticeable: Tokens,
}

/// The latest reports of a worker with much reuse.
#[derive(Debug, Default)]
pub(crate) struct ReuseDoubt {
    /// Whether each was explained by the index.
    recent: VecDeque<bool>,
    last: Option<Duration>,
    is_serious: bool,
}

/// Reports that are looked at together.
const WINDOW: usize = 16;

/// Unexplained ones among them, without any that is explained, that are a diagnosis.
const SERIOUS: usize = 8;

/// Unexplained reports within this time count once: a burst of one new prompt is reused before the index can know of it.
const APART: Duration = Duration::from_secs(1);

// === impl ReuseDoubt ===

impl ReuseDoubt {
    /// What it is called.
    pub(crate) const DIAGNOSIS: &str = "the engine keeps reusing prompts that the index knows nothing of: \
                                        router identity mismatch";

    /// Takes a report of an attempt whose rank's index was exact; true if the diagnosis changed.
    pub(crate) fn add(&mut self, reuse: Reuse, now: Duration) -> bool {
        let Some(is_explained) = reuse.is_explained() else { return false };
        if !is_explained && self.last.is_some_and(|last| now.saturating_sub(last) < APART) {
            return false;
        }
        if !is_explained {
            self.last = Some(now);
        }
        self.recent.push_back(is_explained);
        if self.recent.len() > WINDOW {
            self.recent.pop_front();
        }
        let is_serious = self.recent.len() >= SERIOUS && !self.recent.contains(&true);
        std::mem::replace(&mut self.is_serious, is_serious) != is_serious
    }

    /// Whether it is more than chance.
    pub(crate) const fn is_serious(&self) -> bool {
        self.is_serious
    }
}

// === impl Reuse ===

impl Reuse {
    /// Whether the index knew of it; `None` if there was too little to say.
    fn is_explained(self) -> Option<bool> {
        let is_much = self.reused >= self.noticeable && self.reused.get() * 2 >= self.input.get();
        if !self.predicted.is_zero() && !self.reused.is_zero() {
            return Some(true);
        }
        (is_much && self.predicted.is_zero()).then_some(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reuse(predicted: u64, reused: u64) -> Reuse {
        let [input, predicted, reused, noticeable] = [1000, predicted, reused, 32].map(Tokens::new);
        Reuse { input, predicted, reused, noticeable }
    }

    fn every_second(reports: impl IntoIterator<Item = Reuse>) -> ReuseDoubt {
        let mut doubt = ReuseDoubt::default();
        for (second, report) in reports.into_iter().enumerate() {
            doubt.add(report, Duration::from_secs(second as u64));
        }
        doubt
    }

    #[test]
    fn much_reuse_of_what_the_index_never_saw_is_a_diagnosis() {
        assert!(!every_second([reuse(0, 900); SERIOUS - 1]).is_serious());
        assert!(every_second([reuse(0, 900); SERIOUS]).is_serious());
    }

    #[test]
    fn little_reuse_says_nothing() {
        let short = Reuse { input: Tokens::new(20), ..reuse(0, 16) };
        assert!(!every_second([short; 40]).is_serious(), "below two blocks, though most of the prompt");
        assert!(!every_second([reuse(0, 400); 40]).is_serious(), "less than half of the prompt");
        assert!(!every_second([reuse(0, 0); 40]).is_serious());
    }

    #[test]
    fn one_promise_that_was_kept_clears_it() {
        let mut doubt = every_second([reuse(0, 900); 20]);
        assert!(doubt.add(reuse(800, 800), Duration::from_secs(100)));
        assert!(!doubt.is_serious());
        assert!(!doubt.add(reuse(0, 900), Duration::from_secs(101)), "the promise is still remembered");
    }

    #[test]
    fn a_burst_of_one_new_prompt_counts_once() {
        let mut doubt = ReuseDoubt::default();
        for millis in 0..900 {
            doubt.add(reuse(0, 900), Duration::from_millis(millis));
        }
        assert!(!doubt.is_serious());
    }
}
