//! All families of one [`Metrics`](crate::Metrics), each bound to its row of the catalogue. Those of a part that is off, as
//! the history and its sharing are until an operator wants them, are not registered.

use std::sync::Once;

use prometheus::core::Collector;
use prometheus::{Counter, Gauge, Histogram, IntCounter, IntGauge, Registry};

use crate::series::Family;
use crate::{MetricsError, catalogue};

/// Families that are registered together.
pub(crate) trait FamilySet: Sized {
    /// Registers every family under its name with the prefix.
    fn register(registry: &Registry, prefix: &str) -> Result<Self, MetricsError>;

    /// All of them, but for late ones.
    fn collectors(&self) -> Vec<Box<dyn Collector>>;
}

/// Families of something that not every router has. Until somebody has it they are not registered, so that they are absent
/// and not zero; that their names are free is known from the start.
#[derive(Debug)]
pub(crate) struct Late<F> {
    families: F,
    registry: Registry,
    registered: Once,
}

/// Declares families and how each is registered: `field: kind, number of labels = row`. Those behind `late` are declared in
/// the same way and exist only once somebody asks for them.
macro_rules! families {
    (
        $(#[$doc:meta])*
        $name:ident { $($field:ident: $kind:ty, $labels:literal = $row:ident,)+ }
        $(late { $($late:ident: $late_families:ty,)+ })?
    ) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $name {
            $(pub(crate) $field: Family<$kind, $labels>,)+
            $($(pub(crate) $late: Late<$late_families>,)+)?
        }

        impl FamilySet for $name {
            fn register(registry: &Registry, prefix: &str) -> Result<Self, MetricsError> {
                Ok(Self {
                    $($field: Family::register(registry, &catalogue::$row, prefix)?,)+
                    $($($late: Late::tried(registry, prefix)?,)+)?
                })
            }

            fn collectors(&self) -> Vec<Box<dyn Collector>> {
                vec![$(Box::new(self.$field.clone()),)+]
            }
        }
    };
}

families! {
    /// One typed family a row, except for those that the process collector fills.
    Families {
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
        retries_refused: IntCounter, 2 = RETRIES_REFUSED,
        migrations: IntCounter, 2 = MIGRATIONS,
        prefill_fallbacks: IntCounter, 2 = PREFILL_FALLBACKS,
        stranded_prefill: IntCounter, 1 = STRANDED_PREFILL,
        identity_state: IntGauge, 3 = IDENTITY_STATE,
        identity_checks: IntCounter, 2 = IDENTITY_CHECKS,
        tokenizer_cache: IntCounter, 2 = TOKENIZER_CACHE,
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
        refused_connections: IntCounter, 2 = REFUSED_CONNECTIONS,
        pool_workers: IntGauge, 2 = POOL_WORKERS,
        config_reloads: IntCounter, 1 = CONFIG_RELOADS,
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
    late {
        history: HistoryFamilies,
        sharing: SharingFamilies,
        discovery: DiscoveryFamilies,
    }
}

families! {
    /// What a pool with a history moves.
    HistoryFamilies {
        cached: IntCounter, 0 = HISTORY_CACHED,
        cached_by_model: IntCounter, 2 = HISTORY_CACHED_BY_MODEL,
        observed_input: IntCounter, 0 = HISTORY_OBSERVED_INPUT,
        observations: IntCounter, 1 = HISTORY_OBSERVATIONS,
        unique_hashes: IntGauge, 0 = HISTORY_UNIQUE_HASHES,
        represented_tokens: IntGauge, 0 = HISTORY_REPRESENTED_TOKENS,
        estimated_bytes: IntGauge, 0 = HISTORY_ESTIMATED_BYTES,
        capacity_blocks: IntGauge, 0 = HISTORY_CAPACITY_BLOCKS,
        capacity_bytes: IntGauge, 0 = HISTORY_CAPACITY_BYTES,
        untracked_output: IntCounter, 1 = HISTORY_UNTRACKED_OUTPUT,
        oldest_entry_age: Gauge, 1 = HISTORY_OLDEST_ENTRY_AGE,
        snapshot_seconds: Gauge, 1 = HISTORY_SNAPSHOT_SECONDS,
        sharing: IntGauge, 1 = HISTORY_SHARING,
    }
}

families! {
    /// How the discoveries of pools fare.
    DiscoveryFamilies {
        age: Gauge, 1 = DISCOVERY_AGE,
        failing: IntGauge, 1 = DISCOVERY_FAILING,
    }
}

families! {
    /// What is told of the other replicas.
    SharingFamilies {
        messages: IntCounter, 2 = HISTORY_SYNC_MESSAGES,
        dropped: IntCounter, 0 = HISTORY_SYNC_DROPPED,
        peers: IntGauge, 0 = CLUSTER_PEERS,
    }
}

// === impl Late ===

impl<F: FamilySet> Late<F> {
    /// Families that can be registered, because they once were.
    fn tried(registry: &Registry, prefix: &str) -> Result<Self, MetricsError> {
        let families = F::register(registry, prefix)?;
        for collector in families.collectors() {
            let name = collector.desc().first().map(|desc| desc.fq_name.clone()).unwrap_or_default();
            let taken_back = registry.unregister(collector);
            taken_back.map_err(|error| MetricsError::Family { name, reason: error.to_string() })?;
        }
        Ok(Self { families, registry: registry.clone(), registered: Once::new() })
    }

    /// The families, registered now at the latest.
    pub(crate) fn get(&self) -> &F {
        self.registered.call_once(|| self.register());
        &self.families
    }

    #[expect(
        clippy::expect_used,
        reason = "they were registered before, and nobody has taken their names since"
    )]
    fn register(&self) {
        for collector in self.families.collectors() {
            self.registry.register(collector).expect("families that were registered before have free names");
        }
    }
}
