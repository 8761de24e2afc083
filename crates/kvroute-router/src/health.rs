//! How many answers and failures in a row decide whether a worker is well.
//!
//! An engine under load may answer late once: that is no reason to take away a worker with all that it has cached. What a
//! request found out (nobody listens there) needs no second opinion, and does not come through here.

use crate::config::HealthConfig;

/// The last questions to one worker. Pure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Questions {
    failed: u32,
    answered: u32,
}

// === impl Questions ===

impl Questions {
    /// One was answered as a worker does that is well. True if that brings one back that was not.
    pub(crate) fn answered(&mut self, config: &HealthConfig) -> bool {
        *self = Self { failed: 0, answered: self.answered.saturating_add(1) };
        self.answered >= config.successes
    }

    /// One was not, or too late. True if that takes a worker out.
    pub(crate) fn failed(&mut self, config: &HealthConfig) -> bool {
        *self = Self { failed: self.failed.saturating_add(1), answered: 0 };
        self.failed >= config.failures
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn only_so_many_in_a_row_decide(
            answers in prop::collection::vec(any::<bool>(), 1..60), failures in 1u32..5, successes in 1u32..5,
        ) {
            let config = HealthConfig { failures, successes, ..HealthConfig::default() };
            let mut questions = Questions::default();
            for (number, is_well) in answers.iter().enumerate() {
                let in_row = answers[..=number].iter().rev().take_while(|answer| *answer == is_well).count() as u32;
                match is_well {
                    true => prop_assert_eq!(questions.answered(&config), in_row >= successes),
                    false => prop_assert_eq!(questions.failed(&config), in_row >= failures),
                }
            }
        }
    }
}
