//! What the workers of a pool say of themselves, held against each other and against the configuration.
//!
//! Requests of one model go to any of its workers, so they must agree on what that model is. A worker that does not is
//! named when it joins, with everybody who disagrees: it is served all the same, since who is right cannot be told.

use std::collections::BTreeMap;

use kvroute_core::WorkerId;
use kvroute_engine::{ComparedWorker, Contradiction, Probe, WorkerClaims, contradictions};
use parking_lot::Mutex;

use crate::config::PoolConfig;
use crate::worker::Worker;

/// The members of one pool, as they answered when they joined.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    members: Mutex<BTreeMap<WorkerId, Compared>>,
}

#[derive(Debug)]
struct Compared {
    probe: Probe,
    told: WorkerClaims,
}

// === impl Comparison ===

impl Comparison {
    /// A worker joins: what it says is compared with what its configuration and the others say.
    pub(crate) fn joined(&self, worker: &Worker, probe: &Probe, pool: &PoolConfig) {
        let config = worker.config();
        let told = WorkerClaims {
            role: Some(config.role),
            block_size: pool.block_size,
            dp_ranks: config.dp_ranks,
            block_size_in_events: None,
        };
        for found in self.with(worker.id(), Compared { probe: probe.clone(), told }) {
            tracing::warn!(
                worker = %worker.id(), contradiction = %found, remedy = found.kind.remedy(),
                "worker contradicts what is said of it, or another worker"
            );
        }
    }

    /// It leaves.
    pub(crate) fn left(&self, worker: &WorkerId) {
        self.members.lock().remove(worker);
    }

    fn with(&self, id: &WorkerId, compared: Compared) -> Vec<Contradiction> {
        let mut members = self.members.lock();
        members.insert(id.clone(), compared);
        let all: Vec<_> = members
            .iter()
            .map(|(id, member)| ComparedWorker { name: id.as_str(), probe: &member.probe, told: member.told })
            .collect();
        let mut found = contradictions(&all);
        found.retain(|contradiction| contradiction.workers.iter().any(|name| name == id.as_str()));
        found
    }
}
