//! What became of each request, and the figures of a run.

use std::time::Duration;

/// One request that was answered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Record {
    pub(super) asked: Duration,
    pub(super) is_measured: bool,
    /// The first token, whoever sent it.
    pub(super) first: Option<Duration>,
    pub(super) last: Duration,
    /// Who answered.
    pub(super) worker: usize,
    pub(super) input: u64,
    pub(super) reused: u64,
    pub(super) output: u64,
    /// Times that it was asked again.
    pub(super) retries: u32,
}

/// The figures of one policy in one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Figures {
    /// Work of the worker that had most over the mean.
    pub(super) spread: f64,
    /// Share of the input that was reused.
    pub(super) reuse: f64,
    /// Seconds to the first token.
    pub(super) ttft_half: f64,
    pub(super) ttft_p99: f64,
    /// Seconds for each further token, mean over all.
    pub(super) each_token: f64,
    /// Share of the requests that were asked again.
    pub(super) again: f64,
    pub(super) requests: usize,
}

// === impl Record ===

impl Record {
    /// Tokens that were computed for it.
    const fn work(&self) -> u64 {
        self.input - self.reused + self.output
    }

    fn ttft(&self) -> f64 {
        self.first.unwrap_or(self.last).saturating_sub(self.asked).as_secs_f64()
    }
}

// === impl Figures ===

impl Figures {
    /// Of the measured requests, over the workers that can answer.
    pub(super) fn of(records: &[Record], workers: impl Iterator<Item = usize>) -> Self {
        let measured: Vec<&Record> = records.iter().filter(|record| record.is_measured).collect();
        let sum = |part: fn(&Record) -> u64| measured.iter().map(|record| part(record)).sum::<u64>() as f64;
        let work = workers.map(|worker| {
            let own = measured.iter().filter(|record| record.worker == worker);
            own.map(|record| record.work()).sum::<u64>() as f64
        });
        let work: Vec<f64> = work.collect();
        let mean = work.iter().sum::<f64>() / work.len() as f64;
        let mut ttft: Vec<f64> = measured.iter().map(|record| record.ttft()).collect();
        ttft.sort_by(f64::total_cmp);
        let streaming = |record: &&Record| record.last.saturating_sub(record.first.unwrap_or(record.last));
        let seconds: f64 = measured.iter().map(|record| streaming(record).as_secs_f64()).sum();
        Self {
            spread: work.iter().copied().fold(0.0, f64::max) / mean,
            reuse: sum(|record| record.reused) / sum(|record| record.input),
            ttft_half: percentile(&ttft, 0.5),
            ttft_p99: percentile(&ttft, 0.99),
            each_token: seconds / sum(|record| record.output.saturating_sub(1)),
            again: sum(|record| u64::from(record.retries > 0)) / measured.len() as f64,
            requests: measured.len(),
        }
    }
}

/// The smallest value that so many of the sorted ones do not exceed.
pub(super) fn percentile(sorted: &[f64], share: f64) -> f64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_the_measured_requests_and_the_answering_workers() {
        let seconds = Duration::from_secs;
        let record = |worker, input, reused, first| Record {
            is_measured: true,
            first: Some(seconds(first)),
            last: seconds(first + 8),
            worker,
            input,
            reused,
            output: 5,
            ..Record::default()
        };
        let warmed = Record { is_measured: false, ..record(0, 1000, 0, 9) };
        let again = Record { retries: 2, ..record(1, 100, 30, 2) };
        let figures = Figures::of(&[warmed, record(0, 100, 80, 1), again], 0..2);
        assert_eq!(
            figures,
            Figures {
                spread: 75.0 / 50.0,
                reuse: 0.55,
                ttft_half: 1.0,
                ttft_p99: 2.0,
                each_token: 2.0,
                again: 0.5,
                requests: 2
            }
        );
    }

    #[test]
    fn a_percentile_is_a_value_that_was_seen() {
        let sorted: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!((percentile(&sorted, 0.5), percentile(&sorted, 0.99)), (100.0, 198.0));
        assert!(percentile(&[], 0.5).is_nan());
    }
}
