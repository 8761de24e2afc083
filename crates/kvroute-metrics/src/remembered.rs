//! What is special about a rank without events, whose cache the router only remembers. Its state and its blocks
//! in the index are shown as those of any source, by [`SourceMetrics`](crate::SourceMetrics).

use kvroute_core::{Blocks, WorkerRank};
use prometheus::{IntCounter, IntGauge};

use crate::RejectReason;
use crate::families::Families;
use crate::series::Scope;

/// Handles of one remembered rank; closing or dropping it removes the series.
#[derive(Debug)]
pub struct RememberedMetrics {
    blocks: IntGauge,
    evicted: IntCounter,
    fallbacks: IntCounter,
    output_batches: IntCounter,
    rejected: IntCounter,
    series: Scope,
}

// === impl RememberedMetrics ===

impl RememberedMetrics {
    pub(crate) fn new(families: &Families, rank: &WorkerRank) -> Self {
        let mut scope = Scope::default();
        let dp_rank = rank.dp_rank.to_string();
        let pair = [rank.worker.as_str(), &dp_rank];
        Self {
            blocks: scope.hold(&families.remembered_blocks, pair),
            evicted: scope.hold(&families.remembered_evicted, pair),
            fallbacks: scope.hold(&families.remembered_fallbacks, pair),
            output_batches: scope.hold(&families.remembered_output_batches, pair),
            rejected: scope
                .hold(&families.blocks_rejected, [pair[0], pair[1], RejectReason::Rejected.as_str()]),
            series: scope,
        }
    }

    /// Shows how many blocks the rank is thought to hold.
    pub fn set_blocks(&self, blocks: Blocks) {
        self.blocks.set(blocks.get().cast_signed());
    }

    /// Counts blocks that were let go to make room.
    pub fn evicted(&self, blocks: u64) {
        self.evicted.inc_by(blocks);
    }

    /// Counts prompts that are remembered by time, because no capacity is known.
    pub fn fallbacks(&self, prompts: u64) {
        self.fallbacks.inc_by(prompts);
    }

    /// Counts the times that an answer took further blocks.
    pub fn output_batches(&self, count: u64) {
        self.output_batches.inc_by(count);
    }

    /// Counts prompts that could not be remembered, because they are cut by another block size.
    pub fn rejected(&self, prompts: u64) {
        self.rejected.inc_by(prompts);
    }

    /// The rank has left: its series go now, though attempts that it still serves hold it.
    pub fn close(&self) {
        self.series.close();
    }
}
