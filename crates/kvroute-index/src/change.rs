//! One change of the index: blocks of one rank come and go by their engine's names.

use kvroute_core::{BlockHash, PrefixHasher, RankSlot, Removal, RemovalCause, SequenceHash, Tier};

use crate::engine_key::{EngineBlock, EngineKey};
use crate::holder::Held;
use crate::rank::Rank;
use crate::run::{Location, RunId};
use crate::shelf::Shelf;
use crate::store::{PIECE, Span};
use crate::writer::Writer;
use crate::{Applied, ExportedBlock};

/// A change under way: what it did so far, and who lost a block by it.
#[derive(Debug)]
pub(crate) struct Change<'a> {
    pub(crate) shelf: &'a Shelf,
    pub(crate) writer: &'a mut Writer,
    pub(crate) slot: RankSlot,
    pub(crate) cause: RemovalCause,
    pub(crate) applied: Applied,
    pub(crate) gone: Vec<Removal>,
    /// Ranks whose figures changed, this one excepted.
    pub(crate) others: Vec<RankSlot>,
}

/// Consecutive names whose blocks leave one run together.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    run: RunId,
    from: u32,
    to: u32,
}

// === impl Change ===

impl<'a> Change<'a> {
    pub(crate) fn new(shelf: &'a Shelf, writer: &'a mut Writer, slot: RankSlot, cause: RemovalCause) -> Self {
        let (applied, gone, others) = (Applied::default(), Vec::new(), Vec::new());
        Self { shelf, writer, slot, cause, applied, gone, others }
    }

    pub(crate) fn rank(&self) -> Option<&Rank> {
        self.writer.rank(self.slot)
    }

    /// The sequence that an engine's name stands for.
    pub(crate) fn sequence_of(&self, key: EngineKey) -> Option<SequenceHash> {
        self.rank()?.sequence_of(self.shelf, key)
    }

    /// Takes copies off a tier.
    pub(crate) fn remove(&mut self, tier: Tier, mut keys: impl Iterator<Item = EngineKey> + Clone) {
        let mut leaving: Option<Leaving> = None;
        let mut places = [None; PIECE];
        loop {
            let piece = keys.clone();
            let named = self.unname_all(tier, &mut keys, &mut places);
            for (key, at) in piece.zip(&places[..named]) {
                let Some(at) = *at else {
                    self.remove_waiting(EngineBlock { tier, key });
                    continue;
                };
                self.applied.removed += 1;
                if self.has_further_copy(tier, at) {
                    continue;
                }
                if !leaving.as_mut().is_some_and(|leaving| leaving.takes(at)) {
                    let before = leaving.replace(Leaving::one(at));
                    self.leave(tier, before);
                }
            }
            if named < PIECE {
                break;
            }
        }
        self.leave(tier, leaving);
    }

    /// Takes copies off a tier without counting them as removed.
    pub(crate) fn forget(&mut self, tier: Tier, keys: impl Iterator<Item = EngineKey> + Clone) {
        let removed = self.applied.removed;
        self.remove(tier, keys);
        self.applied.removed = removed;
    }

    /// Takes a rank off the whole of a run's tier.
    pub(crate) fn leave_run(&mut self, tier: Tier, run: RunId) {
        let to = self.shelf.runs.state(run).len();
        let holds = |at: &u32| self.shelf.holds(Location::new(run, *at), self.slot, tier);
        let held: Vec<u32> = (0..to).filter(holds).collect();
        for at in held {
            self.tell(tier, Location::new(run, at));
        }
        self.writer.store.remove(self.shelf, Span { slot: self.slot, tier, run, from: 0, to });
    }

    /// Moves a copy between tiers.
    pub(crate) fn relocate(&mut self, key: EngineKey, from: Tier, to: Tier) {
        let Some(at) = self.rank().and_then(|rank| rank.names[from.index()].get(key)) else {
            self.applied.unknown += 1;
            return;
        };
        if from == to {
            return;
        }
        let rank = self.rank();
        if rank.is_some_and(|rank| rank.names[to.index()].get(key).is_some()) {
            self.applied.duplicate += 1;
        } else {
            self.hold_at(to, at);
            self.name(to, key, at);
            self.applied.stored += 1;
        }
        if let Some(rank) = self.writer.rank_mut(self.slot)
            && rank.orphans.remove(EngineBlock { tier: to, key })
        {
            self.writer.orphans -= 1;
        }
        self.remove(from, std::iter::once(key));
    }

