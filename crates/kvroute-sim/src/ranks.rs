//! The data-parallel ranks of one process: each has a scheduler, a cache and events of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::runner::{EngineHandle, Told};
use crate::stats::EngineStats;

/// The ranks, at least one, in order.
#[derive(Clone, Debug)]
pub(crate) struct Ranks {
    handles: Arc<[EngineHandle]>,
    /// How many requests picked none.
    unsteered: Arc<AtomicUsize>,
}

// === impl Ranks ===

impl Ranks {
    pub(crate) fn new(handles: Vec<EngineHandle>) -> Self {
        Self { handles: handles.into(), unsteered: Arc::default() }
    }

    /// The rank that was picked, which must exist; without a pick the next one in turn.
    pub(crate) fn of(&self, pick: Option<u32>) -> EngineHandle {
        let in_turn = || self.unsteered.fetch_add(1, Ordering::Relaxed);
        let rank = pick.map_or_else(in_turn, |rank| rank as usize);
        self.handles[rank % self.handles.len()].clone()
    }

    /// Every rank, in order.
    pub(crate) fn all(&self) -> &[EngineHandle] {
        &self.handles
    }

    /// The counters of all together.
    pub(crate) fn stats(&self) -> EngineStats {
        EngineStats::sum(self.handles.iter().map(EngineHandle::stats))
    }

    /// Empties every cache; false when one of them refused.
    pub(crate) async fn reset_caches(&self, preempt_running: bool) -> bool {
        let mut are_reset = true;
        for handle in self.handles.iter() {
            are_reset &= handle.reset_cache(preempt_running).await;
        }
        are_reset
    }

    /// Empties every cache and publishes that at once; false when something runs or waits, and nothing is done.
    pub(crate) async fn flush_caches(&self) -> bool {
        let stats = self.stats();
        if stats.running + stats.waiting + stats.kv_blocks_held > 0 {
            return false;
        }
        self.empty_caches(Told::AtOnce).await;
        true
    }

    /// Empties every cache at any price.
    pub(crate) async fn empty_caches(&self, told: Told) {
        for handle in self.handles.iter() {
            handle.empty_cache(told).await;
        }
    }
}
