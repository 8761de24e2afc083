//! What outlives the router: the index and the histories, written to their files now and then, and at the end.

use std::sync::Arc;

use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::Shared;
use crate::snapshots::SAVE_INTERVAL;

// === impl Shared ===

impl Shared {
    fn save_snapshots(&self) {
        let _one_at_a_time = self.saving.lock();
        let pools = self.pools.load();
        for plan in &self.plans {
            let made: Vec<_> = pools.iter().filter(|pool| pool.is_of(plan)).cloned().collect();
            if let Some(file) = &plan.snapshot {
                file.save(&made);
            }
            if let Some(file) = &plan.history {
                let histories: Vec<_> = made.iter().filter_map(|pool| pool.history().cloned()).collect();
                file.save(&histories);
            }
        }
    }
}

/// Writes the snapshots now and then until told to stop.
pub(super) async fn save_often(shared: Arc<Shared>, stop: CancellationToken) {
    while stop.run_until_cancelled(sleep(SAVE_INTERVAL)).await.is_some() {
        save(&shared).await;
    }
}

/// Writes the snapshots.
pub(super) async fn save(shared: &Arc<Shared>) {
    let shared = Arc::clone(shared);
    if let Err(error) = spawn_blocking(move || shared.save_snapshots()).await {
        tracing::warn!(%error, "snapshots were not written");
    }
}
