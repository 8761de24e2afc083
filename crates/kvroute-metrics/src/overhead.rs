//! What a decision costs, part by part.

use std::time::Duration;

use prometheus::Histogram;

use crate::families::Families;
use crate::series::Scope;

/// Handles of the overhead histograms.
#[derive(Clone, Debug)]
pub struct OverheadMetrics {
    block_hashing: Histogram,
    sequence_hashing: Histogram,
    find_matches: Histogram,
    scheduling: Histogram,
    total: Histogram,
}

/// Time since a decision began, at the end of each of its parts, in this order; `None` for a part that it
/// did not have. Time that the request waited in a queue is already taken out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecisionMarks {
    /// The prompt's blocks are hashed.
    pub block_hashing: Option<Duration>,
    /// The block hashes are chained.
    pub sequence_hashing: Option<Duration>,
    /// The cached prefixes are known.
    pub find_matches: Option<Duration>,
    /// A worker is picked and booked.
    pub scheduled: Duration,
}

// === impl OverheadMetrics ===

impl OverheadMetrics {
    pub(crate) fn new(families: &Families, scope: &mut Scope) -> Self {
        Self {
            block_hashing: scope.hold(&families.block_hashing_ms, []),
            sequence_hashing: scope.hold(&families.sequence_hashing_ms, []),
            find_matches: scope.hold(&families.find_matches_ms, []),
            scheduling: scope.hold(&families.scheduling_ms, []),
            total: scope.hold(&families.decision_ms, []),
        }
    }

    /// Records one decision: each part from the end of the part before. Marks that run backwards give zero.
    pub fn decided(&self, marks: &DecisionMarks) {
        let parts = [
            (marks.block_hashing, &self.block_hashing),
            (marks.sequence_hashing, &self.sequence_hashing),
            (marks.find_matches, &self.find_matches),
            (Some(marks.scheduled), &self.scheduling),
        ];
        let mut before = Duration::ZERO;
        for (mark, histogram) in parts {
            let Some(end) = mark else { continue };
            histogram.observe(milliseconds(end.saturating_sub(before)));
            before = end;
        }
        self.total.observe(milliseconds(marks.scheduled));
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Metrics, MetricsOptions};

    /// `(samples, sum)` of each histogram, the sum to microseconds.
    fn recorded(marks: DecisionMarks) -> [(u64, f64); 5] {
        let overhead = Metrics::new(&MetricsOptions::default()).unwrap().overhead();
        overhead.decided(&marks);
        let OverheadMetrics { block_hashing, sequence_hashing, find_matches, scheduling, total } = overhead;
        [block_hashing, sequence_hashing, find_matches, scheduling, total]
            .map(|histogram| (histogram.get_sample_count(), (histogram.get_sample_sum() * 1e3).round() / 1e3))
    }

    fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn each_part_is_measured_from_the_end_of_the_one_before() {
        let marks = DecisionMarks {
            block_hashing: Some(millis(1)),
            sequence_hashing: Some(millis(3)),
            find_matches: Some(millis(7)),
            scheduled: millis(20),
        };
        assert_eq!(recorded(marks), [(1, 1.0), (1, 2.0), (1, 4.0), (1, 13.0), (1, 20.0)]);
    }

    #[test]
    fn a_part_that_did_not_run_gives_no_sample() {
        let marks = DecisionMarks { scheduled: millis(5), ..DecisionMarks::default() };
        assert_eq!(recorded(marks), [(0, 0.0), (0, 0.0), (0, 0.0), (1, 5.0), (1, 5.0)]);
    }

    #[test]
    fn marks_that_run_backwards_give_zero() {
        let marks = DecisionMarks {
            block_hashing: Some(millis(9)),
            sequence_hashing: Some(millis(4)),
            find_matches: Some(millis(6)),
            scheduled: millis(2),
        };
        assert_eq!(recorded(marks), [(1, 9.0), (1, 0.0), (1, 2.0), (1, 0.0), (1, 2.0)]);
    }
}
