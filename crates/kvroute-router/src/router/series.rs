//! How many series the router will export, said at its start: whoever pays for them can plan with it.
//!
//! Nothing is multiplied by hand. The number is counted on metrics of its own, with the pools as they are configured and one
//! rank of each kind, made by the code that makes the real ones. What of a worker is not known before it has answered is
//! taken to be usual: one rank, and KV events unless the configuration says otherwise.

use std::collections::BTreeMap;
use std::iter::repeat_n;
use std::sync::Arc;
use std::time::Duration;

use kvroute_core::{Blocks, DpRank, ModelName, Phase, SourceState, WorkerId, WorkerRank};
use kvroute_metrics::{
    HistoryBounds, HistoryLevels, Metrics, MetricsOptions, PoolLabels, PoolMetrics, WorkerState, WorkerType,
};
use kvroute_select::policy;

use super::Shared;
use super::census::Counted;
use crate::config::{CountMode, EventEndpoint, IndexSource, PoolConfig, WorkerConfig};
use crate::plan::{PoolPlan, RouterError};
use crate::pool::{asks_index, reasons_of, remembers};
use crate::rank::Rank;

/// A history that has learned something has the same series, however large it is.
const ANY_BOUNDS: HistoryBounds = HistoryBounds { capacity: Blocks::ZERO, bytes: 0 };

/// What the number of a rank's series depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RankKind {
    source: SourceKind,
    tells_load: bool,
}

/// How the cache of a rank is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SourceKind {
    Unknown,
    Remembered,
    Reported,
}

/// One pool as it is, or as it will be.
struct ExpectedPool {
    model: ModelName,
    config: Arc<PoolConfig>,
    phases: &'static [Phase],
    ranks: Vec<RankKind>,
}

// === impl Shared ===

impl Shared {
    /// Says how many series there are, and how many there will be once every configured worker has joined.
    pub(super) fn tell_series(&self, when: &str) {
        match self.expected_series() {
            Ok(expected) => {
                let (series, workers) = (self.metrics.series(), self.roster.all().len());
                tracing::info!(series, expected, workers, "metric series {when}");
            }
            Err(error) => tracing::warn!(%error, "the number of metric series cannot be told"),
        }
    }

    /// Says so again, once, when every configured worker is in a pool: nothing has to be guessed any more.
    pub(super) fn tell_series_of_all(&self) {
        let workers = self.roster.all();
        if !workers.is_empty() && workers.iter().all(|worker| worker.is_member()) {
            self.series_of_all.call_once(|| self.tell_series("with all workers"));
        }
    }

    fn expected_series(&self) -> Result<usize, RouterError> {
        let pools: Vec<_> = self.plans.iter().flat_map(|plan| self.expected_pools(plan)).collect();
        let metrics = Metrics::new(&MetricsOptions::default())
            .map_err(|error| RouterError::Contradiction(error.to_string()))?;
        if self.cluster().is_some() {
            metrics.sharing();
        }
        let _counted: Vec<_> =
            (0..).zip(&self.plans).map(|(number, plan)| Counted::new(number, plan, &metrics)).collect();
        let made = pools.iter().map(|pool| pool.metrics(&metrics)).collect::<Result<Vec<_>, _>>()?;
        let ranks = pools.iter().flat_map(|pool| &pool.ranks);
        let counting = self.plans.iter().filter(|plan| plan.config().count == CountMode::Exact);
        let compared = counting.map(|plan| plan.crew.now().len()).sum();
        Ok(metrics.series()
            + of_workers(&metrics, self.roster.all().len())
            + of_ranks(&metrics, ranks)
            + made.first().map_or(0, |pool| of_identities(&metrics, pool, compared)))
    }

    /// The pools of a plan; a plan without any will have one.
    fn expected_pools(&self, plan: &Arc<PoolPlan>) -> Vec<ExpectedPool> {
        let config = &*plan.config();
        let pools = self.pools.load();
        let made = pools.iter().filter(|pool| pool.is_of(plan));
        let mut expected: Vec<_> = made
            .map(|pool| {
                let ranks = pool.fleet().ranks.iter().map(|rank| RankKind::of(rank)).collect();
                ExpectedPool {
                    model: pool.model().clone(),
                    config: Arc::clone(config),
                    phases: plan.phases(),
                    ranks,
                }
            })
            .collect();
        if expected.is_empty() {
            let name = config.workers.first().map(WorkerConfig::id);
            let model = ModelName::new(format!("of {}", name.as_ref().map_or("nobody", WorkerId::as_str)));
            expected.push(ExpectedPool {
                model,
                config: Arc::clone(config),
                phases: plan.phases(),
                ranks: Vec::new(),
            });
        }
        let crew = plan.crew.now();
        let missing = crew.iter().filter(|worker| !worker.is_member());
        let missing = missing.flat_map(|worker| RankKind::expected(config, worker.config()));
        expected[0].ranks.extend(missing);
        expected
    }
}

