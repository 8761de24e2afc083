//! What writers share: every rank's names, and the budget that all of it must fit in.
//!
//! The budget is kept by looking at it before each few blocks: if the next ones might not fit, blocks leave
//! first. A reserve takes what the few blocks need at most, so that nothing has to fail half-way. What leaves
//! are the fullest rank's blocks in runs that were neither looked up nor stored to for the longest time. Whole
//! runs leave, because a run with holes keeps its memory; and a part of the rank's blocks at once, because
//! finding the names of a run takes a pass through all of the rank's.

use kvroute_core::{PrehashedMap, RankSlot, RemovalCause, Tier};

use crate::cells::CHUNK;
use crate::change::Change;
use crate::engine_key::EngineKey;
use crate::holder::Holder;
use crate::orphans::Orphans;
use crate::rank::Rank;
use crate::run::{Location, RunId};
use crate::shelf::Shelf;
use crate::store::Store;

/// Blocks that leave together for the budget, at least, where a rank has as many.
const EVICTED_AT_ONCE: usize = 256;

/// The writers' half of the index.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) store: Store,
    pub(crate) ranks: Vec<Option<Box<Rank>>>,
    /// Names of a block beyond the first one, by rank, tier and location.
    pub(crate) copies: PrehashedMap<u64, u32>,
    /// Bytes of all tables of names.
    pub(crate) table_bytes: usize,
    /// Names in all tables.
    pub(crate) names: usize,
    pub(crate) orphans: usize,
    /// Names on tiers below the device.
    pub(crate) lower: usize,
    pub(crate) orphan_limit: usize,
    pub(crate) known_ranks: usize,
    base_bytes: usize,
    budget: usize,
    stored_in_era: usize,
}

// === impl Writer ===

impl Writer {
    pub(crate) fn new(shelf: &Shelf, budget: usize, base_bytes: usize, orphan_limit: usize) -> Self {
        Self {
            store: Store::new(shelf),
            ranks: Vec::new(),
            copies: PrehashedMap::default(),
            table_bytes: 0,
            names: 0,
            orphans: 0,
            lower: 0,
            orphan_limit,
            known_ranks: 0,
            base_bytes,
            budget,
            stored_in_era: 0,
        }
    }

    /// Bytes of everything.
    pub(crate) fn bytes(&self) -> usize {
        self.store.bytes() + self.other_bytes()
    }

    /// The rank of a slot, made if need be; `None` if there cannot be one.
    pub(crate) fn rank_mut(&mut self, slot: RankSlot) -> Option<&mut Rank> {
        if slot.get() >= Holder::SLOT_LIMIT {
            return None;
        }
        if slot.index() >= self.ranks.len() {
            self.ranks.resize_with(slot.index() + 1, || None);
        }
        let rank = &mut self.ranks[slot.index()];
        if rank.is_none() {
            self.known_ranks += 1;
        }
        Some(rank.get_or_insert_default())
    }

    /// Forgets a rank that holds nothing; false if it was not known.
    pub(crate) fn forget_rank(&mut self, slot: RankSlot) -> bool {
        let is_known = self.ranks.get_mut(slot.index()).is_some_and(|rank| rank.take().is_some());
        self.known_ranks -= usize::from(is_known);
        is_known
    }

    pub(crate) fn rank(&self, slot: RankSlot) -> Option<&Rank> {
        self.ranks.get(slot.index())?.as_deref()
    }

    /// Key of a block's further copies.
    pub(crate) fn copies_of(slot: RankSlot, tier: Tier, at: Location) -> u64 {
        u64::from(slot.get()) << 34 | (tier.index() as u64) << 32 | u64::from(at.get())
    }

    /// Counts stored blocks; after a sixty-fourth of all there are a new era begins.
    pub(crate) fn count_stored(&mut self, blocks: usize) -> u8 {
        self.stored_in_era += blocks;
        if self.stored_in_era > 1024.max(self.names / 64) {
            self.stored_in_era = 0;
            self.store.era = self.store.era.wrapping_add(1);
        }
        self.store.era
    }

    /// True if another waiting block fits.
    pub(crate) fn has_room_for_orphan(&self) -> bool {
        self.bytes() + Orphans::BYTES <= self.soft_limit()
    }

    /// Where eviction begins: the rest is the reserve.
    fn soft_limit(&self) -> usize {
        self.budget - (self.budget / 32).max((self.budget / 4).min(256 << 10))
    }

    fn other_bytes(&self) -> usize {
        let ranks = self.ranks.capacity() * 8 + self.known_ranks * size_of::<Rank>();
        self.base_bytes
            + self.table_bytes
            + ranks
            + self.copies.capacity() * 14
            + self.orphans * Orphans::BYTES
    }

    fn has_room(&mut self, shelf: &Shelf) -> bool {
        let other = self.other_bytes();
        let limit = self.soft_limit();
        if self.store.bytes() + other > limit {
            return false;
        }
        self.store.prepare(shelf, |store_bytes| store_bytes + other <= limit)
    }

