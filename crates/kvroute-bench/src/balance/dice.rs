//! Random choices of a workload: all from its seed.

use std::time::Duration;

use crate::random::Random;

/// Draws what traffic is made of.
#[derive(Clone, Debug)]
pub(super) struct Dice(Random);

/// A choice among so many, the first the likeliest: number `k` has the weight `1 / (k + 1) ^ skew`.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    /// Share of the numbers up to each.
    shares: Vec<f64>,
}

// === impl Dice ===

impl Dice {
    pub(super) const fn new(seed: u64) -> Self {
        Self(Random::new(seed))
    }

    /// From 0 up to, but without, 1.
    pub(super) fn unit(&mut self) -> f64 {
        (self.0.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number that no other one is equal to.
    pub(super) const fn number(&mut self) -> u64 {
        self.0.next()
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0.below(end)
    }

    pub(super) fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// The time to the next of events that come by chance, so many a second.
    pub(super) fn gap(&mut self, a_second: f64) -> Duration {
        Duration::from_secs_f64(-(1.0 - self.unit()).ln() / a_second)
    }

    /// Moments of events that come by chance, so many a second, from zero up to an end.
    pub(super) fn arrivals(&mut self, a_second: f64, end: Duration) -> Vec<Duration> {
        let mut moments = Vec::new();
        let mut at = self.gap(a_second);
        while at < end {
            moments.push(at);
            at += self.gap(a_second);
        }
        moments
    }

    pub(super) fn zipf(&mut self, zipf: &Zipf) -> usize {
        let drawn = self.unit();
        zipf.shares.partition_point(|share| *share <= drawn).min(zipf.shares.len() - 1)
    }

    /// The same things in another order.
    pub(super) fn shuffle<T>(&mut self, things: &mut [T]) {
        for last in (1..things.len()).rev() {
            things.swap(last, self.below(last + 1));
        }
    }
}

// === impl Zipf ===

impl Zipf {
    pub(super) fn new(count: usize, skew: f64) -> Self {
        let weights: Vec<f64> = (1..=count).map(|rank| (rank as f64).powf(-skew)).collect();
        let total: f64 = weights.iter().sum();
        let sums = weights.iter().scan(0.0, |sum, weight| {
            *sum += weight / total;
            Some(*sum)
        });
        Self { shares: sums.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_a_zipf_is_drawn_and_the_first_most() {
        let (mut dice, zipf) = (Dice::new(3), Zipf::new(5, 1.0));
        let mut counts = [0; 5];
        (0..10_000).for_each(|_| counts[dice.zipf(&zipf)] += 1);
        assert!(counts.is_sorted_by(|more, less| more > less), "{counts:?}");
        assert!((4200..4600).contains(&counts[0]), "{counts:?}");
    }

    #[test]
    fn arrivals_come_at_their_rate_and_in_order() {
        let moments = Dice::new(3).arrivals(20.0, Duration::from_secs(100));
        assert!(moments.is_sorted());
        assert!((1850..2150).contains(&moments.len()), "{}", moments.len());
    }
}
