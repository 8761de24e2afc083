//! How many workers each pool has and how its discovery fares, counted when somebody looks.

use std::sync::Arc;

use kvroute_metrics::CrewMetrics;

use super::Router;
use crate::finder::{DiscoveryStatus, Finder};
use crate::plan::PoolPlan;

/// What is shown of one configured pool.
#[derive(Debug)]
pub(super) struct Counted {
    pub(super) plan: Arc<PoolPlan>,
    workers: CrewMetrics,
    /// `None` where the pool has no discovery.
    pub(super) finder: Option<Arc<Finder>>,
}

// === impl Router ===

impl Router {
    /// All metrics in Prometheus' text format, with figures of this moment.
    pub fn exposition(&self) -> String {
        self.shared.counted.iter().for_each(Counted::show);
        self.metrics().render()
    }

    /// The discovery of every pool that has one, as `GET /api/discovery` lists them.
    pub fn discoveries(&self) -> Vec<DiscoveryStatus> {
        self.shared
            .counted
            .iter()
            .filter_map(|counted| counted.finder.as_ref())
            .map(|finder| finder.status())
            .collect()
    }
}

// === impl Counted ===

impl Counted {
    /// Of the pool with this number.
    pub(super) fn new(number: usize, plan: &Arc<PoolPlan>, metrics: &kvroute_metrics::Metrics) -> Self {
        let config = plan.config();
        let pool = config.model.as_ref().map_or_else(|| number.to_string(), ToString::to_string);
        let workers = metrics.crew(&pool);
        let finder = config.discovery.clone().map(|discovery| {
            let handles = metrics.discovery(&pool);
            Arc::new(Finder::new(pool, discovery, handles))
        });
        Self { plan: Arc::clone(plan), workers, finder }
    }

    fn show(&self) {
        let crew = self.plan.crew.now();
        let ready = crew.iter().filter(|worker| worker.is_member() && worker.takes_requests()).count();
        self.workers.show(crew.len(), ready);
        if let Some(finder) = &self.finder {
            finder.show();
        }
    }
}