// === impl ExpectedPool ===

impl ExpectedPool {
    /// Its own series, without those of its ranks.
    fn metrics(&self, metrics: &Metrics) -> Result<PoolMetrics, RouterError> {
        let config = &*self.config;
        let named = |name: &String| policy::by_name(name, &config.policy_options);
        let policy = named(&config.policy)?;
        let shadows = config.shadow.iter().map(named).collect::<Result<Vec<_>, _>>()?;
        let shadow_names: Vec<_> = shadows.iter().map(|shadow| shadow.name()).collect();
        let pool = metrics.pool(&PoolLabels {
            model: &self.model,
            policy: policy.name(),
            reasons: &reasons_of(policy.as_ref()),
            shadows: &shadow_names,
            phases: self.phases,
            counts_input: config.count == CountMode::Exact,
            history: remembers(config, policy.as_ref()).then_some(ANY_BOUNDS),
        });
        if config.migrations > 0 {
            pool.migrates();
        }
        if self.ranks.iter().any(|rank| rank.source != SourceKind::Unknown) {
            pool.set_index_bytes(0);
            if asks_index(config, policy.as_ref()) {
                pool.index_view_exists();
            }
        }
        if let Some(history) = pool.history() {
            history.show(&HistoryLevels { oldest: Some(Duration::ZERO), ..ANY_BOUNDS.into() });
            if config.history.snapshot.is_some() {
                history.snapshot_written(Duration::ZERO);
            }
        }
        Ok(pool)
    }
}

// === impl RankKind ===

impl RankKind {
    /// Of a rank that is there.
    fn of(rank: &Rank) -> Self {
        let source = match &rank.source {
            None => SourceKind::Unknown,
            Some(source) if source.memory().is_some() => SourceKind::Remembered,
            Some(_) => SourceKind::Reported,
        };
        Self { source, tells_load: rank.told_load.is_some() }
    }

    /// Of every rank of a worker that nobody has asked.
    fn expected(config: &PoolConfig, worker: &WorkerConfig) -> impl Iterator<Item = Self> {
        let is_followed =
            config.index.source != IndexSource::Remembered && worker.kv_events != EventEndpoint::None;
        let is_remembered = config.index.source != IndexSource::Reported
            && policy::by_name(&config.policy, &config.policy_options)
                .is_ok_and(|policy| asks_index(config, policy.as_ref()));
        let source = match (is_followed, is_remembered) {
            (true, _) => SourceKind::Reported,
            (false, true) => SourceKind::Remembered,
            (false, false) => SourceKind::Unknown,
        };
        let kind = Self { source, tells_load: config.engine_load.is_some() };
        repeat_n(kind, worker.dp_ranks.unwrap_or(1).max(1) as usize)
    }

    /// All that such a rank exports.
    fn metrics(self, metrics: &Metrics) -> impl Sized + use<> {
        let name = WorkerRank::new(WorkerId::new("expected"), DpRank::new(0));
        let rank = metrics.rank(&name, WorkerType::Decode);
        if self.tells_load {
            rank.set_engine_load(0, 0);
            rank.set_engine_load_age(Duration::ZERO);
        }
        let (source, memory) = match self.source {
            SourceKind::Unknown => (None, None),
            SourceKind::Reported => (Some(metrics.source(&name, SourceState::Degraded)), None),
            SourceKind::Remembered => {
                (Some(metrics.source(&name, SourceState::Remembered)), Some(metrics.remembered(&name)))
            }
        };
        (rank, source, memory)
    }
}

/// The series of so many workers, without those of their ranks.
fn of_workers(metrics: &Metrics, workers: usize) -> usize {
    let worker = WorkerId::new("expected");
    workers * cost(metrics, || metrics.worker(&worker, WorkerState::Starting))
}

/// The series of so many workers whose tokens are compared, without those of their models.
fn of_identities(metrics: &Metrics, pool: &PoolMetrics, workers: usize) -> usize {
    let [first, next] = ["first", "next"].map(WorkerId::new);
    let _first = pool.identity(&first);
    workers * cost(metrics, || pool.identity(&next))
}

/// The series of ranks: one of each kind is made and counted.
fn of_ranks<'a>(metrics: &Metrics, ranks: impl Iterator<Item = &'a RankKind>) -> usize {
    let mut kinds = BTreeMap::new();
    for kind in ranks {
        *kinds.entry(*kind).or_insert(0) += 1;
    }
    kinds.into_iter().map(|(kind, ranks)| ranks * cost(metrics, || kind.metrics(metrics))).sum()
}

/// How many series somebody makes.
fn cost<T>(metrics: &Metrics, make: impl FnOnce() -> T) -> usize {
    let before = metrics.series();
    let made = make();
    let after = metrics.series();
    drop(made);
    after - before
}

#[cfg(test)]
mod tests;
