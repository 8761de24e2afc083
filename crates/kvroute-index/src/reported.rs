//! The exact index of reported blocks.
//!
//! A block's sequence follows from its parent's and its own tokens, so every event is understood with what
//! its rank said before. Holes stay exact because each block is held by itself: taking one out of the middle
//! shortens the prefix there, and the blocks behind count again once it returns.
//!
//! The same name stored again changes nothing, and one removal ends it. An engine that computed a block a second
//! time may hold it twice under one name and announce that one of the two left; but engines also repeat what is
//! known without holding it twice, and the events of both look the same. Believing the removal costs a prefix
//! that is there; not believing it would credit one that is not.
//!
//! Writers come one at a time; lookups take no lock and wait for nobody.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use kvroute_core::{
    BlockHash, BlockSize, Blocks, CachedTokens, HashedPrompts, KvEvent, PromptBlocks, RankSlot, Removal,
    RemovalCause, SequenceHash, StoredBlocks, Tier,
};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::board::Board;
use crate::cells::CHUNK;
use crate::change::Change;
use crate::engine_key::EngineKey;
use crate::holder::Holder;
use crate::lookup::DeviceWalk;
use crate::lookup_anywhere::HeldWalk;
use crate::lookup_tiers::TierWalk;
use crate::shelf::Shelf;
use crate::storing::Behind;
use crate::writer::Writer;
use crate::{Applied, ExportedBlock, Prefixes, RankExport};

/// What an index may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexOptions {
    /// Hard budget of this index in bytes, everything included; at least [`IndexOptions::MIN_BYTES`].
    pub bytes: usize,
    /// Blocks without a known parent that each rank may set aside.
    pub orphan_limit: usize,
}

/// What the ranks of one pool hold.
#[derive(Debug)]
pub struct ReportedIndex {
    shelf: Shelf,
    board: Board,
    writer: Mutex<Writer>,
    /// Told when a rank's blocks were all forgotten.
    drained: Condvar,
    /// What [`crate::run::RunPlace`] is marked with.
    era: AtomicU64,
    bytes: AtomicUsize,
    /// Copies on lower tiers, all ranks together.
    lower: AtomicUsize,
}

// === impl IndexOptions ===

impl IndexOptions {
    /// The smallest budget; a smaller one counts as this.
    pub const MIN_BYTES: usize = 1 << 20;
}

impl Default for IndexOptions {
    fn default() -> Self {
        Self { bytes: 1 << 30, orphan_limit: 4096 }
    }
}

// === impl ReportedIndex ===

impl ReportedIndex {
    /// An empty index.
    pub fn new(options: IndexOptions) -> Self {
        let budget = options.bytes.max(IndexOptions::MIN_BYTES);
        let most_chunks = Holder::CELL_LIMIT as usize / CHUNK;
        let chunks = (budget / 4 * 3 / (CHUNK * 8) + 16).min(most_chunks);
        let shelf = Shelf::new(chunks);
        let base = size_of::<Self>() + shelf.runs.directory_bytes() + Board::bytes();
        let writer = Writer::new(&shelf, budget, base, options.orphan_limit);
        let bytes = AtomicUsize::new(writer.bytes());
        let (board, drained, era, lower) =
            (Board::new(), Condvar::new(), AtomicU64::new(0), AtomicUsize::new(0));
        Self { shelf, board, writer: Mutex::new(writer), drained, era, bytes, lower }
    }

    /// Applies one event of a rank. Events of one rank come in the order in which its engine sent them.
    /// `gone` hears of every block that a rank holds on no tier any more, evictions for the budget included; it
    /// is called after the change and may use the index.
    pub fn apply(&self, slot: RankSlot, event: &KvEvent, gone: &mut impl FnMut(Removal)) -> Applied {
        match event {
            KvEvent::Stored(stored) => self.apply_stored(slot, stored, gone),
            KvEvent::Removed { hashes, tier } => self.change(slot, RemovalCause::Evicted, gone, |change| {
                change.remove(*tier, hashes.iter().map(EngineKey::from));
            }),
            KvEvent::Moved { hash, from, to } => self.change(slot, RemovalCause::Evicted, gone, |change| {
                change.relocate(EngineKey::from(hash), *from, *to);
            }),
            KvEvent::Cleared => {
                let removed = self.clear(slot, RemovalCause::Cleared, gone).get();
                Applied { removed, ..Applied::default() }
            }
        }
    }

    /// Stores consecutive blocks whose sequences are known already: what [`ReportedIndex::apply`] does once it
    /// has hashed the tokens. `parent` is the engine's name of the block before the first one; without it, the
    /// first one is at the root of its namespace.
    pub fn store(
        &self,
        slot: RankSlot,
        (block_size, tier): (BlockSize, Tier),
        parent: Option<u64>,
        blocks: &[ExportedBlock],
        gone: &mut impl FnMut(Removal),
    ) -> Applied {
        self.change(slot, RemovalCause::Evicted, gone, |change| {
            if !change.accept_block_size(block_size) {
                return;
            }
            let Some(parent) = parent.map(EngineKey::from_raw) else {
                change.store(tier, Behind::Root, blocks);
                return;
            };
            match change.rank().and_then(|rank| rank.locate(parent)) {
                Some(at) => {
                    let behind = Behind::Block(at, self.shelf.runs.sequence(at));
                    change.store(tier, behind, blocks);
                }
                None => change.import_run(tier, blocks),
            }
        })
    }

