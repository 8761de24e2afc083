//! The hashes themselves, in the order in which they came.
//!
//! Insertions are numbered. A hash stands at its number modulo the capacity until the one that takes its place comes. What was
//! taught together stands together, so a prompt is compared with the queue hash by hash, in memory that lies in a row, once
//! its first block is found.
//!
//! What is resident is a span of numbers. A reader takes the span's end before it reads and its beginning afterwards: what is
//! between them stood still all the time. The writer moves the beginning first and overwrites then.

use std::ops::Range;

use kvroute_core::SequenceHash;

use crate::cells::Cells;
use crate::line::CELLS;
use crate::sync::{AtomicU64, Ordering, Turn, TurnGuard, fence};

/// A circle of hashes, and which part of it counts.
#[derive(Debug)]
pub(crate) struct Queue {
    hashes: Cells,
    capacity: u64,
    ends: Ends,
    turn: Turn,
}

/// A cache line of its own: every lookup reads it, every insertion writes it.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Ends {
    /// The number of the oldest resident hash.
    oldest: AtomicU64,
    /// The number of the next insertion.
    next: AtomicU64,
}

/// What was resident at a moment, as numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    oldest: u64,
    next: u64,
    /// Where the next insertion stands.
    place: u64,
}

/// A hash that was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) number: u64,
    place: u64,
}

/// The queue in the hands of the one writer whose turn it is.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    queue: &'a Queue,
    view: View,
    oldest_place: u64,
    _turn: TurnGuard<'a>,
}

// === impl Queue ===

impl Queue {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            hashes: Cells::new(Self::lines(capacity)),
            capacity: capacity as u64,
            ends: Ends::default(),
            turn: Turn::default(),
        }
    }

    /// Cache lines of so many hashes.
    pub(crate) const fn lines(capacity: usize) -> usize {
        capacity.div_ceil(CELLS)
    }

    pub(crate) const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Waits until nobody else writes.
    pub(crate) fn writer(&self) -> Writer<'_> {
        let turn = self.turn.take();
        let view = self.view();
        Writer { queue: self, view, oldest_place: view.oldest % self.capacity, _turn: turn }
    }

    /// The end first: a beginning from before it would tell of more than the capacity.
    pub(crate) fn view(&self) -> View {
        let next = self.ends.next.load(Ordering::Acquire);
        let oldest = self.ends.oldest.load(Ordering::Relaxed).min(next);
        View { oldest, next, place: next % self.capacity }
    }

    /// True if nothing from this number on has gone since it was read.
    #[inline]
    pub(crate) fn still_holds(&self, number: u64) -> bool {
        // What was read before this fence was no later hash's, if the beginning behind it has not passed the number.
        fence(Ordering::Acquire);
        self.ends.oldest.load(Ordering::Relaxed) <= number
    }

    /// The hash, if it is resident in the view and stands in this line.
    #[inline]
    pub(crate) fn find_in(&self, view: View, line: u32, hash: SequenceHash) -> Option<Found> {
        let cells = self.hashes.lines().get(line as usize)?;
        let mut places = 0u32;
        for (place, cell) in cells.iter().enumerate() {
            places |= u32::from(cell.load(Ordering::Relaxed) == hash.get()) << place;
        }
        while places != 0 {
            let place = u64::from(line) * CELLS as u64 + u64::from(places.trailing_zeros());
            let back =
                if place < view.place { view.place - place } else { view.place + self.capacity - place };
            if back <= view.len() {
                return Some(Found { number: view.next - back, place });
            }
            places &= places - 1;
        }
        None
    }

    /// How many of the hashes stand in a row behind one that was found, as far as the view goes.
    #[inline]
    pub(crate) fn run_behind(&self, view: View, found: Found, hashes: &[SequenceHash]) -> usize {
        let longest = hashes.len().min((view.next - found.number - 1) as usize);
        let place = self.behind(found.place) as usize;
        let (until_end, from_start) = hashes[..longest].split_at(longest.min(self.capacity as usize - place));
        let words = self.hashes.lines().as_flattened();
        match same(&words[place..], until_end) {
            found if found < until_end.len() => found,
            found => found + same(words, from_start),
        }
    }

    /// Copies the hashes of these numbers as far as they are resident.
    pub(crate) fn copy(&self, numbers: Range<u64>, into: &mut Vec<SequenceHash>) {
        let view = self.view();
        let numbers = numbers.start.max(view.oldest)..numbers.end.min(view.next);
        let before = into.len();
        into.extend(numbers.clone().map(|number| self.hash(number)));
        fence(Ordering::Acquire);
        // Some may have gone while they were read.
        let gone =
            self.ends.oldest.load(Ordering::Relaxed).clamp(numbers.start, numbers.end.max(numbers.start));
        into.drain(before..before + (gone - numbers.start) as usize);
    }

    fn hash(&self, number: u64) -> SequenceHash {
        self.hash_at(number % self.capacity)
    }

    fn hash_at(&self, place: u64) -> SequenceHash {
        SequenceHash::from_raw(self.cell(place).load(Ordering::Relaxed))
    }

    fn cell(&self, place: u64) -> &AtomicU64 {
        &self.hashes.lines().as_flattened()[place as usize]
    }

    const fn behind(&self, place: u64) -> u64 {
        if place + 1 == self.capacity { 0 } else { place + 1 }
    }

    /// The hashes that go when so many new ones come.
    pub(crate) fn first_to_go(&self, new: usize) -> impl Iterator<Item = SequenceHash> {
        let view = self.view();
        let going = (view.len() + new as u64).saturating_sub(self.capacity);
        let mut place = view.oldest % self.capacity;
        (0..going).map(move |_| {
            let hash = self.hash_at(place);
            place = self.behind(place);
            hash
        })
    }

    #[cfg(test)]
    pub(crate) fn allocated(&self) -> usize {
        self.hashes.allocated()
    }
}

