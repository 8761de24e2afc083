//! Everything that is known of one rank by its engine's names.

use kvroute_core::{BlockSize, Blocks, SequenceHash, Tier};

use crate::engine_key::EngineKey;
use crate::names::Names;
use crate::orphans::Orphans;
use crate::run::Location;
use crate::shelf::Shelf;

/// One rank's blocks by the engine's names, and those that wait for their parent.
///
/// In a rank, an engine's name stands for one sequence, on whichever tiers; a waiting block's name, and its
/// parent's, stand for none.
#[derive(Debug, Default)]
pub(crate) struct Rank {
    pub(crate) block_size: Option<BlockSize>,
    pub(crate) names: [Names; Tier::ALL.len()],
    pub(crate) orphans: Orphans,
    /// Names beyond the first one of a block, by tier.
    pub(crate) further: [u64; Tier::ALL.len()],
    /// Shard from which the budget evicted last, by tier.
    pub(crate) hand: [usize; Tier::ALL.len()],
    /// Its blocks are being forgotten piece by piece.
    pub(crate) is_draining: bool,
}

// === impl Rank ===

impl Rank {
    /// Takes the size of a new event; false if it contradicts blocks that are known. An empty rank may change
    /// its size: that is what a restart with other flags looks like.
    pub(crate) fn accept_block_size(&mut self, size: BlockSize) -> bool {
        if self.block_size == Some(size) {
            return true;
        }
        let is_empty = self.orphans.is_empty() && self.names.iter().all(Names::is_empty);
        if is_empty {
            self.block_size = Some(size);
        }
        is_empty
    }

    /// Distinct blocks held on a tier.
    pub(crate) fn held(&self, tier: Tier) -> Blocks {
        Blocks::new(self.names[tier.index()].len() as u64 - self.further[tier.index()])
    }

    /// Where the block of that name is, whichever tier holds it.
    pub(crate) fn locate(&self, key: EngineKey) -> Option<Location> {
        self.names.iter().find_map(|names| names.get(key))
    }

    /// The sequence that an engine's name stands for, whichever tier holds it.
    pub(crate) fn sequence_of(&self, shelf: &Shelf, key: EngineKey) -> Option<SequenceHash> {
        self.locate(key).map(|at| shelf.runs.sequence(at))
    }

    /// True if another tier than this one holds anything.
    pub(crate) fn has_other_tiers(&self, tier: Tier) -> bool {
        Tier::ALL.into_iter().any(|other| other != tier && !self.names[other.index()].is_empty())
    }

    /// Bytes of the tables.
    pub(crate) fn table_bytes(&self) -> usize {
        self.names.iter().map(Names::bytes).sum()
    }
}