    /// Sets a block aside until its parent arrives; beyond the limit the oldest ones are forgotten.
    pub(crate) fn set_aside(&mut self, block: EngineBlock, parent: EngineKey, content: BlockHash) {
        let limit = self.writer.orphan_limit;
        let has_room = self.writer.has_room_for_orphan();
        let Some(rank) = self.writer.rank_mut(self.slot) else { return };
        let before = rank.orphans.len().get() as usize;
        if !rank.orphans.insert(block, parent, content) {
            self.applied.duplicate += 1;
            return;
        }
        self.applied.orphaned += 1;
        let limit = if has_room { limit } else { limit.min(before) };
        self.applied.dropped += rank.orphans.limit_to(limit);
        let after = rank.orphans.len().get() as usize;
        self.writer.orphans = self.writer.orphans + after - before;
    }

    /// Stores every waiting block that `key`, whose block is at a location, makes known.
    pub(crate) fn settle(&mut self, tier: Tier, key: EngineKey, sequence: SequenceHash) {
        let Some(rank) = self.writer.rank_mut(self.slot) else { return };
        if rank.orphans.is_empty() {
            return;
        }
        if rank.orphans.remove(EngineBlock { tier, key }) {
            self.writer.orphans -= 1;
        }
        let mut known = vec![(key, sequence)];
        while let Some((parent, meaning)) = known.pop() {
            for same_name in Tier::ALL.map(|tier| EngineBlock { tier, key: parent }) {
                if self.take_waiting(same_name) {
                    self.store_child(None, same_name, meaning);
                }
            }
            let Some(rank) = self.writer.rank_mut(self.slot) else { return };
            let children = rank.orphans.take_children(parent);
            self.writer.orphans -= children.len();
            for (child, content) in children {
                let child_meaning = PrefixHasher::after(meaning).push(content);
                self.store_child(Some((parent, meaning)), child, child_meaning);
                known.push((child.key, child_meaning));
            }
        }
    }

    /// Gives a name to a block's copy that has none on that tier.
    pub(crate) fn name(&mut self, tier: Tier, key: EngineKey, at: Location) -> bool {
        let Some(rank) = self.writer.rank_mut(self.slot) else { return false };
        let names = &mut rank.names[tier.index()];
        let before = names.bytes();
        let is_new = names.insert(key, at);
        let after = names.bytes();
        self.writer.table_bytes = self.writer.table_bytes + after - before;
        self.writer.names += usize::from(is_new);
        self.writer.lower += usize::from(is_new && tier != Tier::Device);
        is_new
    }

    /// Gives names to consecutive blocks of a run, up to the first name that is in use. Returns how many.
    pub(crate) fn name_all(&mut self, tier: Tier, start: Location, blocks: &[ExportedBlock]) -> usize {
        let Some(rank) = self.writer.rank_mut(self.slot) else { return 0 };
        let names = &mut rank.names[tier.index()];
        let before = names.bytes();
        let touched =
            blocks.iter().fold(0, |all, block| all ^ names.touch(EngineKey::from_raw(block.engine_key)));
        std::hint::black_box(touched);
        let mut named = 0;
        for (block, offset) in blocks.iter().zip(start.offset()..) {
            if !names.insert(EngineKey::from_raw(block.engine_key), Location::new(start.run(), offset)) {
                break;
            }
            named += 1;
        }
        let after = names.bytes();
        self.writer.table_bytes = self.writer.table_bytes + after - before;
        self.writer.names += named;
        self.writer.lower += if tier == Tier::Device { 0 } else { named };
        named
    }

    /// Notes that the rank holds a block once more.
    pub(crate) fn hold_at(&mut self, tier: Tier, at: Location) {
        if self.shelf.holds(at, self.slot, tier) {
            self.writer.store.touch(self.shelf, at.run());
            *self.writer.copies.entry(Writer::copies_of(self.slot, tier, at)).or_default() += 1;
            if let Some(rank) = self.writer.rank_mut(self.slot) {
                rank.further[tier.index()] += 1;
            }
            return;
        }
        let (from, to) = (at.offset(), at.offset() + 1);
        self.writer.store.add(self.shelf, Span { slot: self.slot, tier, run: at.run(), from, to });
    }

