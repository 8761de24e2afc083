//! The set itself: an index to find hashes, a queue to compare them with and to know which goes first.
//!
//! A lookup takes no lock: it finds the prompt's first block by the index, and the others in a row behind it in the queue, for
//! as long as they were taught in a row. Teaching looks first, as a lookup does, how far the prompt is known, and takes its
//! turn for the rest, where it looks again before it inserts. So test and insertion of a hash are one step. That of a known
//! hash needs no turn: it was resident at the moment of the look, before anything behind it was inserted, which is all that a
//! test within the turn would find out, since a duplicate changes nothing. One that was evicted before is found missing
//! and inserted anew.

use std::hint::black_box;

use kvroute_core::{Blocks, SequenceHash};

use crate::dimensions::Dimensions;
use crate::index::Index;
use crate::placement::Place;
use crate::queue::{Found, Queue, View, Writer};
use crate::sync::{AtomicU64, Ordering};

/// Hashes that are inserted in one turn at most.
const BATCH: usize = 64;

/// Hashes whose lines are read before the first one is looked for.
const FIRST_LOOK: usize = 4;

/// Sequence hashes that were taught; where memory ends, the oldest one goes when a new one comes.
///
/// The order is that of one queue for all: what goes first is exactly what was inserted first.
#[derive(Debug)]
pub struct History {
    budget: usize,
    dimensions: Dimensions,
    queue: Queue,
    index: Index,
    /// Hashes that had been inserted at the last clear.
    cleared: AtomicU64,
}

// === impl History ===

impl History {
    /// `bytes`: all memory that it may ever hold, all overhead included; where less is given it still holds ten hashes, in
    /// some 500 bytes, and however much is given, two thousand millions at most. `seed`: a random number that no client knows;
    /// it decides where hashes stand.
    ///
    /// All is allocated at once, and resident only as far as it has been used.
    pub fn new(bytes: usize, seed: u64) -> Self {
        Self::with_dimensions(bytes, Dimensions::within(bytes), seed)
    }

    pub(crate) fn with_dimensions(budget: usize, dimensions: Dimensions, seed: u64) -> Self {
        Self {
            budget,
            dimensions,
            queue: Queue::new(dimensions.capacity),
            index: Index::new(dimensions.lines, Queue::lines(dimensions.capacity), seed),
            cleared: AtomicU64::new(0),
        }
    }

    /// How many blocks from the first one are known; the first unknown one ends it. Takes no lock and allocates nothing.
    pub fn known_prefix(&self, hashes: &[SequenceHash]) -> Blocks {
        Blocks::from(self.known(hashes))
    }

    fn known(&self, hashes: &[SequenceHash]) -> usize {
        loop {
            let (known, oldest) = self.walk(self.queue.view(), hashes);
            if self.queue.still_holds(oldest) {
                return known;
            }
        }
    }

    /// Known blocks, and the number of the oldest of them.
    fn walk(&self, view: View, hashes: &[SequenceHash]) -> (usize, u64) {
        let (mut known, mut oldest) = (0, u64::MAX);
        while let Some((hash, behind)) = hashes[known..].split_first() {
            let Some(found) = self.find(view, *hash, self.index.place(*hash)) else { break };
            oldest = oldest.min(found.number);
            known += 1 + self.queue.run_behind(view, found, behind);
        }
        (known, oldest)
    }

    #[inline]
    fn find(&self, view: View, hash: SequenceHash, place: Place) -> Option<Found> {
        self.index.find(place, |line| self.queue.find_in(view, line, hash))
    }

    /// Teaches every hash and says how many were new. Test and insertion of a hash are one step. Allocates nothing.
    pub fn teach(&self, hashes: &[SequenceHash]) -> Blocks {
        let (mut rest, mut new, mut may_be_known) = (hashes, 0, true);
        self.fetch_homes(&hashes[..hashes.len().min(FIRST_LOOK)]);
        while !rest.is_empty() {
            if may_be_known {
                rest = &rest[self.known(rest)..];
            }
            let (batch, behind) = rest.split_at(rest.len().min(BATCH));
            let inserted = self.insert(batch);
            // What stands behind new blocks is new as well, but where the blocks before it were evicted.
            may_be_known = inserted < batch.len();
            new += inserted;
            rest = behind;
        }
        Blocks::from(new)
    }

    /// A new prompt is then looked at and inserted in one wait for memory; more would be in vain for a known one.
    fn fetch_homes(&self, hashes: &[SequenceHash]) {
        let homes = hashes.iter().map(|hash| self.index.touch(self.index.place(*hash)));
        black_box(homes.fold(0, |read, home| read | home));
    }

    fn insert(&self, hashes: &[SequenceHash]) -> usize {
        if hashes.is_empty() {
            return 0;
        }
        let mut places = [Place::default(); BATCH];
        self.fetch(hashes, &mut places);
        let mut writer = self.queue.writer();
        self.fetch_first_to_go(hashes.len());
        let mut new = 0;
        for (hash, place) in hashes.iter().zip(&places) {
            if self.find(writer.view(), *hash, *place).is_none() {
                self.insert_one(&mut writer, *hash, *place);
                new += 1;
            }
        }
        new
    }

    /// Reads the lines of the index that will be searched, all before any is waited for, and before the turn is taken.
    #[inline]
    fn fetch(&self, hashes: &[SequenceHash], places: &mut [Place]) {
        let mut read = 0;
        for (hash, place) in hashes.iter().zip(places.iter_mut()) {
            *place = self.index.place(*hash);
            read |= self.index.touch(*place);
        }
        for place in &places[..hashes.len()] {
            read |= self.index.touch_behind(*place);
        }
        black_box(read);
    }

    /// The same for those that so many new ones push out. Before its turn nobody knows which ones they will be.
    #[inline]
    fn fetch_first_to_go(&self, new: usize) {
        let lines = self.queue.first_to_go(new).map(|hash| self.index.touch(self.index.place(hash)));
        black_box(lines.fold(0, |read, line| read | line));
    }

    fn insert_one(&self, writer: &mut Writer<'_>, hash: SequenceHash, place: Place) {
        if writer.is_full() {
            let (gone, line) = writer.forget_oldest();
            self.index.take(self.index.place(gone), line);
        }
        let line = writer.write(hash);
        self.index.put(place, line);
        writer.show();
    }

    /// Blocks that it holds. As cheap as two loads.
    pub fn resident(&self) -> Blocks {
        Blocks::new(self.queue.view().len())
    }

    /// Blocks that it can hold at most.
    pub const fn capacity(&self) -> Blocks {
        Blocks::new(self.queue.capacity())
    }

    /// The bytes that it was allowed.
    pub const fn capacity_bytes(&self) -> usize {
        self.budget
    }

    /// The bytes that it allocated, itself included. What was never used of them is not resident yet.
    pub const fn bytes(&self) -> usize {
        self.dimensions.bytes()
    }

    /// Hashes inserted since the start or the last clear; a duplicate is none.
    pub fn taught(&self) -> u64 {
        self.queue.view().next().saturating_sub(self.cleared.load(Ordering::Relaxed))
    }

    /// Forgets everything.
    pub fn clear(&self) {
        let mut writer = self.queue.writer();
        writer.forget_all();
        self.index.clear();
        self.cleared.store(writer.view().next(), Ordering::Relaxed);
    }

    pub(crate) const fn queue(&self) -> &Queue {
        &self.queue
    }
}

#[cfg(test)]
mod tests;
