//! The families that a request moves, as vectors of metrics. Names, labels and buckets are the catalogue's.

use anyhow::Result;
use kvroute_metrics::{Row, rows};
use prometheus::core::Collector;
use prometheus::{
    CounterVec, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGaugeVec,
    Opts, Registry,
};

/// Made from a row of the catalogue.
trait FromRow: Collector + Clone + Sized + 'static {
    fn from_row(row: &Row, labels: &[&str]) -> prometheus::Result<Self>;
}

macro_rules! families {
    ($($field:ident: $kind:ty = $row:ident,)+) => {
        /// One family a field.
        #[derive(Debug)]
        pub(super) struct Families {
            $(pub(super) $field: $kind,)+
        }

        impl Families {
            pub(super) fn register(registry: &Registry) -> Result<Self> {
                Ok(Self { $($field: registered(registry, rows::$row)?,)+ })
            }
        }
    };
}

families! {
    input_tokens: HistogramVec = INPUT_TOKENS,
    best_cached: IntCounterVec = BEST_CACHED,
    selected_cached: IntCounterVec = SELECTED_CACHED,
    worker_reused: IntCounterVec = WORKER_REUSED,
    anywhere_cached: IntCounterVec = ANYWHERE_CACHED,
    ledger_input: IntCounterVec = LEDGER_INPUT,
    reuse_reports: IntCounterVec = REUSE_REPORTS,
    reported_input: IntCounterVec = REPORTED_INPUT,
    expected_input: IntCounterVec = EXPECTED_INPUT,
    reuse_lost: IntCounterVec = REUSE_LOST,
    lost_seconds: CounterVec = LOST_SECONDS,
    reuse_surplus: IntCounterVec = REUSE_SURPLUS,
    compared_predicted: IntCounterVec = COMPARED_PREDICTED,
    compared_reported: IntCounterVec = COMPARED_REPORTED,
    uncached_prefill: IntCounterVec = UNCACHED_PREFILL,
    bookings: IntCounter = BOOKINGS,
    dispatched_attempts: IntCounter = DISPATCHED_ATTEMPTS,
    attempts: IntCounterVec = ATTEMPTS,
    requests: IntCounterVec = REQUESTS,
    first_token_seconds: Histogram = FIRST_TOKEN_SECONDS,
    inter_token_seconds: Histogram = INTER_TOKEN_SECONDS,
    output_tokens: Histogram = OUTPUT_TOKENS,
    stage_requests: IntGaugeVec = STAGE_REQUESTS,
    stage_seconds: HistogramVec = STAGE_SECONDS,
    decisions: IntCounterVec = DECISIONS,
    decisions_recorded: IntCounterVec = DECISIONS_RECORDED,
    shadow_selected: IntCounterVec = SHADOW_SELECTED,
    shadow_input: IntCounterVec = SHADOW_INPUT,
    hit_rate: Histogram = HIT_RATE,
    non_max_overlap: IntCounterVec = NON_MAX_OVERLAP,
    overlap_blocks_lost: HistogramVec = OVERLAP_BLOCKS_LOST,
    block_hashing_ms: Histogram = BLOCK_HASHING_MS,
    sequence_hashing_ms: Histogram = SEQUENCE_HASHING_MS,
    find_matches_ms: Histogram = FIND_MATCHES_MS,
    scheduling_ms: Histogram = SCHEDULING_MS,
    decision_ms: Histogram = DECISION_MS,
    active_decode_blocks: IntGaugeVec = ACTIVE_DECODE_BLOCKS,
    active_prefill_tokens: IntGaugeVec = ACTIVE_PREFILL_TOKENS,
    last_first_token_seconds: GaugeVec = LAST_FIRST_TOKEN_SECONDS,
    last_input_tokens: IntGaugeVec = LAST_INPUT_TOKENS,
    last_inter_token_seconds: GaugeVec = LAST_INTER_TOKEN_SECONDS,
    worker_predicted: IntCounterVec = WORKER_PREDICTED,
    worker_reported: IntCounterVec = WORKER_REPORTED,
}

fn registered<F: FromRow>(registry: &Registry, row: &Row) -> Result<F> {
    let labels: Vec<&str> = row.labels.iter().map(|label| label.name).collect();
    let family = F::from_row(row, &labels)?;
    registry.register(Box::new(family.clone()))?;
    Ok(family)
}

fn opts(row: &Row) -> Opts {
    Opts::new(row.name, row.help)
}

fn histogram_opts(row: &Row) -> HistogramOpts {
    HistogramOpts::from(opts(row)).buckets(row.buckets.to_vec())
}

// === impl FromRow ===

impl FromRow for IntCounter {
    fn from_row(row: &Row, _: &[&str]) -> prometheus::Result<Self> {
        Self::with_opts(opts(row))
    }
}

impl FromRow for Histogram {
    fn from_row(row: &Row, _: &[&str]) -> prometheus::Result<Self> {
        Self::with_opts(histogram_opts(row))
    }
}

impl FromRow for IntCounterVec {
    fn from_row(row: &Row, labels: &[&str]) -> prometheus::Result<Self> {
        Self::new(opts(row), labels)
    }
}

impl FromRow for CounterVec {
    fn from_row(row: &Row, labels: &[&str]) -> prometheus::Result<Self> {
        Self::new(opts(row), labels)
    }
}

impl FromRow for IntGaugeVec {
    fn from_row(row: &Row, labels: &[&str]) -> prometheus::Result<Self> {
        Self::new(opts(row), labels)
    }
}

impl FromRow for GaugeVec {
    fn from_row(row: &Row, labels: &[&str]) -> prometheus::Result<Self> {
        Self::new(opts(row), labels)
    }
}

impl FromRow for HistogramVec {
    fn from_row(row: &Row, labels: &[&str]) -> prometheus::Result<Self> {
        Self::new(histogram_opts(row), labels)
    }
}
