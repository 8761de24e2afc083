//! A bounded memory of blocks that left, and why: where the loss ledger looks for the reason of a missing block.
//!
//! A table of fixed size, sets of eight, allocated once: burying is as frequent as eviction in all engines of a pool
//! together, and must never allocate, rehash or grow. A sequence hash is uniform, so its high bits choose the set. A
//! set is kept newest first: burying shifts the others and lets the oldest fall out, and the first match of a lookup
//! is the newest. The same block may be buried by several ranks; each is a tombstone of its own, because only the
//! ranks that could take an attempt count for it. Storing a block again leaves its tombstone: while the block is held
//! nobody asks, and when it leaves once more the tombstone is renewed.
//!
//! A slot outlives its rank. When a worker is replaced, its blocks are missing exactly because it left, so what it
//! buried must still be found; but it is not the new rank that lost them. [`Tombstones::vacate`] therefore parts
//! the tombstones of a slot from it when the slot is given to another rank: they stay, as those of a rank that left.

use std::time::Duration;

use kvroute_core::{RankSlot, Removal, RemovalCause, SequenceHash};

/// Tombstones of one set: three cache lines.
const WAYS: usize = 8;

/// The newest removals of a pool's ranks, by sequence hash.
#[derive(Clone, Debug)]
pub struct Tombstones {
    sets: Box<[Set]>,
}

/// How a block left one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tombstone {
    /// The rank; `None` if it has left since and its slot serves another.
    pub slot: Option<RankSlot>,
    /// Why the block went.
    pub cause: RemovalCause,
    /// When that was heard of, in the time that was given to [`Tombstones::bury`].
    pub at: Duration,
}

/// Newest first; the used ones stand in front.
type Set = [Grave; WAYS];

/// 24 bytes. The time in nanoseconds lasts for centuries.
#[derive(Clone, Copy, Debug)]
struct Grave {
    sequence: SequenceHash,
    at: u64,
    slot: RankSlot,
    has_left: bool,
    /// `None`: not in use.
    cause: Option<RemovalCause>,
}

// === impl Tombstones ===

impl Tombstones {
    /// Room for as many as `bytes` hold, 24 bytes each; none where that is less than a set.
    pub fn new(bytes: usize) -> Self {
        let sets = bytes / size_of::<Set>();
        Self { sets: vec![[Grave::UNUSED; WAYS]; sets].into_boxed_slice() }
    }

    /// What the table occupies.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.sets)
    }

    /// Remembers a removal as the newest of its block. Times are expected to rise; the order of calls counts.
    pub fn bury(&mut self, removal: Removal, now: Duration) {
        let Some(set) = self.set_of(removal.sequence) else { return };
        let set = &mut self.sets[set];
        let known = set.iter().position(|grave| grave.is_of(removal.sequence, removal.slot));
        let reused = known.unwrap_or(WAYS - 1);
        set.copy_within(..reused, 1);
        set[0] = Grave::new(removal, now);
    }

    /// The slot is given to another rank: what was buried of it belongs to a rank that left. Looks through the whole
    /// table.
    pub fn vacate(&mut self, slot: RankSlot) {
        for set in &mut self.sets {
            if set.iter().any(|grave| grave.is_on(slot)) {
                vacate_in(set, slot);
            }
        }
    }

    /// The newest tombstone of a block among the ranks that count. A rank that left is asked for as `None`.
    pub fn newest(
        &self,
        sequence: SequenceHash,
        is_candidate: impl Fn(Option<RankSlot>) -> bool,
    ) -> Option<Tombstone> {
        let set = &self.sets[self.set_of(sequence)?];
        let of_block = set.iter().filter(|grave| grave.sequence == sequence);
        of_block.filter_map(Grave::shown).find(|tombstone| is_candidate(tombstone.slot))
    }

    /// The position of a block's set: the high part of a product, so that any number of sets is used evenly.
    fn set_of(&self, sequence: SequenceHash) -> Option<usize> {
        if self.sets.is_empty() {
            return None;
        }
        let product = u128::from(sequence.get()) * self.sets.len() as u128;
        Some((product >> 64) as usize)
    }
}

/// Marks the slot's graves; of several that ranks which left have of one block, the newest stays.
fn vacate_in(set: &mut Set, slot: RankSlot) {
    let mut kept = [Grave::UNUSED; WAYS];
    let mut used = 0;
    for grave in set.iter().filter(|grave| grave.cause.is_some()) {
        let grave = Grave { has_left: grave.has_left || grave.slot == slot, ..*grave };
        let is_repeat = |other: &Grave| other.has_left && other.sequence == grave.sequence;
        if grave.has_left && kept[..used].iter().any(is_repeat) {
            continue;
        }
        kept[used] = grave;
        used += 1;
    }
    *set = kept;
}

// === impl Grave ===

impl Grave {
    const UNUSED: Self = Self {
        sequence: SequenceHash::from_raw(0),
        at: 0,
        slot: RankSlot::new(0),
        has_left: false,
        cause: None,
    };

    fn new(removal: Removal, now: Duration) -> Self {
        let Removal { slot, sequence, cause } = removal;
        let at = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        Self { sequence, at, slot, has_left: false, cause: Some(cause) }
    }

    /// In use, by the rank that is in the slot now.
    fn is_on(&self, slot: RankSlot) -> bool {
        self.cause.is_some() && !self.has_left && self.slot == slot
    }

    fn is_of(&self, sequence: SequenceHash, slot: RankSlot) -> bool {
        self.sequence == sequence && self.is_on(slot)
    }

    fn shown(&self) -> Option<Tombstone> {
        let slot = (!self.has_left).then_some(self.slot);
        Some(Tombstone { slot, cause: self.cause?, at: Duration::from_nanos(self.at) })
    }
}

#[cfg(test)]
mod tests;
