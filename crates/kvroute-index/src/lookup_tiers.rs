//! The walk along a prompt where lower tiers hold something too.
//!
//! The host continues where a rank's device prefix ended, the disk where the host's did. So the walk goes on as
//! far as any run matches, and notes who holds what on every tier; then each rank's prefix is pieced together.

use kvroute_core::{RankSlot, SequenceHash, Tier};

use crate::holder::{Held, Holder};
use crate::lookup::Glance;
use crate::prefixes::Prefixes;
use crate::run::RunId;
use crate::segments::SegmentCells;
use crate::sets::{HEADER, words_at};
use crate::shelf::Shelf;

/// Blocks of the prompt with the same holders on a tier.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    tier: Tier,
    from: u32,
    to: u32,
    /// First of the holders' words.
    words: usize,
}

/// One lookup on all tiers.
#[derive(Debug)]
pub(crate) struct TierWalk<'a> {
    shelf: &'a Shelf,
    hashes: &'a [SequenceHash],
    era: u8,
    at: usize,
    /// Words of a set of ranks.
    width: usize,
    stretches: Vec<Stretch>,
    words: Vec<u64>,
}

// === impl TierWalk ===

impl<'a> TierWalk<'a> {
    /// Finds all parts of every rank's prefix.
    pub(crate) fn run(
        shelf: &'a Shelf,
        hashes: &'a [SequenceHash],
        slots: usize,
        era: u8,
        found: &mut Prefixes,
    ) {
        found.reset(slots);
        let (stretches, words) = (Vec::new(), Vec::new());
        let mut walk = Self { shelf, hashes, era, at: 0, width: slots.div_ceil(64), stretches, words };
        while walk.at < hashes.len() {
            let head = hashes[walk.at];
            let Some(matched) = shelf.heads.find(head, |run| walk.visit(run)) else { break };
            walk.at += matched;
        }
        walk.finish(slots, found);
    }

    fn visit(&mut self, run: RunId) -> Option<usize> {
        let runs = &self.shelf.runs;
        let (stretches, words) = (self.stretches.len(), self.words.len());
        loop {
            let Glance { state, place, matched } = Glance::at(self.shelf, run, &self.hashes[self.at..]);
            if matched > 0 {
                self.note(state.holder(), matched as u32);
            }
            if runs.is_still(run, state) {
                if matched > 0 && place.era() != self.era {
                    runs.mark(run, place, self.era);
                }
                return (matched > 0).then_some(matched);
            }
            self.stretches.truncate(stretches);
            self.words.truncate(words);
        }
    }

    fn note(&mut self, holder: Holder, matched: u32) {
        let Held::Segments(cell) = holder.held() else {
            self.note_stretch(Tier::Device, 0, matched, holder);
            return;
        };
        let cells = &self.shelf.runs.cells;
        for tier in Tier::ALL {
            let mut start = 0;
            for segment in SegmentCells::of(cells, cell, tier).iter(cells) {
                self.note_stretch(tier, start, segment.end.min(matched), segment.holder);
                start = segment.end;
                if start >= matched {
                    break;
                }
            }
        }
    }

    fn note_stretch(&mut self, tier: Tier, from: u32, to: u32, holder: Holder) {
        let start = self.words.len();
        self.words.resize(start + self.width, 0);
        let words = &mut self.words[start..];
        let mut add = |slot: RankSlot| {
            if let Some(word) = words.get_mut(slot.index() / 64) {
                *word |= 1 << (slot.get() % 64);
            }
        };
        match holder.held() {
            Held::Nobody | Held::Segments(_) => {}
            Held::One(only) => add(only),
            Held::Two(left, right) => [left, right].into_iter().for_each(add),
            Held::Set(cell) => {
                let cells = &self.shelf.runs.cells;
                let count = words_at(cells, cell);
                for (word, at) in words.iter_mut().zip(cell + HEADER..cell + HEADER + count) {
                    *word = cells.get(at);
                }
            }
        }
        let at = self.at as u32;
        self.stretches.push(Stretch { tier, from: at + from, to: at + to, words: start });
    }

    fn finish(&self, slots: usize, found: &mut Prefixes) {
        let mut ends = vec![0; slots];
        self.extend(Tier::Device, &mut ends);
        found.device.clone_from(&ends);
        for (tier, lower) in [Tier::Host, Tier::Disk].into_iter().zip(&mut found.lower) {
            self.extend(tier, &mut ends);
            lower.clone_from(&ends);
        }
    }

    /// Lengthens each rank's prefix by what a tier holds right behind it.
    fn extend(&self, tier: Tier, ends: &mut [u32]) {
        for stretch in self.stretches.iter().filter(|stretch| stretch.tier == tier) {
            for (slot, end) in ends.iter_mut().enumerate() {
                let is_next = stretch.from <= *end && *end < stretch.to;
                if is_next && self.words[stretch.words + slot / 64] >> (slot % 64) & 1 == 1 {
                    *end = stretch.to;
                }
            }
        }
    }
}
