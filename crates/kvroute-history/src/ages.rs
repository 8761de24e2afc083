//! How old the oldest entry is, without a time for each entry.
//!
//! A history is a queue: what is resident are the last ones that were taught. So it is enough to know how many had been taught
//! at some moments. Marks are few: when there are too many, every other one goes, the first and the last ones never.

use std::time::Duration;

use crate::history::History;

/// Marks that are kept at most.
const MOST: usize = 256;

/// When what was taught.
#[derive(Clone, Debug, Default)]
pub struct Ages {
    marks: Vec<Mark>,
}

/// A moment as it can be kept over a restart: relative to the one at which it is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgeMark {
    /// How long ago it was.
    pub age: Duration,
    /// How many hashes have been taught since.
    pub taught_since: u64,
}

/// Both may be below zero: moments before the start of the process, counts from before a restart.
#[derive(Clone, Copy, Debug)]
struct Mark {
    seconds: f64,
    taught: i64,
}

// === impl Ages ===

impl Ages {
    /// Notes what [`History::taught`] is now. Time and count never go back; a count that does is that of a cleared history,
    /// and nothing that was noted before means anything.
    pub fn mark(&mut self, now: Duration, taught: u64) {
        let mark = Mark { seconds: now.as_secs_f64(), taught: taught as i64 };
        if self.marks.last().is_some_and(|last| mark.taught < last.taught || mark.seconds < last.seconds) {
            self.marks.clear();
        }
        if self.marks.len() == MOST {
            self.thin_out();
        }
        self.marks.push(mark);
    }

    /// The last one goes as well: another one is about to come.
    fn thin_out(&mut self) {
        let mut is_kept = false;
        self.marks.retain(|_| {
            is_kept = !is_kept;
            is_kept
        });
    }

    /// How long ago the oldest resident entry was taught, as exactly as the marks allow; `None` where nothing is resident or
    /// no mark is that old.
    pub fn oldest(&self, now: Duration, history: &History) -> Option<Duration> {
        let (taught, resident) = (history.taught(), history.resident().get());
        if resident == 0 {
            return None;
        }
        let seconds = self.moment_of(taught as i64 - resident as i64)?;
        Some(since(seconds, now))
    }

    /// When so many had been taught: between two marks, in proportion.
    fn moment_of(&self, taught: i64) -> Option<f64> {
        let behind = self.marks.partition_point(|mark| mark.taught <= taught);
        let before = self.marks[..behind].last()?;
        let Some(after) = self.marks.get(behind) else { return Some(before.seconds) };
        let share = distance(before.taught, taught) / distance(before.taught, after.taught);
        Some(before.seconds + share * (after.seconds - before.seconds))
    }

    /// Entries taught a second, over the marks of the last `window`; `None` before there are two of them.
    pub fn rate(&self, window: Duration) -> Option<f64> {
        let last = self.marks.last()?;
        let from = last.seconds - window.as_secs_f64();
        let first = self.marks.iter().find(|mark| mark.seconds >= from)?;
        let seconds = last.seconds - first.seconds;
        (seconds > 0.0).then(|| distance(first.taught, last.taught) / seconds)
    }

    /// The marks, to be kept in a snapshot.
    pub fn save(&self, now: Duration, history: &History) -> Vec<AgeMark> {
        let taught = history.taught() as i64;
        let kept = |mark: &Mark| AgeMark {
            age: since(mark.seconds, now),
            taught_since: u64::try_from(taught.saturating_sub(mark.taught)).unwrap_or(0),
        };
        self.marks.iter().map(kept).collect()
    }

    /// Takes marks over, oldest first, for a history that was just taught from the snapshot that they stood in. `away` is the
    /// time since the snapshot was written.
    pub fn restore(saved: &[AgeMark], away: Duration, now: Duration, history: &History) -> Self {
        let taught = history.taught() as i64;
        let mut ages = Self::default();
        for kept in saved.iter().take(MOST) {
            let seconds = now.as_secs_f64() - away.as_secs_f64() - kept.age.as_secs_f64();
            let since = i64::try_from(kept.taught_since).unwrap_or(i64::MAX);
            let mark = Mark { seconds, taught: taught.saturating_sub(since) };
            if ages.marks.last().is_none_or(|last| last.seconds <= mark.seconds && last.taught <= mark.taught)
            {
                ages.marks.push(mark);
            }
        }
        ages
    }
}

/// Never negative, and as long as a duration can be for a moment that nobody can have meant.
fn since(seconds: f64, now: Duration) -> Duration {
    Duration::try_from_secs_f64((now.as_secs_f64() - seconds).max(0.0)).unwrap_or(Duration::MAX)
}

const fn distance(from: i64, to: i64) -> f64 {
    to as f64 - from as f64
}

#[cfg(test)]
mod tests;
