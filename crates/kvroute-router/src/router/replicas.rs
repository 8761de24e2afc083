//! Whether the histories of this router are shared with its replicas.

use std::sync::Arc;

use kvroute_cluster::{Cluster, ClusterConfig as ConnectionConfig};
use kvroute_metrics::Metrics;
use kvroute_select::policy;

use crate::config::PoolConfig;
use crate::history::SharingTeller;
use crate::plan::{RouterError, RouterPlan};
use crate::pool::remembers;

/// Connects to the replicas if there is anything to share and somebody wants it shared. Does not wait for the server.
pub(super) fn join(plan: &RouterPlan, metrics: &Metrics) -> Result<Option<Arc<Cluster>>, RouterError> {
    let Some(nats) = plan.cluster.nats.clone().filter(|_| plan.cluster.replica_sync) else { return Ok(None) };
    if !plan.pools.iter().any(|pool| has_history(&pool.config())) {
        tracing::warn!(
            "cluster.replica_sync is of no use: no pool has a history to share; set pool.history.enabled = true"
        );
        return Ok(None);
    }
    let teller = Arc::new(SharingTeller(metrics.sharing()));
    Ok(Some(Arc::new(Cluster::start(ConnectionConfig::at(nats), teller)?)))
}

fn has_history(pool: &PoolConfig) -> bool {
    policy::by_name(&pool.policy, &pool.policy_options).is_ok_and(|policy| remembers(pool, policy.as_ref()))
}
