//! Blocks arrive: found where they are, or added where their parent is.

use std::collections::HashSet;

use kvroute_core::{Removal, SequenceHash, Tier};

use crate::ExportedBlock;
use crate::change::Change;
use crate::engine_key::{EngineBlock, EngineKey};
use crate::lineage::Parent;
use crate::run::{Location, RUN_LIMIT, RunId};
use crate::store::{PIECE, Span};

/// What stands before a block.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Behind {
    /// A block that is not in the index, or not known: the block can only head a run.
    Nothing,
    /// Nothing at all: the block begins a chain, and can only head a run.
    Root,
    /// A block.
    Block(Location, SequenceHash),
    /// The block itself is there already, whatever it stands behind.
    Here(Location),
}

// === impl Change ===

impl Change<'_> {
    /// Stores consecutive blocks. Returns what the next one stands behind.
    pub(crate) fn store(&mut self, tier: Tier, mut behind: Behind, blocks: &[ExportedBlock]) -> Behind {
        for piece in blocks.chunks(PIECE) {
            if !self.make_room(behind.run()) {
                self.applied.evicted += piece.len() as u64;
                return Behind::Nothing;
            }
            self.writer.count_stored(piece.len());
            behind = self.store_piece(tier, behind, piece);
        }
        if !self.gone.is_empty() {
            self.take_back(tier, blocks);
        }
        behind
    }

    /// Does not tell of blocks that left for the budget before these ones brought them back, nor twice of any.
    fn take_back(&mut self, tier: Tier, blocks: &[ExportedBlock]) {
        let Some(rank) = self.writer.rank(self.slot) else { return };
        let names = &rank.names[tier.index()];
        let is_held = |block: &&ExportedBlock| names.get(EngineKey::from_raw(block.engine_key)).is_some();
        let held: HashSet<SequenceHash> = blocks.iter().filter(is_held).map(|block| block.sequence).collect();
        let slot = self.slot;
        let mut told = HashSet::new();
        self.gone.retain(|Removal { slot: other, sequence, .. }| {
            *other != slot || !held.contains(sequence) && told.insert(*sequence)
        });
    }

    /// Stores one block behind another one of the rank, if that one is still there.
    pub(crate) fn store_child(
        &mut self,
        parent: Option<(EngineKey, SequenceHash)>,
        block: EngineBlock,
        sequence: SequenceHash,
    ) {
        let behind = parent.map_or(Behind::Nothing, |(key, meaning)| self.behind(key, meaning));
        if self.make_room(behind.run()) {
            self.store_one(block.tier, behind, &ExportedBlock { engine_key: block.key.get(), sequence });
        } else {
            self.applied.evicted += 1;
        }
    }

    /// What stands behind a name, if the rank holds its block.
    pub(crate) fn behind(&self, key: EngineKey, meaning: SequenceHash) -> Behind {
        match self.rank().and_then(|rank| rank.locate(key)) {
            Some(at) if self.shelf.runs.sequence(at) == meaning => Behind::Block(at, meaning),
            _ => Behind::Nothing,
        }
    }

    fn store_piece(&mut self, tier: Tier, mut behind: Behind, mut blocks: &[ExportedBlock]) -> Behind {
        let is_plain = self.rank().is_some_and(|rank| rank.orphans.is_empty() && !rank.has_other_tiers(tier));
        while let Some(first) = blocks.first() {
            let mut stored = if is_plain { self.store_stretch(tier, &mut behind, blocks) } else { 0 };
            if stored == 0 {
                behind = self.store_one(tier, behind, first);
                stored = 1;
                self.settle(tier, EngineKey::from_raw(first.engine_key), first.sequence);
            }
            blocks = &blocks[stored..];
        }
        behind
    }

    /// Stores leading blocks that are all in one run, or all new, and whose names are. Returns how many.
    fn store_stretch(&mut self, tier: Tier, behind: &mut Behind, blocks: &[ExportedBlock]) -> usize {
        let Some(at) = self.find(*behind, blocks[0].sequence) else {
            return self.store_new(tier, behind, blocks);
        };
        let known = self.shelf.matching(at, blocks.iter().map(|block| block.sequence));
        match self.store_held(tier, behind, at, &blocks[..known as usize]) {
            0 => self.store_known(tier, behind, at, &blocks[..known as usize]),
            held => held,
        }
    }

    /// Stores leading blocks that the rank holds there already, by the very names: what a prompt has in common with the
    /// one before it comes again with each turn.
    fn store_held(
        &mut self,
        tier: Tier,
        behind: &mut Behind,
        at: Location,
        blocks: &[ExportedBlock],
    ) -> usize {
        if !self.shelf.holds(at, self.slot, tier) {
            return 0;
        }
        let Some(rank) = self.rank() else { return 0 };
        let names = &rank.names[tier.index()];
        let named = blocks.iter().map(|block| EngineKey::from_raw(block.engine_key));
        std::hint::black_box(named.clone().fold(0, |all, key| all ^ names.touch(key)));
        let is_held = |(key, offset)| names.get(key) == Some(Location::new(at.run(), offset));
        let held = named.zip(at.offset()..).take_while(|place| is_held(*place)).count();
        if held == 0 {
            return 0;
        }
        self.writer.store.touch(self.shelf, at.run());
        self.applied.duplicate += held as u64;
        let last = Location::new(at.run(), at.offset() + held as u32 - 1);
        *behind = Behind::Block(last, blocks[held - 1].sequence);
        held
    }

    fn store_known(
        &mut self,
        tier: Tier,
        behind: &mut Behind,
        at: Location,
        blocks: &[ExportedBlock],
    ) -> usize {
        let unheld = self.writer.store.unheld(self.shelf, at, blocks.len() as u32, self.slot, tier);
        let named = self.name_all(tier, at, &blocks[..unheld as usize]);
        if named == 0 {
            return 0;
        }
        let (from, to) = (at.offset(), at.offset() + named as u32);
        self.writer.store.add(self.shelf, Span { slot: self.slot, tier, run: at.run(), from, to });
        *behind = Behind::Block(Location::new(at.run(), to - 1), blocks[named - 1].sequence);
        self.applied.stored += named as u64;
        named
    }

    fn store_new(&mut self, tier: Tier, behind: &mut Behind, blocks: &[ExportedBlock]) -> usize {
        let is_new = |block: &&ExportedBlock| self.shelf.head(block.sequence).is_none();
        let new = if self.writer.store.lineage.has_detached() {
            1 + blocks[1..].iter().take_while(is_new).count()
        } else {
            blocks.len()
        };
        let Some((start, added)) = self.add_new(tier, *behind, &blocks[..new]) else { return 0 };
        let named = self.name_all(tier, start, &blocks[..added as usize]);
        if named < added as usize {
            let (from, to) = (start.offset() + named as u32, start.offset() + added);
            self.writer.store.remove(self.shelf, Span { slot: self.slot, tier, run: start.run(), from, to });
        }
        if named > 0 {
            let last = Location::new(start.run(), start.offset() + named as u32 - 1);
            *behind = Behind::Block(last, blocks[named - 1].sequence);
            self.applied.stored += named as u64;
        }
        named
    }

    /// Adds leading blocks that are nowhere yet. Returns where the first one is, and how many were added.
    fn add_new(&mut self, tier: Tier, behind: Behind, blocks: &[ExportedBlock]) -> Option<(Location, u32)> {
        let hashes = blocks.iter().map(|block| block.sequence);
        let Self { shelf, writer, slot, .. } = self;
        if let Behind::Block(parent, _) = behind
            && writer.store.can_append(shelf, parent, *slot, tier)
        {
            let added = writer.store.append(shelf, parent.run(), hashes.clone(), *slot, tier);
            if added > 0 {
                return Some((Location::new(parent.run(), parent.offset() + 1), added));
            }
        }
        let run = writer.store.reserve_run(shelf)?;
        let hashes = hashes.take(RUN_LIMIT as usize);
        let added = writer.store.fill(shelf, (run, behind.parent()), hashes, *slot, tier);
        if added == 0 {
            writer.store.return_run(shelf, run);
            return None;
        }
        Some((Location::new(run, 0), added))
    }

    /// Stores one block whatever is known of its name. Returns what the next one stands behind.
    fn store_one(&mut self, tier: Tier, behind: Behind, block: &ExportedBlock) -> Behind {
        let key = EngineKey::from_raw(block.engine_key);
        if self.sequence_of(key).is_some_and(|meaning| meaning != block.sequence) {
            for other in Tier::ALL {
                let is_named = self.rank().is_some_and(|rank| rank.names[other.index()].get(key).is_some());
                if is_named {
                    self.forget(other, std::iter::once(key));
                }
            }
            self.applied.conflicting += 1;
        }
        if let Some(at) = self.rank().and_then(|rank| rank.names[tier.index()].get(key)) {
            self.writer.store.touch(self.shelf, at.run());
            self.applied.duplicate += 1;
            return Behind::Block(at, block.sequence);
        }
        let behind = self.still(behind);
        let named = self.rank().and_then(|rank| rank.locate(key));
        let at = match named.or_else(|| self.find(behind, block.sequence)) {
            Some(at) => {
                self.hold_at(tier, at);
                at
            }
            None => match self.add_new(tier, behind, std::slice::from_ref(block)) {
                Some((at, _)) => at,
                None => {
                    self.applied.evicted += 1;
                    return Behind::Nothing;
                }
            },
        };
        self.name(tier, key, at);
        self.applied.stored += 1;
        Behind::Block(at, block.sequence)
    }

    /// The same, unless that block left meanwhile.
    fn still(&self, behind: Behind) -> Behind {
        match behind {
            Behind::Block(at, sequence) if !self.shelf.is_at(at, sequence) => Behind::Nothing,
            _ => behind,
        }
    }

    /// Where a block is: right behind its parent or at the head of a run, there is no other place.
    fn find(&self, behind: Behind, sequence: SequenceHash) -> Option<Location> {
        let next = match behind {
            Behind::Nothing | Behind::Root => None,
            Behind::Block(at, _) => {
                let next = self.shelf.behind(at, sequence);
                if next.is_none() && !self.writer.store.lineage.may_branch(at) {
                    return None;
                }
                next
            }
            Behind::Here(at) => self.shelf.is_at(at, sequence).then_some(at),
        };
        next.or_else(|| self.shelf.head(sequence))
    }
}

// === impl Behind ===

impl Behind {
    fn run(self) -> Option<RunId> {
        match self {
            Self::Nothing | Self::Root => None,
            Self::Block(at, _) | Self::Here(at) => Some(at.run()),
        }
    }

    fn parent(self) -> Parent {
        match self {
            Self::Root => Parent::Root,
            Self::Block(at, _) => Parent::Block(at),
            Self::Nothing | Self::Here(_) => Parent::Unknown,
        }
    }
}