    /// Notes that the figures of the rank at hand changed.
    pub(crate) fn finish_rank(&mut self) {
        self.others.push(self.slot);
    }

    /// Takes the next few names away, and tells what they stood for. Returns how many there were.
    fn unname_all(
        &mut self,
        tier: Tier,
        keys: &mut (impl Iterator<Item = EngineKey> + Clone),
        places: &mut [Option<Location>; PIECE],
    ) -> usize {
        let rank = self.writer.ranks.get_mut(self.slot.index()).and_then(Option::as_deref_mut);
        let Some(rank) = rank else {
            let count = keys.take(PIECE).count();
            places[..count].fill(None);
            return count;
        };
        let names = &mut rank.names[tier.index()];
        let (bytes, len) = (names.bytes(), names.len());
        std::hint::black_box(keys.clone().take(PIECE).fold(0, |all, key| all ^ names.touch(key)));
        let mut count = 0;
        for (place, key) in places.iter_mut().zip(&mut *keys) {
            *place = names.remove(key);
            count += 1;
        }
        let (freed, removed) = (bytes - names.bytes(), len - names.len());
        self.writer.table_bytes -= freed;
        self.writer.names -= removed;
        self.writer.lower -= if tier == Tier::Device { 0 } else { removed };
        count
    }

    fn remove_waiting(&mut self, block: EngineBlock) {
        if self.take_waiting(block) {
            self.applied.removed += 1;
        } else {
            self.applied.unknown += 1;
        }
    }

    fn take_waiting(&mut self, block: EngineBlock) -> bool {
        let is_taken = self.writer.rank_mut(self.slot).is_some_and(|rank| rank.orphans.remove(block));
        self.writer.orphans -= usize::from(is_taken);
        is_taken
    }

    #[inline]
    fn has_further_copy(&mut self, tier: Tier, at: Location) -> bool {
        !self.writer.copies.is_empty() && self.take_further_copy(tier, at)
    }

    fn take_further_copy(&mut self, tier: Tier, at: Location) -> bool {
        let copies = Writer::copies_of(self.slot, tier, at);
        let Some(count) = self.writer.copies.get_mut(&copies) else { return false };
        *count -= 1;
        if *count == 0 {
            self.writer.copies.remove(&copies);
        }
        if let Some(rank) = self.writer.rank_mut(self.slot) {
            rank.further[tier.index()] -= 1;
        }
        true
    }

    fn leave(&mut self, tier: Tier, leaving: Option<Leaving>) {
        let Some(Leaving { run, from, to }) = leaving else { return };
        let is_segmented = matches!(self.shelf.runs.state(run).holder().held(), Held::Segments(_));
        if is_segmented && self.rank().is_some_and(|rank| rank.has_other_tiers(tier)) {
            (from..to).for_each(|at| self.tell(tier, Location::new(run, at)));
        } else {
            let Self { shelf, slot, cause, .. } = *self;
            let place = shelf.runs.place(run);
            let removal = |at| Removal { slot, sequence: shelf.runs.hash(place, at), cause };
            self.gone.extend((from..to).map(removal));
        }
        self.writer.store.remove(self.shelf, Span { slot: self.slot, tier, run, from, to });
    }

    /// Tells that a block leaves the rank, unless another tier holds it.
    fn tell(&mut self, tier: Tier, at: Location) {
        // Only segments can speak of several tiers.
        let is_segmented = matches!(self.shelf.runs.state(at.run()).holder().held(), Held::Segments(_));
        let is_elsewhere = is_segmented
            && Tier::ALL.into_iter().any(|other| other != tier && self.shelf.holds(at, self.slot, other));
        if !is_elsewhere {
            let sequence = self.shelf.runs.sequence(at);
            self.gone.push(Removal { slot: self.slot, sequence, cause: self.cause });
        }
    }
}

// === impl Leaving ===

impl Leaving {
    fn one(at: Location) -> Self {
        Self { run: at.run(), from: at.offset(), to: at.offset() + 1 }
    }

    /// Takes a neighbour in; false if it is none.
    fn takes(&mut self, at: Location) -> bool {
        if at.run() != self.run {
            return false;
        }
        if at.offset() == self.to {
            self.to += 1;
            return true;
        }
        if at.offset() + 1 == self.from {
            self.from -= 1;
            return true;
        }
        false
    }
}
