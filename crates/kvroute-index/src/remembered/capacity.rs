//! How much an engine seems to hold, as far as its reports tell.
//!
//! A declared capacity is an upper bound: output blocks, requests of others and the engine's own reserve take their
//! part of it, and where none is declared nothing is known at all. So the limit learns, cautiously on both sides.
//!
//! * **A loss lowers it** below what was held at that time, by an eighth of that or by what was lost, whichever is
//!   more: with less than what was held it would change nothing. Losses come in groups, because one eviction, or one
//!   restart, is found out by every prompt that hung on it; so a loss counts only if the lost blocks were used after
//!   the limit was lowered the last time.
//! * **A confirmation raises it** by an eighth of the blocks that it confirmed, so that a lost block weighs no less
//!   than eight that were there. Blocks that the engine had beyond the prediction raise it by their whole number: they
//!   were forgotten too early.
//! * **A floor stays**: with nothing predicted nothing could be confirmed, and the limit would never rise again.

use std::time::Duration;

use kvroute_core::Blocks;

/// What a loss takes, and a confirmation gives, as a divisor.
const SHARE: u64 = 8;

/// The floor is this part of the capacity, and no more than a few long prompts.
const FLOOR_SHARE: u64 = 16;
const HIGHEST_FLOOR: u64 = 1024;

/// The learned limit of one rank.
#[derive(Clone, Debug)]
pub(super) struct LearnedCapacity {
    ceiling: u64,
    limit: u64,
    /// Confirmed blocks that did not make a whole share yet.
    confirmed: u64,
    lowered: Option<Duration>,
}

// === impl LearnedCapacity ===

impl LearnedCapacity {
    /// Believes the declared capacity.
    pub(super) const fn new(ceiling: u64) -> Self {
        Self { ceiling, limit: ceiling, confirmed: 0, lowered: None }
    }

    /// Blocks that the engine is believed to hold at most.
    pub(super) const fn limit(&self) -> Blocks {
        Blocks::new(self.limit)
    }

    /// So many blocks were there as predicted, and so many beyond.
    pub(super) fn confirmed(&mut self, predicted: Blocks, beyond: Blocks) {
        self.confirmed = self.confirmed.saturating_add(predicted.get());
        let gained = (self.confirmed / SHARE).saturating_add(beyond.get());
        self.confirmed %= SHARE;
        self.limit = self.limit.saturating_add(gained).min(self.ceiling);
    }

    /// So many predicted blocks were not there, though `used` were believed to fit. `last_use` of the lost ones; `None`
    /// where it is not known.
    pub(super) fn lost(&mut self, used: u64, blocks: Blocks, last_use: Option<Duration>, now: Duration) {
        let Some(last_use) = last_use else { return };
        if self.lowered.is_some_and(|lowered| last_use <= lowered) {
            return;
        }
        self.lowered = Some(now);
        let held = used.min(self.limit);
        let floor = (self.ceiling / FLOOR_SHARE).min(HIGHEST_FLOOR);
        self.limit = held.saturating_sub(blocks.get().max(held / SHARE)).max(floor).min(self.limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Duration {
        Duration::from_secs(second)
    }

    fn lose(capacity: &mut LearnedCapacity, used: u64, blocks: u64, last_use: u64, now: u64) -> u64 {
        capacity.lost(used, Blocks::new(blocks), Some(at(last_use)), at(now));
        capacity.limit
    }

    fn confirm(capacity: &mut LearnedCapacity, predicted: u64, beyond: u64) -> u64 {
        capacity.confirmed(Blocks::new(predicted), Blocks::new(beyond));
        capacity.limit
    }

    #[test]
    fn a_loss_lowers_it_below_what_was_held() {
        let mut capacity = LearnedCapacity::new(100_000);
        assert_eq!(lose(&mut capacity, 8000, 10, 1, 2), 7000);
        assert_eq!(lose(&mut capacity, 20_000, 3000, 3, 4), 4000);
    }

    #[test]
    fn losses_of_one_cause_count_once() {
        let mut capacity = LearnedCapacity::new(100_000);
        assert_eq!(lose(&mut capacity, 8000, 10, 1, 5), 7000);
        assert_eq!(lose(&mut capacity, 7000, 10, 5, 6), 7000);
        assert_eq!(lose(&mut capacity, 7000, 10, 6, 7), 6125);
        capacity.lost(7000, Blocks::new(10), None, at(9));
        assert_eq!(capacity.limit, 6125);
    }

    #[test]
    fn confirmations_raise_it_by_an_eighth_and_surplus_by_its_whole() {
        let mut capacity = LearnedCapacity::new(10_000);
        assert_eq!(lose(&mut capacity, 8000, 1, 1, 2), 7000);
        assert_eq!([12, 4, 80].map(|blocks| confirm(&mut capacity, blocks, 0)), [7001, 7002, 7012]);
        assert_eq!(confirm(&mut capacity, 0, 100), 7112);
        assert_eq!(confirm(&mut capacity, 0, 100_000), 10_000);
    }

    #[test]
    fn it_never_falls_below_its_floor_and_rises_from_there() {
        for (ceiling, floor) in [(100_000, 1024), (1600, 100), (10, 0)] {
            let mut capacity = LearnedCapacity::new(ceiling);
            for time in 0..200 {
                lose(&mut capacity, ceiling, ceiling, 2 * time + 1, 2 * time + 2);
            }
            assert_eq!(capacity.limit, floor);
            assert!(confirm(&mut capacity, 8, 0) > floor);
        }
    }

    #[test]
    fn numbers_without_bounds_do_not_overflow() {
        let mut capacity = LearnedCapacity::new(u64::MAX);
        assert_eq!(confirm(&mut capacity, u64::MAX, u64::MAX), u64::MAX);
        assert_eq!(lose(&mut capacity, u64::MAX, u64::MAX, 1, 2), 1024);
    }
}
