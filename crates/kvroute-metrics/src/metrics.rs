//! The root of everything that is exported.

use std::sync::Arc;

use kvroute_core::{ModelName, Phase, WorkerId, WorkerRank};
use prometheus::Registry;
use prometheus::process_collector::ProcessCollector;

use crate::exposition::Exposition;
use crate::families::{Families, FamilySet};
use crate::series::Scope;
use crate::totals::Totals;
use crate::{
    ConnectionMetrics, CrewMetrics, DiscoveryMetrics, MetricsError, MetricsOptions, OverheadMetrics,
    PoolLabels, PoolMetrics, QueueMetrics, RankMetrics, ReloadMetrics, RememberedMetrics, RequestCounters,
    SharingMetrics, SourceMetrics, SourceState, StageMetrics, WorkerMetrics, WorkerState, WorkerType,
};

/// One router's metrics, with a registry of their own. Cheap to clone; clones are the same metrics.
#[derive(Clone, Debug)]
pub struct Metrics {
    exposition: Arc<Exposition>,
    families: Arc<Families>,
    totals: Arc<Totals>,
    unknown_model: Arc<UnknownModel>,
}

/// What is counted of requests that no pool takes.
#[derive(Debug)]
struct UnknownModel {
    requests: RequestCounters,
    queue: QueueMetrics,
    _series: Scope,
}

/// Model of requests that name none of the pools'.
const UNKNOWN_MODEL: &str = "unknown";

// === impl Metrics ===

impl Metrics {
    /// Registers every family of the catalogue, but for those of the history, its sharing and discoveries: they come with
    /// the first pool that has one, and with [`Metrics::sharing`] and [`Metrics::discovery`].
    pub fn new(options: &MetricsOptions) -> Result<Self, MetricsError> {
        options.validate()?;
        let registry = Registry::new();
        let families = Families::register(&registry, &options.prefix)?;
        let process = registry.register(Box::new(ProcessCollector::for_self()));
        process.map_err(|error| MetricsError::Family {
            name: "process_*".to_owned(),
            reason: error.to_string(),
        })?;
        Ok(Self {
            exposition: Arc::new(Exposition::new(registry, &options.const_labels)),
            totals: Arc::new(Totals::new(&families)),
            unknown_model: Arc::new(UnknownModel::new(&families)),
            families: Arc::new(families),
        })
    }

    /// All series, in the Prometheus text format, ordered by name and labels.
    pub fn render(&self) -> String {
        self.exposition.render()
    }

    /// How many series that are now: lines of [`Metrics::render`] with a value.
    pub fn series(&self) -> usize {
        self.exposition.series()
    }

    /// The media type of [`Metrics::render`].
    pub const fn content_type(&self) -> &'static str {
        prometheus::TEXT_FORMAT
    }

    /// Handles of one pool. Several pools of one model share their series.
    pub fn pool(&self, labels: &PoolLabels<'_>) -> PoolMetrics {
        PoolMetrics::new(&self.families, &self.totals, labels)
    }

    /// Counters of requests whose model was not recognised: bad JSON, no access, no such model or path.
    pub fn unknown_model(&self) -> &RequestCounters {
        &self.unknown_model.requests
    }

    /// Those of them that wait, because a pool of which nothing is known yet may serve their model.
    pub fn unknown_model_queue(&self) -> &QueueMetrics {
        &self.unknown_model.queue
    }

    /// Handles of the workers of a configured pool.
    pub fn crew(&self, pool: &str) -> CrewMetrics {
        CrewMetrics::new(&self.families, pool)
    }

    /// Handles of a pool's discovery. To be asked for only where there is one: from then on its families exist.
    pub fn discovery(&self, pool: &str) -> DiscoveryMetrics {
        DiscoveryMetrics::new(&self.families, pool)
    }

    /// Counters of connections that were refused.
    pub fn connections(&self) -> &ConnectionMetrics {
        &self.totals.connections
    }

    /// Counters of new configurations.
    pub fn reloads(&self) -> &ReloadMetrics {
        &self.totals.reloads
    }

    /// Handles of one worker that joined.
    pub fn worker(&self, worker: &WorkerId, state: WorkerState) -> WorkerMetrics {
        WorkerMetrics::new(&self.families, worker, state)
    }

    /// Handles of one rank of a worker.
    pub fn rank(&self, rank: &WorkerRank, worker_type: WorkerType) -> RankMetrics {
        RankMetrics::new(&self.families, rank, worker_type)
    }

    /// Handles of a rank whose cache is only remembered.
    pub fn remembered(&self, rank: &WorkerRank) -> RememberedMetrics {
        RememberedMetrics::new(&self.families, rank)
    }

    /// Handles of a rank's event source.
    pub fn source(&self, rank: &WorkerRank, state: SourceState) -> SourceMetrics {
        SourceMetrics::new(&self.families, rank, state)
    }

    /// Handles of the stages of requests in one phase.
    pub fn stages(&self, phase: Phase) -> StageMetrics {
        self.totals.stages(&self.families, phase).clone()
    }

    /// Handles of the sharing of histories between replicas. To be asked for only where they are shared: from then on its
    /// families exist.
    pub fn sharing(&self) -> SharingMetrics {
        SharingMetrics::new(&self.families, &self.totals)
    }

    /// Handles of what decisions cost.
    pub fn overhead(&self) -> OverheadMetrics {
        self.totals.overhead.clone()
    }
}

// === impl UnknownModel ===

impl UnknownModel {
    fn new(families: &Families) -> Self {
        let (model, mut series) = (ModelName::new(UNKNOWN_MODEL), Scope::default());
        let queue = QueueMetrics::new(families, &model, WorkerType::Decode, &mut series);
        Self { requests: RequestCounters::new(families, UNKNOWN_MODEL), queue, _series: series }
    }
}
