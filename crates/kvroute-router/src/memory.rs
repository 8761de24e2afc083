//! The router's own memory of one rank whose engine tells nothing.
//!
//! What was placed there is taken for cached until its time is up, its place is needed, or the engine's report says
//! otherwise. It is an estimate, and its state says so.

use std::time::Duration;

use kvroute_core::{AttemptId, Blocks, PromptBlocks, RankSlot, Removal, RemovalCause};
use kvroute_index::{RememberedCounts, RememberedRank, ReportedIndex, ReportedReuse};
use kvroute_metrics::RememberedMetrics;
use parking_lot::Mutex;

use crate::knowledge::Knowledge;

/// What the router placed on one rank.
#[derive(Debug)]
pub(crate) struct Memory {
    remembered: Mutex<Remembered>,
    /// The rank as it was before anything was placed there.
    blank: RememberedRank,
    metrics: RememberedMetrics,
}

/// The memory, and its counts as they were last shown.
#[derive(Debug)]
struct Remembered {
    rank: RememberedRank,
    shown: RememberedCounts,
    /// The rank left: what its last attempts still tell must not reach the slot's next owner.
    is_closed: bool,
}

// === impl Memory ===

impl Memory {
    /// Nothing was placed yet.
    pub(crate) fn new(rank: RememberedRank, metrics: RememberedMetrics) -> Self {
        let blank = rank.clone();
        let remembered = Remembered { rank, shown: RememberedCounts::default(), is_closed: false };
        Self { remembered: Mutex::new(remembered), blank, metrics }
    }

    /// The worker took an attempt with these prompts.
    pub(crate) fn placed(&self, knowledge: &Knowledge, attempt: AttemptId, prompts: &[PromptBlocks]) {
        self.change(knowledge, |rank, index, now, gone| {
            for prompt in prompts {
                rank.placed(index, attempt, prompt, now, gone);
            }
        });
    }

    /// The attempt's prompts are computed, and its answers fill so many blocks by now.
    pub(crate) fn grew(&self, knowledge: &Knowledge, attempt: AttemptId, output: Blocks) {
        self.change(knowledge, |rank, index, now, gone| rank.grew(index, attempt, output, now, gone));
    }

    /// The attempt is over.
    pub(crate) fn finished(&self, knowledge: &Knowledge, attempt: AttemptId) {
        self.change(knowledge, |rank, _, now, _| rank.finished(attempt, now));
    }

    /// The engine said what it reused of an attempt.
    pub(crate) fn reported(&self, knowledge: &Knowledge, attempt: AttemptId, reuse: ReportedReuse) {
        self.change(knowledge, |rank, index, now, gone| {
            let _correction = rank.reported(index, attempt, reuse, now, gone);
        });
    }

    /// Forgets what nobody asked for in time.
    pub(crate) fn expire(&self, knowledge: &Knowledge) {
        self.change(knowledge, |rank, index, now, gone| rank.expire(index, now, gone));
    }

    /// The worker was away: another process may serve there now, and its cache is empty.
    pub(crate) fn forget(&self, knowledge: &Knowledge, slot: RankSlot) {
        let mut remembered = self.remembered.lock();
        if remembered.is_closed {
            return;
        }
        knowledge.change(|index, mut gone| index.clear(slot, RemovalCause::Forgotten, &mut gone));
        remembered.rank = self.blank.clone();
        remembered.shown = RememberedCounts::default();
        self.metrics.set_blocks(Blocks::ZERO);
    }

    /// The rank leaves: from now on nothing is remembered.
    pub(crate) fn close(&self) {
        self.remembered.lock().is_closed = true;
        self.metrics.close();
    }

    fn change(
        &self,
        knowledge: &Knowledge,
        change: impl FnOnce(&mut RememberedRank, &ReportedIndex, Duration, &mut &mut dyn FnMut(Removal)),
    ) {
        let now = knowledge.now();
        let mut remembered = self.remembered.lock();
        if remembered.is_closed {
            return;
        }
        knowledge.change(|index, mut gone| change(&mut remembered.rank, index, now, &mut gone));
        self.show(&mut remembered);
    }

    fn show(&self, remembered: &mut Remembered) {
        let counts = remembered.rank.counts();
        let before = std::mem::replace(&mut remembered.shown, counts);
        self.metrics.set_blocks(remembered.rank.blocks());
        self.metrics.evicted(counts.evicted - before.evicted);
        self.metrics.fallbacks(counts.fallbacks - before.fallbacks);
        self.metrics.output_batches(counts.output_batches - before.output_batches);
        self.metrics.rejected(counts.rejected - before.rejected);
    }
}

#[cfg(test)]
mod tests {
    use kvroute_core::{BlockSize, DpRank, Namespace, WorkerId, WorkerRank};
    use kvroute_metrics::{Metrics, MetricsOptions};

    use super::*;

    fn memory(slot: RankSlot) -> Memory {
        let metrics = Metrics::new(&MetricsOptions::default()).unwrap();
        let name = WorkerRank::new(WorkerId::new("w"), DpRank::new(0));
        let remembered = RememberedRank::new(slot, BlockSize::DEFAULT, Duration::from_secs(120), None);
        Memory::new(remembered, metrics.remembered(&name))
    }

    fn prompt() -> PromptBlocks {
        PromptBlocks::new(&[7; 64], BlockSize::DEFAULT, Namespace::DEFAULT)
    }

    #[test]
    fn a_restarted_engine_kept_what_the_old_process_had() {
        let (slot, knowledge) = (RankSlot::new(0), Knowledge::new(64 << 20));
        let memory = memory(slot);
        memory.placed(&knowledge, AttemptId::new(1), &[prompt()]);
        memory.grew(&knowledge, AttemptId::new(1), Blocks::new(1));
        assert_eq!(knowledge.index().blocks(slot), Blocks::new(4));
        memory.forget(&knowledge, slot);
        memory.finished(&knowledge, AttemptId::new(1));
        assert_eq!(knowledge.index().blocks(slot), Blocks::ZERO);
        memory.placed(&knowledge, AttemptId::new(2), &[prompt()]);
        memory.grew(&knowledge, AttemptId::new(2), Blocks::new(1));
        assert_eq!(knowledge.index().blocks(slot), Blocks::new(4));
    }

    #[test]
    fn an_attempt_that_outlived_its_rank_wrote_into_the_next_owners_slot() {
        let (slot, knowledge) = (RankSlot::new(0), Knowledge::new(64 << 20));
        let memory = memory(slot);
        let attempt = AttemptId::new(1);
        memory.placed(&knowledge, attempt, &[prompt()]);
        memory.close();
        knowledge.remove(slot);
        memory.grew(&knowledge, attempt, Blocks::new(1));
        memory.finished(&knowledge, attempt);
        assert_eq!(knowledge.index().blocks(slot), Blocks::ZERO);
    }
}
