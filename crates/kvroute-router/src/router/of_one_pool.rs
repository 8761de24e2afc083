//! Routers for unit tests.

use kvroute_metrics::{Metrics, MetricsOptions};

use super::Router;
use crate::config::{ClusterConfig, PoolConfig, RouterConfig};
use crate::plan::RouterPlan;

/// A router of this pool. To be called in a runtime.
pub(super) fn router_of(pool: PoolConfig) -> Router {
    let plan = RouterPlan::new(RouterConfig {
        pools: vec![pool],
        seed: 7,
        trace_sample: 1.0,
        cluster: ClusterConfig::default(),
    })
    .unwrap();
    Router::start(plan, Metrics::new(&MetricsOptions::default()).unwrap()).unwrap()
}
