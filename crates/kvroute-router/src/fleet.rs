//! The ranks of a pool at one moment, and which of them take which part of a request.

use std::collections::BTreeSet;
use std::sync::Arc;

use kvroute_core::{BlockSize, Phase, RankSlot, WorkerRole};
use kvroute_engine::EngineKind;

use crate::rank::Rank;

/// The ranks of one moment. A decision sees one fleet from start to end.
#[derive(Debug, Default)]
pub(crate) struct Fleet {
    /// In the order in which they joined.
    pub(crate) ranks: Vec<Arc<Rank>>,
    /// Their slots, in the same order.
    pub(crate) slots: Vec<RankSlot>,
    /// Further names that they serve the model by: their adapters, each as long as one of them has it.
    pub(crate) adapters: BTreeSet<String>,
    /// The ranks that take attempts of each phase; `None` where every rank takes whole requests.
    by_phase: Option<Box<[Fleet; Phase::ALL.len()]>>,
}

// === impl Fleet ===

impl Fleet {
    /// A fleet of these ranks.
    pub(crate) fn of(ranks: Vec<Arc<Rank>>) -> Self {
        let has_roles = ranks.iter().any(|rank| rank.role != WorkerRole::Aggregated);
        let taking = |phase| ranks.iter().filter(move |rank| rank.takes(phase)).cloned().collect();
        let by_phase = has_roles.then(|| Box::new(Phase::ALL.map(|phase| Self::undivided(taking(phase)))));
        Self { by_phase, ..Self::undivided(ranks) }
    }

    fn undivided(ranks: Vec<Arc<Rank>>) -> Self {
        let slots = ranks.iter().map(|rank| rank.slot).collect();
        let adapters = ranks.iter().flat_map(|rank| &rank.adapters).cloned().collect();
        Self { ranks, slots, adapters, by_phase: None }
    }

    /// The ranks that could take an attempt of this phase.
    pub(crate) fn of_phase(&self, phase: Phase) -> &Self {
        self.by_phase.as_ref().map_or(self, |fleets| &fleets[phase as usize])
    }

    /// Whether a rank that computes prompts has one beside it that takes over from such an engine, both of that sort.
    pub(crate) fn has_pair(&self, is_meant: impl Fn(&Rank) -> bool) -> bool {
        let meant = |phase| self.of_phase(phase).ranks.iter().filter(|rank| is_meant(rank));
        meant(Phase::Prefill)
            .any(|prefill| meant(Phase::Decode).any(|decode| decode.engine == prefill.engine))
    }

    /// The kinds of engines whose KV a decode worker takes over now.
    pub(crate) fn takers(&self) -> Vec<EngineKind> {
        let decodes = self.of_phase(Phase::Decode).ranks.iter().filter(|rank| rank.worker.takes_requests());
        let mut kinds: Vec<_> = decodes.map(|rank| rank.engine).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    /// Whether its ranks have different roles, so that not every one takes every attempt.
    pub(crate) const fn is_divided(&self) -> bool {
        self.by_phase.is_some()
    }

    /// The distinct block sizes of its ranks.
    pub(crate) fn block_sizes(&self) -> Vec<BlockSize> {
        let sizes: BTreeSet<_> = self.ranks.iter().map(|rank| rank.block_size()).collect();
        sizes.into_iter().collect()
    }
}
