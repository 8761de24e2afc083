//! Figures of each rank that anybody reads without a lock.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use kvroute_core::{BlockSize, Blocks, RankSlot};

use crate::holder::Holder;

const RANKS_IN_PART: usize = 64;

type Part = Box<[Figures; RANKS_IN_PART]>;

/// One entry a slot.
#[derive(Debug)]
pub(crate) struct Board {
    parts: Box<[OnceLock<Part>]>,
    /// Slots from here on never had an entry.
    slots: AtomicU32,
}

/// What is known of one rank.
#[derive(Debug, Default)]
struct Figures {
    blocks: AtomicU64,
    orphans: AtomicU64,
    /// Zero before the first event.
    block_size: AtomicU32,
}

// === impl Board ===

impl Board {
    pub(crate) fn new() -> Self {
        let parts = Holder::SLOT_LIMIT as usize / RANKS_IN_PART;
        Self { parts: (0..parts).map(|_| OnceLock::new()).collect(), slots: AtomicU32::new(0) }
    }

    /// Bytes, with the entries of so many slots.
    pub(crate) fn bytes() -> usize {
        Holder::SLOT_LIMIT as usize / RANKS_IN_PART * size_of::<OnceLock<Part>>()
    }

    /// Number of slots that may hold something.
    pub(crate) fn slots(&self) -> usize {
        self.slots.load(Relaxed) as usize
    }

    /// Writes a rank's figures.
    pub(crate) fn write(
        &self,
        slot: RankSlot,
        blocks: Blocks,
        orphans: Blocks,
        block_size: Option<BlockSize>,
    ) {
        let Some(part) = self.parts.get(slot.index() / RANKS_IN_PART) else { return };
        let figures = &part.get_or_init(|| Box::new(std::array::from_fn(|_| Figures::default())))
            [slot.index() % RANKS_IN_PART];
        figures.blocks.store(blocks.get(), Relaxed);
        figures.orphans.store(orphans.get(), Relaxed);
        figures.block_size.store(block_size.map_or(0, BlockSize::get), Relaxed);
        if self.slots() <= slot.index() {
            self.slots.fetch_max(slot.get() + 1, Relaxed);
        }
    }

    pub(crate) fn blocks(&self, slot: RankSlot) -> Blocks {
        self.figures(slot).map_or(Blocks::ZERO, |figures| Blocks::new(figures.blocks.load(Relaxed)))
    }

    pub(crate) fn orphans(&self, slot: RankSlot) -> Blocks {
        self.figures(slot).map_or(Blocks::ZERO, |figures| Blocks::new(figures.orphans.load(Relaxed)))
    }

    pub(crate) fn block_size(&self, slot: RankSlot) -> Option<BlockSize> {
        self.figures(slot).and_then(|figures| BlockSize::new(figures.block_size.load(Relaxed)).ok())
    }

    fn figures(&self, slot: RankSlot) -> Option<&Figures> {
        let part = self.parts.get(slot.index() / RANKS_IN_PART)?.get()?;
        Some(&part[slot.index() % RANKS_IN_PART])
    }
}
