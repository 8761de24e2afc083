//! All families of one [`Metrics`](crate::Metrics), each bound to its row of the catalogue.

use prometheus::{Counter, Gauge, Histogram, IntCounter, IntGauge, Registry};

use crate::series::Family;
use crate::{MetricsError, catalogue};

/// Declares the families and how each is registered: `field: kind, number of labels = row`.
macro_rules! families {
    ($($field:ident: $kind:ty, $labels:literal = $row:ident,)+) => {
        /// One typed family a row, except for those that the process collector fills.
        #[derive(Debug)]
        pub(crate) struct Families {
            $(pub(crate) $field: Family<$kind, $labels>,)+
        }

        impl Families {
            /// Registers every family under its name with the prefix.
            pub(crate) fn register(registry: &Registry, prefix: &str) -> Result<Self, MetricsError> {
                Ok(Self {
                    $($field: Family::register(registry, &catalogue::$row, prefix)?,)+
                })
            }
        }
    };
}

families! {
    input_tokens: Histogram, 2 = INPUT_TOKENS,
    best_cached: IntCounter, 2 = BEST_CACHED,
    selected_cached: IntCounter, 2 = SELECTED_CACHED,
    worker_reused: IntCounter, 2 = WORKER_REUSED,
    anywhere_cached: IntCounter, 2 = ANYWHERE_CACHED,
    ledger_input: IntCounter, 2 = LEDGER_INPUT,
    repeated_input: IntCounter, 2 = REPEATED_INPUT,
    reuse_reports: IntCounter, 3 = REUSE_REPORTS,
    reported_input: IntCounter, 2 = REPORTED_INPUT,
    expected_input: IntCounter, 2 = EXPECTED_INPUT,
    reuse_lost: IntCounter, 4 = REUSE_LOST,
    lost_seconds: Counter, 3 = LOST_SECONDS,
    reuse_surplus: IntCounter, 3 = REUSE_SURPLUS,
    compared_predicted: IntCounter, 2 = COMPARED_PREDICTED,
    compared_reported: IntCounter, 2 = COMPARED_REPORTED,
    uncached_prefill: IntCounter, 2 = UNCACHED_PREFILL,
    uncounted_attempts: IntCounter, 3 = UNCOUNTED_ATTEMPTS,
    bookings: IntCounter, 0 = BOOKINGS,
    dispatched_attempts: IntCounter, 0 = DISPATCHED_ATTEMPTS,
    attempts: IntCounter, 4 = ATTEMPTS,
    retries: IntCounter, 2 = RETRIES,
    requests: IntCounter, 3 = REQUESTS,
    first_token_seconds: Histogram, 0 = FIRST_TOKEN_SECONDS,
    inter_token_seconds: Histogram, 0 = INTER_TOKEN_SECONDS,
    output_tokens: Histogram, 0 = OUTPUT_TOKENS,
    stage_requests: IntGauge, 2 = STAGE_REQUESTS,
    stage_seconds: Histogram, 2 = STAGE_SECONDS,
    added_latency_seconds: Histogram, 1 = ADDED_LATENCY_SECONDS,
    queue_pending: IntGauge, 2 = QUEUE_PENDING,
    queue_wait_seconds: Histogram, 1 = QUEUE_WAIT_SECONDS,
    queue_refused: IntCounter, 2 = QUEUE_REFUSED,
    decisions: IntCounter, 3 = DECISIONS,
    decisions_recorded: IntCounter, 1 = DECISIONS_RECORDED,
    decisions_unrecorded: IntCounter, 1 = DECISIONS_UNRECORDED,
    shadow_selected: IntCounter, 2 = SHADOW_SELECTED,
    shadow_input: IntCounter, 2 = SHADOW_INPUT,
    hit_rate: Histogram, 0 = HIT_RATE,
    non_max_overlap: IntCounter, 1 = NON_MAX_OVERLAP,
    overlap_blocks_lost: Histogram, 1 = OVERLAP_BLOCKS_LOST,
    block_hashing_ms: Histogram, 0 = BLOCK_HASHING_MS,
    sequence_hashing_ms: Histogram, 0 = SEQUENCE_HASHING_MS,
    find_matches_ms: Histogram, 0 = FIND_MATCHES_MS,
    scheduling_ms: Histogram, 0 = SCHEDULING_MS,
    decision_ms: Histogram, 0 = DECISION_MS,
    worker_state: IntGauge, 2 = WORKER_STATE,
    active_decode_blocks: IntGauge, 3 = ACTIVE_DECODE_BLOCKS,
    active_prefill_tokens: IntGauge, 3 = ACTIVE_PREFILL_TOKENS,
    last_first_token_seconds: Gauge, 3 = LAST_FIRST_TOKEN_SECONDS,
    last_input_tokens: IntGauge, 3 = LAST_INPUT_TOKENS,
    last_inter_token_seconds: Gauge, 3 = LAST_INTER_TOKEN_SECONDS,
    worker_predicted: IntCounter, 2 = WORKER_PREDICTED,
    worker_reported: IntCounter, 2 = WORKER_REPORTED,
    worker_recent: IntGauge, 2 = WORKER_RECENT,
    worker_engine_requests: IntGauge, 3 = WORKER_ENGINE_REQUESTS,
    worker_engine_load_age: Gauge, 2 = WORKER_ENGINE_LOAD_AGE,
    source_state: IntGauge, 3 = SOURCE_STATE,
    index_blocks: IntGauge, 2 = INDEX_BLOCKS,
    index_bytes: IntGauge, 1 = INDEX_BYTES,
    budget_evictions: IntCounter, 1 = BUDGET_EVICTIONS,
    blocks_rejected: IntCounter, 3 = BLOCKS_REJECTED,
    event_lag_seconds: Gauge, 2 = EVENT_LAG_SECONDS,
    index_events: IntCounter, 3 = INDEX_EVENTS,
    index_gaps: IntCounter, 2 = INDEX_GAPS,
    missed_batches: IntCounter, 2 = MISSED_BATCHES,
    index_replays: IntCounter, 3 = INDEX_REPLAYS,
    index_restarts: IntCounter, 2 = INDEX_RESTARTS,
    remembered_blocks: IntGauge, 2 = REMEMBERED_BLOCKS,
    remembered_evicted: IntCounter, 2 = REMEMBERED_EVICTED,
    remembered_fallbacks: IntCounter, 2 = REMEMBERED_FALLBACKS,
    remembered_output_batches: IntCounter, 2 = REMEMBERED_OUTPUT_BATCHES,
    build_info: IntGauge, 1 = BUILD_INFO,
}
