//! The cached prefix of one prompt on every rank of a pool.

use kvroute_core::{Blocks, RankSlot};

use crate::CachedPrefix;

/// Answers of one lookup, dense by slot. Its buffers are reused, so that a lookup allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct Prefixes {
    /// Blocks behind which the device's part of the prefix ends, by slot.
    pub(crate) device: Vec<u32>,
    /// The same for the host's and the disk's part; empty if no rank holds anything there.
    pub(crate) lower: [Vec<u32>; 2],
    /// Ranks that match so far, one bit a slot.
    matching: Vec<u64>,
    /// The same before the run at hand.
    saved: Vec<u64>,
}

// === impl Prefixes ===

impl Prefixes {
    /// What one rank holds of the prompt: empty if it has blocks of another size, or none.
    pub fn of(&self, slot: RankSlot) -> CachedPrefix {
        let blocks = |ends: &[u32]| ends.get(slot.index()).map(|end| Blocks::new(u64::from(*end)));
        let device = blocks(&self.device).unwrap_or_default();
        let host = blocks(&self.lower[0]).unwrap_or(device);
        let disk = blocks(&self.lower[1]).unwrap_or(host);
        CachedPrefix { device, host: host - device, disk: disk - host }
    }

    /// Leading blocks of the prompt on the device of each rank, dense by slot. Ranks beyond the end hold none.
    pub fn on_device(&self) -> &[u32] {
        &self.device
    }

    /// Starts anew: every one of so many ranks matches, and no block of theirs yet.
    pub(crate) fn reset(&mut self, slots: usize) {
        self.device.clear();
        self.device.resize(slots, 0);
        self.lower.iter_mut().for_each(Vec::clear);
        let words = slots.div_ceil(64);
        self.matching.clear();
        self.matching.resize(words, u64::MAX);
        self.saved.resize(words, 0);
        if let Some(last) = self.matching.last_mut()
            && !slots.is_multiple_of(64)
        {
            *last = (1 << (slots % 64)) - 1;
        }
    }

    /// Remembers which ranks match.
    pub(crate) fn save(&mut self) {
        self.saved.copy_from_slice(&self.matching);
    }

    /// Goes back to what [`Prefixes::save`] remembered. Whoever matches again gets another end later, but for
    /// those whose prefix turns out to be empty.
    pub(crate) fn restore(&mut self, is_at_start: bool) {
        self.matching.copy_from_slice(&self.saved);
        if is_at_start {
            self.device.fill(0);
        }
    }

    /// Keeps the ranks whose bits `kept` gives by word; the others' prefixes end. True if none is left.
    pub(crate) fn retain(&mut self, end: u32, kept: impl Fn(usize) -> u64) -> bool {
        let mut left = 0;
        for (at, word) in self.matching.iter_mut().enumerate() {
            if *word == 0 {
                continue;
            }
            let kept_bits = kept(at);
            if end > 0 {
                write_ends(&mut self.device, at, *word & !kept_bits, end);
            }
            *word &= kept_bits;
            left |= *word;
        }
        left == 0
    }

    /// Ends the prefixes of those that still match.
    pub(crate) fn end_matching(&mut self, end: u32) {
        for (at, word) in self.matching.iter().enumerate() {
            write_ends(&mut self.device, at, *word, end);
        }
    }
}

fn write_ends(ends: &mut [u32], word: usize, bits: u64, end: u32) {
    let first = word * 64;
    if bits == u64::MAX
        && let Some(ends) = ends.get_mut(first..first + 64)
    {
        ends.fill(end);
        return;
    }
    let mut rest = bits;
    while rest != 0 {
        if let Some(place) = ends.get_mut(first + rest.trailing_zeros() as usize) {
            *place = end;
        }
        rest &= rest - 1;
    }
}