    /// Forgets every block of a rank, orphans included; keeps its block size. Returns the copies it held.
    pub fn clear(&self, slot: RankSlot, cause: RemovalCause, gone: &mut impl FnMut(Removal)) -> Blocks {
        self.drain(slot, cause, gone)
    }

    /// Forgets a rank and frees what it owned. Its slot may serve another rank afterwards.
    pub fn remove_rank(&self, slot: RankSlot, gone: &mut impl FnMut(Removal)) {
        self.drain(slot, RemovalCause::WorkerGone, gone);
        let mut writer = self.lock(slot);
        if writer.forget_rank(slot) {
            self.board.write(slot, Blocks::ZERO, Blocks::ZERO, None);
        }
        self.note_totals(&writer);
    }

    /// Notes that a rank without events holds the leading blocks of a prompt, on its device. Blocks are named by
    /// their own sequence hashes; those that are held already count as duplicates.
    pub fn hold(
        &self,
        slot: RankSlot,
        block_size: BlockSize,
        hashes: &[SequenceHash],
        gone: &mut impl FnMut(Removal),
    ) -> Applied {
        let named = |hash: &SequenceHash| ExportedBlock { engine_key: hash.get(), sequence: *hash };
        let blocks: Vec<ExportedBlock> = hashes.iter().map(named).collect();
        self.store(slot, (block_size, Tier::Device), None, &blocks, gone)
    }

    /// Takes blocks back that [`ReportedIndex::hold`] noted, in any order.
    pub fn release(
        &self,
        slot: RankSlot,
        hashes: &[SequenceHash],
        gone: &mut impl FnMut(Removal),
    ) -> Applied {
        self.change(slot, RemovalCause::Forgotten, gone, |change| {
            change.remove(Tier::Device, hashes.iter().map(|hash| EngineKey::from_raw(hash.get())));
        })
    }

    /// True if a rank holds a block, on whichever tier. Immediate for blocks that were noted by
    /// [`ReportedIndex::hold`]; a reported block may need a search through all that the rank holds, and writers
    /// wait for that.
    pub fn holds(&self, slot: RankSlot, hash: SequenceHash) -> bool {
        self.writer.lock().holds(&self.shelf, slot, hash)
    }

    /// Distinct blocks that a rank holds on its device.
    pub fn blocks(&self, slot: RankSlot) -> Blocks {
        self.board.blocks(slot)
    }

    /// Blocks of a rank that wait for their parent.
    pub fn orphans(&self, slot: RankSlot) -> Blocks {
        self.board.orphans(slot)
    }

    /// Block size that a rank's events showed; `None` before the first one.
    pub fn block_size(&self, slot: RankSlot) -> Option<BlockSize> {
        self.board.block_size(slot)
    }

    /// Bytes that the structure occupies, never above the budget. Memory that lookups may read is kept for reuse
    /// when blocks leave; tables of names are given back.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Finds the cached prefix of a prompt on every rank. Takes no lock, and waits for no writer.
    ///
    /// A block's identity contains its size, so a rank whose blocks have another size than the prompt's has an
    /// empty prefix: ask once a distinct size.
    pub fn cached_prefixes(&self, prompt: &PromptBlocks, found: &mut Prefixes) {
        let era = self.era.load(Relaxed) as u8;
        if self.lower.load(Relaxed) == 0 {
            DeviceWalk::run(&self.shelf, prompt.hashes(), self.board.slots(), era, found);
        } else {
            TierWalk::run(&self.shelf, prompt.hashes(), self.board.slots(), era, found);
        }
    }

    /// Whether some rank holds each block of a prompt from `first` on, on whichever tier, reachable for a prompt or
    /// not: behind a hole too. Takes no lock, and waits for no writer. `held` is replaced: one entry a block,
    /// `held[0]` is block `first`.
    ///
    /// Exact while nothing changes. A block that waits for its parent is not held, nor is one of another size.
    pub fn held_anywhere(&self, prompt: &PromptBlocks, first: usize, held: &mut Vec<bool>) {
        HeldWalk::run(&self.shelf, prompt.hashes(), first, held);
    }

    /// Cached prefix of all prompts of a request on each of `slots`, in their order, in raw tokens: summed a rank,
    /// prompt by prompt. `totals` is replaced; `found` is room to work in, kept by callers between lookups.
    pub fn cached_tokens(
        &self,
        prompts: &HashedPrompts,
        slots: &[RankSlot],
        found: &mut Prefixes,
        totals: &mut Vec<CachedTokens>,
    ) {
        totals.clear();
        totals.resize(slots.len(), CachedTokens::NONE);
        for (size, prompts) in prompts.by_size() {
            for prompt in prompts {
                self.cached_prefixes(prompt, found);
                for (total, slot) in totals.iter_mut().zip(slots) {
                    found.of(*slot).add_to(total, size);
                }
            }
        }
    }