/// How many of the hashes the words begin with.
#[inline]
fn same(words: &[AtomicU64], hashes: &[SequenceHash]) -> usize {
    let mut pairs = words.iter().zip(hashes);
    pairs.position(|(word, hash)| word.load(Ordering::Relaxed) != hash.get()).unwrap_or(hashes.len())
}

// === impl Writer ===

impl Writer<'_> {
    pub(crate) const fn view(&self) -> View {
        self.view
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.view.len() == self.queue.capacity
    }

    /// Lets the oldest hash go, and says in which line it stood.
    pub(crate) fn forget_oldest(&mut self) -> (SequenceHash, u32) {
        let place = self.oldest_place;
        self.view.oldest += 1;
        self.oldest_place = self.queue.behind(place);
        self.queue.ends.oldest.store(self.view.oldest, Ordering::Relaxed);
        (self.queue.hash_at(place), line_of(place))
    }

    pub(crate) fn forget_all(&mut self) {
        self.view.oldest = self.view.next;
        self.oldest_place = self.view.place;
        self.queue.ends.oldest.store(self.view.oldest, Ordering::Relaxed);
    }

    /// Writes the next hash without showing it, and says in which line.
    pub(crate) fn write(&self, hash: SequenceHash) -> u32 {
        // Releases the beginning that has moved on before.
        self.queue.cell(self.view.place).store(hash.get(), Ordering::Release);
        line_of(self.view.place)
    }

    /// Shows what was written.
    pub(crate) fn show(&mut self) {
        self.view.next += 1;
        self.view.place = self.queue.behind(self.view.place);
        self.queue.ends.next.store(self.view.next, Ordering::Release);
    }
}

const fn line_of(place: u64) -> u32 {
    (place / CELLS as u64) as u32
}

// === impl View ===

impl View {
    pub(crate) const fn oldest(&self) -> u64 {
        self.oldest
    }

    pub(crate) const fn next(&self) -> u64 {
        self.next
    }

    pub(crate) const fn len(&self) -> u64 {
        self.next - self.oldest
    }
}
