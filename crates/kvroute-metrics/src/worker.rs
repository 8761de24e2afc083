//! The metrics of one worker and of its ranks. The handle is the membership: closing or dropping it removes the series.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kvroute_core::{Phase, Tokens, WorkerId, WorkerLoad, WorkerRank};
use kvroute_funnel::Delivery;
use parking_lot::Mutex;
use prometheus::{Gauge, IntCounter, IntGauge};

use crate::families::Families;
use crate::series::Scope;
use crate::{EngineRequests, WorkerState, WorkerType};

/// One worker, whatever number of ranks it has.
#[derive(Debug)]
pub struct WorkerMetrics {
    state: StateGauges<{ WorkerState::VALUES.len() }>,
    _series: Scope,
}

/// One rank of a worker.
#[derive(Debug)]
pub struct RankMetrics {
    handles: Arc<RankHandles>,
    recent: IntGauge,
    families: Arc<Families>,
    rank: WorkerRank,
    engine_load_age: OnceLock<(Gauge, Scope)>,
    engine_requests: OnceLock<([IntGauge; EngineRequests::ALL.len()], Scope)>,
    series: Scope,
}

/// What attempts and requests of a rank add to. They may outlive the rank; its series do not, and what is
/// added then goes nowhere.
#[derive(Debug)]
pub(crate) struct RankHandles {
    active_decode_blocks: IntGauge,
    active_prefill_tokens: IntGauge,
    last_first_token_seconds: Gauge,
    last_input_tokens: IntGauge,
    last_inter_token_seconds: Gauge,
    predicted: IntCounter,
    reported: IntCounter,
}

/// One series a state: 1 for the current one, 0 for the others.
#[derive(Debug)]
pub(crate) struct StateGauges<const N: usize> {
    gauges: Mutex<[IntGauge; N]>,
}

// === impl WorkerMetrics ===

impl WorkerMetrics {
    pub(crate) fn new(families: &Families, worker: &WorkerId, state: WorkerState) -> Self {
        let mut scope = Scope::default();
        let gauges = WorkerState::ALL
            .map(|value| scope.hold(&families.worker_state, [worker.as_str(), value.as_str()]));
        let metrics = Self { state: StateGauges::new(gauges), _series: scope };
        metrics.set_state(state);
        metrics
    }

    /// Shows the current state.
    pub fn set_state(&self, state: WorkerState) {
        self.state.set(state as usize);
    }
}

// === impl RankMetrics ===

impl RankMetrics {
    pub(crate) fn new(families: &Arc<Families>, rank: &WorkerRank, worker_type: WorkerType) -> Self {
        let mut scope = Scope::default();
        let dp_rank = rank.dp_rank.to_string();
        let typed = [rank.worker.as_str(), &dp_rank, worker_type.as_str()];
        let untyped = [rank.worker.as_str(), &dp_rank];
        let handles = RankHandles {
            active_decode_blocks: scope.hold(&families.active_decode_blocks, typed),
            active_prefill_tokens: scope.hold(&families.active_prefill_tokens, typed),
            last_first_token_seconds: scope.hold(&families.last_first_token_seconds, typed),
            last_input_tokens: scope.hold(&families.last_input_tokens, typed),
            last_inter_token_seconds: scope.hold(&families.last_inter_token_seconds, typed),
            predicted: scope.hold(&families.worker_predicted, untyped),
            reported: scope.hold(&families.worker_reported, untyped),
        };
        Self {
            handles: Arc::new(handles),
            recent: scope.hold(&families.worker_recent, untyped),
            families: Arc::clone(families),
            rank: rank.clone(),
            engine_load_age: OnceLock::new(),
            engine_requests: OnceLock::new(),
            series: scope,
        }
    }

    /// Shows the booked load.
    pub fn set_load(&self, load: &WorkerLoad) {
        self.handles.active_decode_blocks.set(load.decode_blocks.get().cast_signed());
        self.handles.active_prefill_tokens.set(load.prefill_tokens.get().cast_signed());
    }

    /// Shows what the rank was lately given to compute.
    pub fn set_recent(&self, tokens: Tokens) {
        self.recent.set(tokens.get().cast_signed());
    }

    /// Shows what the engine says of its requests: those that run and those that wait.
    pub fn set_engine_load(&self, running: u64, waiting: u64) {
        let (requests, _) = self.engine_requests.get_or_init(|| {
            let mut scope = Scope::default();
            let dp_rank = self.rank.dp_rank.to_string();
            let series = EngineRequests::ALL.map(|state| {
                let labels = [self.rank.worker.as_str(), &dp_rank, state.as_str()];
                scope.hold(&self.families.worker_engine_requests, labels)
            });
            (series, scope)
        });
        requests[EngineRequests::Running as usize].set(running.cast_signed());
        requests[EngineRequests::Waiting as usize].set(waiting.cast_signed());
    }

    /// Shows how old that is; before the first answer, how long the engine owes one.
    pub fn set_engine_load_age(&self, age: Duration) {
        let (gauge, _) = self.engine_load_age.get_or_init(|| {
            let mut scope = Scope::default();
            let dp_rank = self.rank.dp_rank.to_string();
            let labels = [self.rank.worker.as_str(), &dp_rank];
            (scope.hold(&self.families.worker_engine_load_age, labels), scope)
        });
        gauge.set(age.as_secs_f64());
    }

    /// The rank has left: its series go now, though attempts that it still serves hold it.
    pub fn close(&self) {
        self.series.close();
        if let Some((_, scope)) = self.engine_load_age.get() {
            scope.close();
        }
        if let Some((_, scope)) = self.engine_requests.get() {
            scope.close();
        }
    }

    pub(crate) fn handles(&self) -> Arc<RankHandles> {
        Arc::clone(&self.handles)
    }
}

// === impl RankHandles ===

impl RankHandles {
    pub(crate) fn compared(&self, delivery: &Delivery) {
        self.predicted.inc_by(delivery.predicted.get());
        self.reported.inc_by(delivery.reported.get());
    }

    pub(crate) fn first_token(&self, since_headers: Duration, input: Option<Tokens>) {
        self.last_first_token_seconds.set(since_headers.as_secs_f64());
        if let Some(tokens) = input {
            self.last_input_tokens.set(tokens.get().cast_signed());
        }
    }

    pub(crate) fn inter_token(&self, mean_seconds: f64) {
        self.last_inter_token_seconds.set(mean_seconds);
    }
}

// === impl StateGauges ===

impl<const N: usize> StateGauges<N> {
    pub(crate) fn new(gauges: [IntGauge; N]) -> Self {
        Self { gauges: Mutex::new(gauges) }
    }

    /// Under a lock, so that two changes at once cannot leave two states current.
    pub(crate) fn set(&self, current: usize) {
        for (state, gauge) in self.gauges.lock().iter().enumerate() {
            gauge.set(i64::from(state == current));
        }
    }
}

// === impl WorkerType ===

impl WorkerType {
    /// The workers that serve a phase.
    pub const fn of_phase(phase: Phase) -> Self {
        match phase {
            Phase::Prefill => Self::Prefill,
            Phase::Aggregated | Phase::Decode => Self::Decode,
        }
    }
}