    /// Everything that one rank holds, for a snapshot. Blocks that wait for their parent are not part of it.
    pub fn export(&self, slot: RankSlot) -> RankExport {
        self.lock(slot).export(&self.shelf, slot)
    }

    /// Stores what [`ReportedIndex::export`] gave, beside what the rank holds already.
    pub fn import(&self, slot: RankSlot, export: &RankExport, gone: &mut impl FnMut(Removal)) -> Applied {
        let Some(block_size) = export.block_size else { return Applied::default() };
        self.change(slot, RemovalCause::Evicted, gone, |change| {
            if change.accept_block_size(block_size) {
                change.import(export);
            }
        })
    }

    fn apply_stored(&self, slot: RankSlot, event: &StoredBlocks, gone: &mut impl FnMut(Removal)) -> Applied {
        let block_tokens = event.block_size.get() as usize;
        if event.hashes.len().checked_mul(block_tokens) != Some(event.tokens.len()) {
            return Applied { rejected: 1, ..Applied::default() };
        }
        let mut contents: Vec<BlockHash> =
            event.tokens.chunks_exact(block_tokens).map(BlockHash::of).collect();
        event.extras.add_to(&mut contents);
        self.change(slot, RemovalCause::Evicted, gone, |change| {
            if change.accept_block_size(event.block_size) {
                change.store_event(event, &contents);
            }
        })
    }

    fn change(
        &self,
        slot: RankSlot,
        cause: RemovalCause,
        gone: &mut impl FnMut(Removal),
        work: impl FnOnce(&mut Change<'_>),
    ) -> Applied {
        let mut writer = self.lock(slot);
        let mut change = Change::new(&self.shelf, &mut writer, slot, cause);
        work(&mut change);
        let Change { applied, gone: removals, others, .. } = change;
        others.into_iter().for_each(|other| self.note_rank(&writer, other));
        self.note_rank(&writer, slot);
        self.note_totals(&writer);
        drop(writer);
        removals.into_iter().for_each(gone);
        applied
    }

    /// Forgets a rank's blocks, one shard of names at a time, so that other ranks' writers get their turn.
    fn drain(&self, slot: RankSlot, cause: RemovalCause, gone: &mut impl FnMut(Removal)) -> Blocks {
        let Some(drain) = self.lock(slot).start_drain(slot) else { return Blocks::ZERO };
        let mut draining = Draining { index: self, slot, cause, drain };
        let mut copies = 0;
        while let Some((some, removals)) = draining.step() {
            copies += some;
            removals.into_iter().for_each(&mut *gone);
        }
        Blocks::new(copies)
    }

    /// The writer, once nobody is forgetting the rank's blocks.
    fn lock(&self, slot: RankSlot) -> MutexGuard<'_, Writer> {
        let mut writer = self.writer.lock();
        while writer.rank(slot).is_some_and(|rank| rank.is_draining) {
            self.drained.wait(&mut writer);
        }
        writer
    }

    fn note_rank(&self, writer: &Writer, slot: RankSlot) {
        let Some(rank) = writer.rank(slot) else { return };
        self.board.write(slot, rank.held(Tier::Device), rank.orphans.len(), rank.block_size);
    }

    fn note_totals(&self, writer: &Writer) {
        self.era.store(u64::from(writer.store.era), Relaxed);
        self.bytes.store(writer.bytes(), Relaxed);
        self.lower.store(writer.lower, Relaxed);
    }
}

impl Default for ReportedIndex {
    fn default() -> Self {
        Self::new(IndexOptions::default())
    }
}

/// A rank whose blocks are being forgotten. Dropping it forgets the rest, so that the rank is usable again
/// whatever happens to the caller.
struct Draining<'a> {
    index: &'a ReportedIndex,
    slot: RankSlot,
    cause: RemovalCause,
    drain: crate::transfer::Drain,
}

// === impl Draining ===

impl Draining<'_> {
    fn step(&mut self) -> Option<(u64, Vec<Removal>)> {
        let mut writer = self.index.writer.lock();
        let mut change = Change::new(&self.index.shelf, &mut writer, self.slot, self.cause);
        let copies = self.drain.step(&mut change)?;
        let removals = change.gone;
        self.index.note_totals(&writer);
        Some((copies, removals))
    }
}

impl Drop for Draining<'_> {
    fn drop(&mut self) {
        while self.step().is_some() {}
        let mut writer = self.index.writer.lock();
        if let Some(rank) = writer.rank_mut(self.slot) {
            rank.is_draining = false;
        }
        self.index.note_rank(&writer, self.slot);
        self.index.drained.notify_all();
    }
}

#[cfg(test)]
mod tests;
