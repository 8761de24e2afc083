//! Sets of ranks, kept once each however many runs have them.
//!
//! A set lies in cells, for lookups to read: the number of its words, then the words, one bit a slot. It never
//! changes: a run that gains a holder refers to another set. Writers count the references.

use kvroute_core::{PrehashedMap, RankSlot};

use crate::cells::Cells;
use crate::holder::{Held, Holder};
use crate::pages::Pages;

/// Cells before a set's words: their number and the count of references; the fingerprint.
pub(crate) const HEADER: u32 = 2;
/// Words of the largest set.
pub(crate) const WORDS: usize = (Holder::SLOT_LIMIT / 64) as usize;
const COUNT_SHIFT: u32 = 16;

/// Finds the sets that exist, by a fingerprint that changes by one step for each member.
#[derive(Debug, Default)]
pub(crate) struct Sets {
    by_fingerprint: PrehashedMap<u64, u32>,
    words: Vec<u64>,
}

// === impl Sets ===

impl Sets {
    /// Bytes of the books.
    pub(crate) fn bytes(&self) -> usize {
        self.by_fingerprint.capacity() * 18 + self.words.capacity() * 8
    }

    /// True if the set has that rank.
    pub(crate) fn contains(cells: &Cells, holder: Holder, slot: RankSlot) -> bool {
        match holder.held() {
            Held::Nobody | Held::Segments(_) => false,
            Held::One(only) => only == slot,
            Held::Two(left, right) => left == slot || right == slot,
            Held::Set(cell) => {
                let word = slot.get() / 64;
                word < words_at(cells, cell) && cells.get(cell + HEADER + word) >> (slot.get() % 64) & 1 == 1
            }
        }
    }

    /// The set with one rank more; the same one if it is a member.
    pub(crate) fn with(
        &mut self,
        cells: &Cells,
        pages: &mut Pages,
        holder: Holder,
        slot: RankSlot,
    ) -> Option<Holder> {
        if Self::contains(cells, holder, slot) {
            return Some(holder);
        }
        match holder.held() {
            Held::Nobody | Held::Segments(_) => return Some(Holder::one(slot)),
            Held::One(only) => return Some(Holder::two(only, slot)),
            Held::Two(left, right) => {
                self.words.clear();
                add(&mut self.words, left);
                add(&mut self.words, right);
            }
            Held::Set(cell) => self.load(cells, cell),
        }
        add(&mut self.words, slot);
        let fingerprint = fingerprint_of(cells, holder) ^ fingerprint(slot);
        self.intern(cells, pages, fingerprint)
    }

    /// The set without a rank; the same one if it is no member.
    pub(crate) fn without(
        &mut self,
        cells: &Cells,
        pages: &mut Pages,
        holder: Holder,
        slot: RankSlot,
    ) -> Option<Holder> {
        if !Self::contains(cells, holder, slot) {
            return Some(holder);
        }
        match holder.held() {
            Held::Nobody | Held::Segments(_) | Held::One(_) => return Some(Holder::NOBODY),
            Held::Two(left, right) => return Some(Holder::one(if left == slot { right } else { left })),
            Held::Set(cell) => self.load(cells, cell),
        }
        self.words[slot.index() / 64] &= !(1 << (slot.get() % 64));
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
        if let Some(two) = as_two(&self.words) {
            return Some(two);
        }
        let fingerprint = fingerprint_of(cells, holder) ^ fingerprint(slot);
        self.intern(cells, pages, fingerprint)
    }

    /// Counts a reference.
    pub(crate) fn acquire(cells: &Cells, holder: Holder) {
        if let Held::Set(cell) = holder.held() {
            cells.set(cell, cells.get(cell) + (1 << COUNT_SHIFT));
        }
    }

    /// Takes a reference back, and frees the set with the last one. No run may refer to it any more.
    pub(crate) fn release(&mut self, cells: &Cells, pages: &mut Pages, holder: Holder) {
        let Held::Set(cell) = holder.held() else { return };
        let header = cells.get(cell) - (1 << COUNT_SHIFT);
        cells.set(cell, header);
        if header >> COUNT_SHIFT == 0 {
            self.free(cells, pages, cell);
        }
    }

    fn free(&mut self, cells: &Cells, pages: &mut Pages, cell: u32) {
        let fingerprint = cells.get(cell + 1);
        if self.by_fingerprint.get(&fingerprint) == Some(&cell) {
            self.by_fingerprint.remove(&fingerprint);
        }
        pages.give(cells, cell);
    }

    fn load(&mut self, cells: &Cells, cell: u32) {
        self.words.clear();
        self.words.extend((0..words_at(cells, cell)).map(|word| cells.get(cell + HEADER + word)));
    }

    fn intern(&mut self, cells: &Cells, pages: &mut Pages, fingerprint: u64) -> Option<Holder> {
        if let Some(cell) = self.by_fingerprint.get(&fingerprint)
            && self.is_at(cells, *cell)
        {
            return Some(Holder::set(*cell));
        }
        let cell = pages.take(cells, HEADER + self.words.len() as u32)?;
        cells.set(cell + 1, fingerprint);
        for (word, at) in self.words.iter().zip(cell + HEADER..) {
            cells.set(at, *word);
        }
        cells.set(cell, self.words.len() as u64);
        self.by_fingerprint.insert(fingerprint, cell);
        Some(Holder::set(cell))
    }

    fn is_at(&self, cells: &Cells, cell: u32) -> bool {
        words_at(cells, cell) as usize == self.words.len()
            && self.words.iter().zip(cell + HEADER..).all(|(word, at)| cells.get(at) == *word)
    }
}

/// Words of the set at a cell.
pub(crate) fn words_at(cells: &Cells, cell: u32) -> u32 {
    (cells.get(cell) as u32 & ((1 << COUNT_SHIFT) - 1)).min(WORDS as u32)
}

fn add(words: &mut Vec<u64>, slot: RankSlot) {
    let word = slot.index() / 64;
    if word >= words.len() {
        words.resize(word + 1, 0);
    }
    words[word] |= 1 << (slot.get() % 64);
}

/// The short form of a set of two; sets of three are never shortened below it.
fn as_two(words: &[u64]) -> Option<Holder> {
    let members: u32 = words.iter().map(|word| word.count_ones()).sum();
    if members != 2 {
        return None;
    }
    let mut found = words.iter().enumerate().flat_map(|(index, word)| {
        let low = (*word != 0).then(|| slot_at(index, word.trailing_zeros()));
        let high = (word.count_ones() == 2).then(|| slot_at(index, 63 - word.leading_zeros()));
        low.into_iter().chain(high)
    });
    Some(Holder::two(found.next()?, found.next()?))
}

/// The slot of a bit of a word.
pub(crate) const fn slot_at(word: usize, bit: u32) -> RankSlot {
    RankSlot::new(word as u32 * 64 + bit)
}

fn fingerprint_of(cells: &Cells, holder: Holder) -> u64 {
    match holder.held() {
        Held::Nobody | Held::Segments(_) => 0,
        Held::One(only) => fingerprint(only),
        Held::Two(left, right) => fingerprint(left) ^ fingerprint(right),
        Held::Set(cell) => cells.get(cell + 1),
    }
}

fn fingerprint(slot: RankSlot) -> u64 {
    let mixed = (u64::from(slot.get()) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ mixed >> 31
}
