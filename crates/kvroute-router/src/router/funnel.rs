//! The funnel of every pool, now and in the last minutes. Whoever reads it holds up nobody: the counters are atomic, and the
//! lock of the readings is taken by readers only.

use std::collections::BTreeMap;
use std::sync::Arc;

use kvroute_core::ModelName;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{Router, Shared};
use crate::funnel_report::FunnelReport;
use crate::funnel_window::{FunnelSpan, FunnelWindow, Funnels, READ_EVERY};
use crate::history::Reach;
use crate::pool::Pool;

/// The readings, and since when they are taken.
#[derive(Debug)]
pub(super) struct FunnelReadings {
    started: Instant,
    window: Mutex<FunnelWindow>,
}

// === impl FunnelReadings ===

impl FunnelReadings {
    /// From now on.
    pub(super) fn start() -> Self {
        Self { started: Instant::now(), window: Mutex::new(FunnelWindow::new()) }
    }
}

// === impl Router ===

impl Router {
    /// The funnel of every model and phase over a span of time, as `GET /api/funnel` tells it.
    pub fn funnel(&self, span: FunnelSpan) -> FunnelReport {
        let FunnelReadings { started, window } = &self.shared.funnel;
        let window = window.lock();
        let funnels = self.shared.funnels();
        let (covered, difference) = window.difference(started.elapsed(), &funnels, span);
        FunnelReport::of(covered, &difference, &self.shared.reaches())
    }
}

// === impl Shared ===

impl Shared {
    fn funnels(&self) -> Funnels {
        let pools = self.pools.load();
        let read = pools.iter().map(|pool| (pool.model().clone(), Arc::new(pool.metrics().funnel())));
        read.collect::<BTreeMap<_, _>>()
    }

    fn reaches(&self) -> BTreeMap<ModelName, Reach> {
        let pools = self.pools.load();
        let reach = |pool: &Arc<Pool>| Some((pool.model().clone(), pool.history()?.reach()));
        pools.iter().filter_map(reach).collect()
    }

    fn read_funnel(&self) {
        let mut window = self.funnel.window.lock();
        window.take(self.funnel.started.elapsed(), self.funnels());
    }
}

/// Takes readings until told to stop.
pub(super) async fn read_often(shared: Arc<Shared>, stop: CancellationToken) {
    while stop.run_until_cancelled(sleep(READ_EVERY)).await.is_some() {
        shared.read_funnel();
    }
}

#[cfg(test)]
mod tests;