    /// True if little memory for runs is left, and no more can be had. Blocks leave then before the last of it is
    /// used up: it takes many of them until a whole run is free, and nobody shall wait for all of that at once.
    fn is_short(&self) -> bool {
        let cells = self.store.pages.free() + self.store.pages.used();
        let may_grow = self.bytes() + CHUNK * 8 <= self.soft_limit();
        !may_grow && (self.store.pages.free() < cells / 16 || self.store.is_short_of_runs())
    }

    /// The tier of the rank with the largest table.
    fn fullest(&self) -> Option<(RankSlot, Tier)> {
        let ranks = self.ranks.iter().enumerate().filter_map(|(slot, rank)| Some((slot, rank.as_deref()?)));
        let tables = ranks.filter(|(_, rank)| !rank.is_draining).flat_map(|(slot, rank)| {
            Tier::ALL.map(|tier| {
                (rank.names[tier.index()].bytes(), slot, tier, rank.names[tier.index()].is_empty())
            })
        });
        let (_, slot, tier, _) =
            tables.filter(|(.., is_empty)| !is_empty).max_by_key(|(bytes, ..)| *bytes)?;
        Some((RankSlot::new(slot as u32), tier))
    }
}

// === impl Change ===

impl Change<'_> {
    /// Evicts until a few blocks more are sure to fit, but nothing of one run. False if that cannot be.
    pub(crate) fn make_room(&mut self, kept: Option<RunId>) -> bool {
        let mut fruitless = 0;
        while !self.writer.has_room(self.shelf) {
            let Some((slot, tier)) = self.writer.fullest() else { return false };
            let evicted = self.evict(slot, tier, kept);
            fruitless = if evicted == 0 { fruitless + 1 } else { 0 };
            if fruitless > 64 {
                return false;
            }
        }
        if self.writer.is_short()
            && let Some((slot, tier)) = self.writer.fullest()
        {
            self.evict(slot, tier, kept);
        }
        true
    }

    /// Evicts a rank's blocks in some of its oldest runs, whole. Returns how many copies that were.
    fn evict(&mut self, slot: RankSlot, tier: Tier, kept: Option<RunId>) -> usize {
        let Some(rank) = self.writer.rank_mut(slot) else { return 0 };
        let shard = rank.hand[tier.index()] % rank.names[tier.index()].shards().max(1);
        rank.hand[tier.index()] = shard + 1;
        let chosen = self.oldest_runs(slot, tier, shard, kept);
        let Some(rank) = self.writer.rank(slot) else { return 0 };
        let is_chosen = |at: &Location| chosen.binary_search(&at.run()).is_ok();
        let mut leaving: Vec<(Location, EngineKey)> = rank.names[tier.index()]
            .each()
            .filter(|(_, at)| is_chosen(at))
            .map(|(key, at)| (at, key))
            .collect();
        leaving.sort_unstable_by_key(|(at, _)| *at);
        let cause = std::mem::replace(&mut self.cause, RemovalCause::IndexBudget);
        let own_slot = std::mem::replace(&mut self.slot, slot);
        self.forget(tier, leaving.iter().map(|(_, key)| *key));
        if let Some(rank) = self.writer.rank_mut(slot) {
            let before = rank.table_bytes();
            rank.names[tier.index()].compact(shard);
            let after = rank.table_bytes();
            self.writer.table_bytes = self.writer.table_bytes + after - before;
        }
        self.finish_rank();
        self.cause = cause;
        self.slot = own_slot;
        self.applied.evicted += leaving.len() as u64;
        leaving.len()
    }

    /// Runs of a shard's names that were used least lately, in order of their numbers: so many that one pass
    /// through the rank's names is worth it.
    fn oldest_runs(&self, slot: RankSlot, tier: Tier, shard: usize, kept: Option<RunId>) -> Vec<RunId> {
        let Some(rank) = self.writer.rank(slot) else { return Vec::new() };
        let names = &rank.names[tier.index()];
        let era = self.writer.store.era;
        let age = |run: RunId| era.wrapping_sub(self.shelf.runs.place(run).era());
        let mut runs: Vec<RunId> =
            names.shard(shard).map(|(_, at)| at.run()).filter(|run| Some(*run) != kept).collect();
        runs.sort_unstable();
        runs.dedup();
        runs.sort_by_cached_key(|run| std::cmp::Reverse(age(*run)));
        let wanted = (names.len() / 64).max(EVICTED_AT_ONCE);
        let mut found = 0;
        let enough = runs.iter().position(|run| {
            found += self.shelf.runs.state(*run).len() as usize;
            found >= wanted
        });
        runs.truncate(enough.map_or(runs.len(), |last| last + 1));
        runs.sort_unstable();
        runs
    }
}
