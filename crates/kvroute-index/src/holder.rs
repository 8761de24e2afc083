//! Who holds a block, in 32 bits.
//!
//! Most blocks live on one rank or on two, so that is said without any memory. Larger sets live once, whatever
//! the number of runs that name them; equal sets have equal words, so that comparing is one instruction.

use kvroute_core::RankSlot;

/// A set of ranks, possibly empty, or a reference to the segments of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder(u32);

/// What a [`Holder`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// No rank.
    Nobody,
    /// Exactly one rank.
    One(RankSlot),
    /// Exactly two ranks, the smaller slot first.
    Two(RankSlot, RankSlot),
    /// Three or more, or two that do not fit the short form: a set at a cell.
    Set(u32),
    /// Differs along the run: segments at a cell.
    Segments(u32),
}

const KIND_SHIFT: u32 = 30;
const PAYLOAD: u32 = (1 << KIND_SHIFT) - 1;
const ONE: u32 = 0;
const TWO: u32 = 1;
const SET: u32 = 2;
const HALF: u32 = 15;

// === impl Holder ===

impl Holder {
    /// No rank.
    pub(crate) const NOBODY: Self = Self(0);
    /// Slots below this can be held by the index.
    pub(crate) const SLOT_LIMIT: u32 = 1 << 15;
    /// Cells below this can be referred to.
    pub(crate) const CELL_LIMIT: u32 = 1 << KIND_SHIFT;

    /// Exactly one rank.
    pub(crate) const fn one(slot: RankSlot) -> Self {
        Self(slot.get() + 1)
    }

    /// Two different ranks.
    pub(crate) fn two(left: RankSlot, right: RankSlot) -> Self {
        let (low, high) = if left < right { (left, right) } else { (right, left) };
        Self(TWO << KIND_SHIFT | low.get() << HALF | high.get())
    }

    /// The set at a cell.
    pub(crate) const fn set(cell: u32) -> Self {
        Self(SET << KIND_SHIFT | cell)
    }

    /// The segments at a cell.
    pub(crate) const fn segments(cell: u32) -> Self {
        Self(3 << KIND_SHIFT | cell)
    }

    /// The bare 32 bits.
    pub(crate) const fn get(self) -> u32 {
        self.0
    }

    /// Rebuilds a value that [`Holder::get`] gave.
    pub(crate) const fn from_raw(raw: u32) -> Self {
        Self(raw)
    }

    /// True for the empty set.
    pub(crate) fn is_nobody(self) -> bool {
        self == Self::NOBODY
    }

    /// Reads the word.
    pub(crate) const fn held(self) -> Held {
        let payload = self.0 & PAYLOAD;
        match self.0 >> KIND_SHIFT {
            ONE if payload == 0 => Held::Nobody,
            ONE => Held::One(RankSlot::new(payload - 1)),
            TWO => Held::Two(RankSlot::new(payload >> HALF), RankSlot::new(payload & ((1 << HALF) - 1))),
            SET => Held::Set(payload),
            _ => Held::Segments(payload),
        }
    }
}
