//! The half of the index that lookups read, and how a block is found in it.

use kvroute_core::{RankSlot, SequenceHash, Tier};

use crate::cells::Cells;
use crate::heads::Heads;
use crate::holder::{Held, Holder};
use crate::run::{Location, Runs};
use crate::segments::SegmentCells;
use crate::sets::Sets;

/// The half of the index that lookups read.
#[derive(Debug)]
pub(crate) struct Shelf {
    pub(crate) runs: Runs,
    pub(crate) heads: Heads,
}

// === impl Shelf ===

impl Shelf {
    /// Empty, for at most so many chunks of cells.
    pub(crate) fn new(chunks: usize) -> Self {
        Self { runs: Runs::new(chunks), heads: Heads::new() }
    }

    /// The block that heads a run.
    pub(crate) fn head(&self, sequence: SequenceHash) -> Option<Location> {
        self.heads.find(sequence, |run| {
            let is_it = self.runs.state(run).len() > 0 && self.runs.hash(self.runs.place(run), 0) == sequence;
            is_it.then(|| Location::new(run, 0))
        })
    }

    /// True if that block is there.
    pub(crate) fn is_at(&self, at: Location, sequence: SequenceHash) -> bool {
        at.offset() < self.runs.state(at.run()).len() && self.runs.sequence(at) == sequence
    }

    /// The child of a block, if it is right behind it.
    pub(crate) fn behind(&self, at: Location, sequence: SequenceHash) -> Option<Location> {
        let offset = at.offset() + 1;
        let is_it = offset < self.runs.state(at.run()).len()
            && self.runs.hash(self.runs.place(at.run()), offset) == sequence;
        is_it.then(|| Location::new(at.run(), offset))
    }

    /// How many blocks from a location on are those.
    pub(crate) fn matching(&self, at: Location, hashes: impl Iterator<Item = SequenceHash>) -> u32 {
        let len = self.runs.state(at.run()).len();
        let place = self.runs.place(at.run());
        let pairs = (at.offset()..len).zip(hashes);
        pairs.take_while(|(offset, hash)| self.runs.hash(place, *offset) == *hash).count() as u32
    }

    /// Who holds a block on a tier. For writers only.
    pub(crate) fn holder(&self, at: Location, tier: Tier) -> Holder {
        let holder = self.runs.state(at.run()).holder();
        match holder.held() {
            Held::Segments(cell) => SegmentCells::of(&self.runs.cells, cell, tier)
                .iter(&self.runs.cells)
                .find(|segment| at.offset() < segment.end)
                .map_or(Holder::NOBODY, |segment| segment.holder),
            _ if tier == Tier::Device => holder,
            _ => Holder::NOBODY,
        }
    }

    /// True if a rank holds a block on a tier. For writers only.
    pub(crate) fn holds(&self, at: Location, slot: RankSlot, tier: Tier) -> bool {
        Sets::contains(&self.runs.cells, self.holder(at, tier), slot)
    }

    pub(crate) fn cells(&self) -> &Cells {
        &self.runs.cells
    }
}
