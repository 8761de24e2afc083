//! Two counts of the last while, such as failures and successes: what decides by a share must forget.

use std::time::Duration;

/// Parts of a window: what is older than the window is forgotten a part at a time.
const SLOTS: usize = 10;

/// Counts two kinds of things over the last while.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    width: Duration,
    slots: [[u64; 2]; SLOTS],
    /// Number of the slot that is counted in now.
    newest: u128,
}

// === impl Window ===

impl Window {
    /// So long a window in which nothing has happened.
    pub(crate) const fn new(width: Duration) -> Self {
        Self { width, slots: [[0; 2]; SLOTS], newest: 0 }
    }

    /// One more of a kind, 0 or 1.
    pub(crate) fn count(&mut self, kind: usize, now: Duration) {
        self.move_to(now);
        self.slots[(self.newest % SLOTS as u128) as usize][kind % 2] += 1;
    }

    /// How many there were of both kinds.
    pub(crate) fn totals(&mut self, now: Duration) -> [u64; 2] {
        self.move_to(now);
        self.slots.iter().fold([0, 0], |[first, second], slot| [first + slot[0], second + slot[1]])
    }

    /// Nothing has happened.
    pub(crate) fn clear(&mut self) {
        self.slots = [[0; 2]; SLOTS];
    }

    /// Forgets what has become too old. A clock that goes back changes nothing.
    fn move_to(&mut self, now: Duration) {
        let slot = (self.width.as_nanos() / SLOTS as u128).max(1);
        let number = now.as_nanos() / slot;
        let passed = number.saturating_sub(self.newest).min(SLOTS as u128);
        for step in 1..=passed {
            self.slots[((self.newest + step) % SLOTS as u128) as usize] = [0; 2];
        }
        self.newest = self.newest.max(number);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WIDTH: Duration = Duration::from_secs(10);

    proptest! {
        #[test]
        fn everything_of_the_last_nine_tenths_is_known_and_nothing_older_than_all_of_it(
            steps in prop::collection::vec((0u64..4000, 0usize..2), 1..200),
        ) {
            let (mut window, mut now, mut happened) = (Window::new(WIDTH), Duration::ZERO, Vec::new());
            for (pause, kind) in steps {
                now += Duration::from_millis(pause);
                window.count(kind, now);
                happened.push((now, kind));
                let totals = window.totals(now);
                let within = |kind, age: Duration| {
                    happened.iter().filter(|(at, of)| *of == kind && now - *at < age).count() as u64
                };
                for kind in [0, 1] {
                    prop_assert!(totals[kind] >= within(kind, WIDTH * 9 / 10));
                    prop_assert!(totals[kind] <= within(kind, WIDTH));
                }
            }
        }
    }
}
