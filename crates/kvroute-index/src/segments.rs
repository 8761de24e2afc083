//! Who holds which part of a run, tier by tier.
//!
//! Usually one set of ranks holds the whole run on the device, and its state says so by itself. Otherwise the
//! run refers to segments: for each tier, ends and sets, up to the run's end. A hole is a segment without the
//! rank; it needs no further rule.

use kvroute_core::Tier;

use crate::cells::Cells;
use crate::holder::{Held, Holder};
use crate::run::{RUN_LIMIT, RunState};

const TIERS: usize = Tier::ALL.len();
const COUNT_BITS: u32 = 16;
const END_SHIFT: u32 = 32;

/// Consecutive blocks of a run with the same holders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Offset behind the last block.
    pub(crate) end: u32,
    /// Who holds them.
    pub(crate) holder: Holder,
}

/// All segments of one run. A tier that holds nothing has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layers {
    pub(crate) tiers: [Vec<Segment>; TIERS],
}

// === impl Segment ===

impl Segment {
    pub(crate) const fn to_word(self) -> u64 {
        (self.end as u64) << END_SHIFT | self.holder.get() as u64
    }

    pub(crate) const fn from_word(word: u64) -> Self {
        Self { end: (word >> END_SHIFT) as u32, holder: Holder::from_raw(word as u32) }
    }
}

// === impl Layers ===

impl Layers {
    /// Reads the segments of a run in that state.
    pub(crate) fn load(&mut self, cells: &Cells, state: RunState) {
        self.tiers.iter_mut().for_each(Vec::clear);
        let Held::Segments(cell) = state.holder().held() else {
            if !state.holder().is_nobody() {
                self.tiers[Tier::Device.index()].push(Segment { end: state.len(), holder: state.holder() });
            }
            return;
        };
        for tier in Tier::ALL {
            let part = SegmentCells::of(cells, cell, tier);
            self.tiers[tier.index()].extend(part.iter(cells));
        }
    }

    /// Cells that [`Layers::write`] needs; none if a run's state can say it all.
    pub(crate) fn cells_needed(&self) -> u32 {
        let [device, lower @ ..] = &self.tiers;
        if device.len() == 1 && lower.iter().all(Vec::is_empty) {
            return 0;
        }
        1 + self.tiers.iter().map(Vec::len).sum::<usize>() as u32
    }

    /// Writes the segments from a cell on.
    pub(crate) fn write(&self, cells: &Cells, cell: u32) {
        let counts = self.tiers.iter().rev().fold(0, |counts, tier| counts << COUNT_BITS | tier.len() as u64);
        cells.set(cell, counts);
        for (segment, at) in self.tiers.iter().flatten().zip(cell + 1..) {
            cells.set(at, segment.to_word());
        }
    }

    /// The holders of a block on a tier.
    pub(crate) fn holder(&self, tier: Tier, offset: u32) -> Holder {
        let segments = &self.tiers[tier.index()];
        segments.iter().find(|segment| offset < segment.end).map_or(Holder::NOBODY, |segment| segment.holder)
    }

    /// Length without the blocks at the end that nobody holds.
    pub(crate) fn held_len(&self) -> u32 {
        let last_held = |segments: &Vec<Segment>| {
            segments.iter().rev().find(|segment| !segment.holder.is_nobody()).map_or(0, |segment| segment.end)
        };
        self.tiers.iter().map(last_held).max().unwrap_or(0)
    }

    /// Cuts everything behind `len`, and drops tiers that hold nothing.
    pub(crate) fn truncate(&mut self, len: u32) {
        for segments in &mut self.tiers {
            while segments.len() > 1 && segments[segments.len() - 2].end >= len {
                segments.pop();
            }
            if let Some(last) = segments.last_mut() {
                last.end = len;
            }
            if segments.iter().all(|segment| segment.holder.is_nobody()) {
                segments.clear();
            }
        }
    }

    /// Lengthens the run: what nobody holds yet.
    pub(crate) fn extend(&mut self, len: u32) {
        for segments in &mut self.tiers {
            match segments.last_mut() {
                Some(last) if last.holder.is_nobody() => last.end = len,
                Some(last) if last.end < len => segments.push(Segment { end: len, holder: Holder::NOBODY }),
                _ => {}
            }
        }
    }

    /// Changes the holders of the blocks from `from` to `to` on a tier.
    pub(crate) fn change(
        &mut self,
        tier: Tier,
        (from, to, len): (u32, u32, u32),
        scratch: &mut Vec<Segment>,
        mut change: impl FnMut(Holder) -> Holder,
    ) {
        let segments = &mut self.tiers[tier.index()];
        if segments.is_empty() {
            segments.push(Segment { end: len, holder: Holder::NOBODY });
        }
        scratch.clear();
        let mut start = 0;
        for Segment { end, holder } in segments.drain(..) {
            push(scratch, start, end.min(from), || holder);
            push(scratch, start.max(from), end.min(to), || change(holder));
            push(scratch, start.max(to), end, || holder);
            start = end;
        }
        std::mem::swap(segments, scratch);
    }
}

fn push(segments: &mut Vec<Segment>, start: u32, end: u32, holder: impl FnOnce() -> Holder) {
    if start >= end {
        return;
    }
    let holder = holder();
    match segments.last_mut() {
        Some(last) if last.holder == holder => last.end = end,
        _ => segments.push(Segment { end, holder }),
    }
}

/// Where the segments of one tier of a run are. What a lookup reads may be outdated, therefore the counts are
/// bounded whatever they say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentCells {
    first: u32,
    count: u32,
}

// === impl SegmentCells ===

impl SegmentCells {
    /// Finds a tier's segments.
    pub(crate) fn of(cells: &Cells, cell: u32, tier: Tier) -> Self {
        let counts = cells.get(cell);
        let count = |tier: usize| (counts >> (COUNT_BITS * tier as u32)) as u32 & ((1 << COUNT_BITS) - 1);
        let before: u32 = (0..tier.index()).map(|tier| count(tier).min(RUN_LIMIT)).sum();
        Self { first: cell + 1 + before, count: count(tier.index()).min(RUN_LIMIT) }
    }

    /// Reads them.
    pub(crate) fn iter(self, cells: &Cells) -> impl Iterator<Item = Segment> + '_ {
        (self.first..self.first + self.count).map(|at| Segment::from_word(cells.get(at)))
    }
}
