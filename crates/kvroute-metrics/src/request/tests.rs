//! First token, pace and length of requests, by example.

use kvroute_core::{DpRank, ModelName, Phase, WorkerId, WorkerRank};
use prometheus::Histogram;

use super::*;
use crate::{Metrics, MetricsOptions, PoolLabels, PoolMetrics, WorkerType};

struct Bench {
    metrics: Metrics,
    pool: PoolMetrics,
    rank: RankMetrics,
}

impl Bench {
    fn new() -> Self {
        let metrics = Metrics::new(&MetricsOptions::default()).unwrap();
        let labels = PoolLabels {
            model: &ModelName::new("alpha"),
            policy: "random",
            reasons: &[],
            shadows: &["kv"],
            phases: &[Phase::Aggregated],
            counts_input: true,
            history: None,
        };
        let pool = metrics.pool(&labels);
        let rank = WorkerRank::new(WorkerId::new("w"), DpRank::new(0));
        let rank = metrics.rank(&rank, WorkerType::Decode);
        Self { metrics, pool, rank }
    }

    fn streamed(&self, choices: u32) -> RequestRecorder {
        self.pool.request(RequestShape { endpoint: Endpoint::ChatCompletions, streamed: true, choices })
    }

    fn whole(&self) -> RequestRecorder {
        self.pool.request(RequestShape { endpoint: Endpoint::ChatCompletions, streamed: false, choices: 1 })
    }

    fn has(&self, line: &str) -> bool {
        self.metrics.render().lines().any(|exposed| exposed == line)
    }
}

/// `(samples, sum)`, the sum to microseconds.
fn samples(recorder: &Histogram) -> (u64, f64) {
    (recorder.get_sample_count(), (recorder.get_sample_sum() * 1e6).round() / 1e6)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn the_first_token_is_sampled_once_whatever_choice_brings_it() {
    let bench = Bench::new();
    let mut request = bench.streamed(2);
    let totals = Arc::clone(&request.totals);
    request.served_by(&bench.rank, Some(Tokens::new(77)));
    request.chunks(1, 1, millis(250));
    request.chunks(0, 1, millis(400));
    request.finish(RequestOutcome::Completed);
    assert_eq!(samples(&totals.first_token_seconds), (1, 0.25));
    let labels = r#"{dp_rank="0",worker_id="w",worker_type="decode"}"#;
    assert!(bench.has(&format!("dynamo_frontend_worker_last_time_to_first_token_seconds{labels} 0.25")));
    assert!(bench.has(&format!("dynamo_frontend_worker_last_input_sequence_tokens{labels} 77")));
}

#[test]
fn a_whole_response_has_a_length_but_no_first_token_and_no_pace() {
    let bench = Bench::new();
    let mut request = bench.whole();
    let totals = Arc::clone(&request.totals);
    request.chunks(0, 1, millis(250));
    request.chunks(0, 1, millis(350));
    request.completion_tokens(Tokens::new(40));
    request.finish(RequestOutcome::Completed);
    assert_eq!(samples(&totals.first_token_seconds), (0, 0.0));
    assert_eq!(samples(&totals.inter_token_seconds), (0, 0.0));
    assert_eq!(samples(&totals.output_tokens), (1, 40.0));
}

#[test]
fn the_pace_of_a_single_choice_follows_the_engines_count() {
    let bench = Bench::new();
    let mut request = bench.streamed(1);
    let totals = Arc::clone(&request.totals);
    request.served_by(&bench.rank, None);
    for at in [100, 150, 300] {
        request.chunks(0, 1, millis(at));
    }
    request.completion_tokens(Tokens::new(11));
    request.finish(RequestOutcome::Completed);
    assert_eq!(samples(&totals.inter_token_seconds), (1, 0.02));
    assert_eq!(samples(&totals.output_tokens), (1, 11.0));
    let labels = r#"{dp_rank="0",worker_id="w",worker_type="decode"}"#;
    assert!(bench.has(&format!("dynamo_frontend_worker_last_inter_token_latency_seconds{labels} 0.02")));
}

#[test]
fn the_pace_of_several_choices_never_divides_by_their_sum() {
    let bench = Bench::new();
    let mut request = bench.streamed(2);
    let totals = Arc::clone(&request.totals);
    for (choice, at) in [(0, 100), (1, 100), (0, 200), (1, 400)] {
        request.chunks(choice, 1, millis(at));
    }
    request.completion_tokens(Tokens::new(1000));
    request.finish(RequestOutcome::Completed);
    assert_eq!(samples(&totals.inter_token_seconds), (2, 0.1 + 0.3));
    assert_eq!(samples(&totals.output_tokens), (1, 1000.0));
}

#[test]
fn token_ids_are_trusted_before_the_engines_count() {
    let bench = Bench::new();
    let mut request = bench.streamed(1);
    let totals = Arc::clone(&request.totals);
    for at in [0, 100] {
        request.chunks(0, 1, millis(at));
        request.token_ids(0, 3);
    }
    request.completion_tokens(Tokens::new(100));
    request.finish(RequestOutcome::Completed);
    assert_eq!(samples(&totals.inter_token_seconds), (1, 0.02));
}

#[test]
fn a_single_token_has_no_pace() {
    let bench = Bench::new();
    let mut request = bench.streamed(1);
    let totals = Arc::clone(&request.totals);
    request.chunks(0, 1, millis(100));
    request.finish(RequestOutcome::Completed);
    assert_eq!(samples(&totals.inter_token_seconds), (0, 0.0));
    assert_eq!(samples(&totals.output_tokens), (1, 1.0));
}

#[test]
fn a_request_without_output_gives_no_length() {
    let bench = Bench::new();
    let request = bench.streamed(1);
    let totals = Arc::clone(&request.totals);
    request.finish(RequestOutcome::Failed);
    assert_eq!(samples(&totals.output_tokens), (0, 0.0));
}

#[test]
fn a_dropped_request_is_cancelled_once_and_keeps_what_it_had() {
    let bench = Bench::new();
    let mut request = bench.streamed(1);
    let totals = Arc::clone(&request.totals);
    for at in [100, 150] {
        request.chunks(0, 1, millis(at));
    }
    drop(request);
    assert_eq!(samples(&totals.inter_token_seconds), (1, 0.05));
    let line = |outcome, count| {
        let labels = format!(r#"endpoint="/v1/chat/completions",model="alpha",outcome="{outcome}""#);
        format!("kvroute_requests_total{{{labels}}} {count}")
    };
    assert!(bench.has(&line("cancelled", 1)));
    assert!(bench.has(&line("completed", 0)));
}

#[test]
fn choices_that_nobody_asked_for_take_no_memory() {
    let bench = Bench::new();
    let mut request = bench.streamed(u32::MAX);
    request.chunks(u32::MAX - 1, 1, millis(100));
    request.chunks(7, 1, millis(100));
    request.token_ids(2000, 5);
    assert_eq!(request.choices.len(), 8);
    let mut single = bench.streamed(1);
    single.chunks(1, 1, millis(100));
    assert_eq!(single.choices.len(), 0);
}
