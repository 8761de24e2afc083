//! Runs: up to 256 consecutive blocks of one chain in one record.
//!
//! Sequence hashes are chained, so equal hashes at a run's end mean equal blocks all along. A run never moves
//! and is never split; a block's place in it is its identity for as long as anybody holds it.
//!
//! A run is published by one word, its state: how many blocks, who holds them, and a version that every change
//! advances. A lookup reads the state, then what it refers to, then the state again: an equal one proves that
//! nothing of it was reused in between. A different one means that a writer completed a change, never that
//! one is under way, so that a lookup waits for nobody.

use kvroute_core::SequenceHash;

use crate::cells::Cells;
use crate::holder::Holder;
use crate::sync::{Ordering, settle};

/// Blocks in a run at most.
#[cfg(not(all(test, loom)))]
pub(crate) const RUN_LIMIT: u32 = 256;
#[cfg(all(test, loom))]
pub(crate) const RUN_LIMIT: u32 = 8;

/// Cells of a run's record: its state, and its place.
pub(crate) const RECORD: u32 = 2;

/// Number of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RunId(u32);

/// Where a block is: a run, and the block's offset in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Location(u32);

/// How long a run is and who holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunState(u64);

/// Where a run's hashes are, when it was last used, and what stands before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunPlace(u64);

/// Run records and the cells that they refer to.
#[derive(Debug)]
pub(crate) struct Runs {
    records: Cells,
    /// Hashes, segments and sets.
    pub(crate) cells: Cells,
}

const LENGTH_SHIFT: u32 = 32;
const VERSION_SHIFT: u32 = 41;
const LENGTH: u64 = (1 << (VERSION_SHIFT - LENGTH_SHIFT)) - 1;
const ERA_SHIFT: u32 = 32;
const PARENT_SHIFT: u32 = 40;

// === impl RunId ===

impl RunId {
    /// Numbers below this can be part of a [`Location`]; zero names no run.
    pub(crate) const LIMIT: u32 = (1 << 24) - 1;

    /// Wraps a number.
    pub(crate) const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number itself.
    pub(crate) const fn get(self) -> u32 {
        self.0
    }

    const fn state_cell(self) -> u32 {
        self.0 * RECORD
    }

    const fn place_cell(self) -> u32 {
        self.0 * RECORD + 1
    }
}

// === impl Location ===

impl Location {
    /// A block of a run.
    pub(crate) const fn new(run: RunId, offset: u32) -> Self {
        Self(run.0 << 8 | offset)
    }

    /// Rebuilds a value that [`Location::get`] gave.
    pub(crate) const fn from_raw(raw: u32) -> Self {
        Self(raw)
    }

    /// The bare 32 bits.
    pub(crate) const fn get(self) -> u32 {
        self.0
    }

    /// The run.
    pub(crate) const fn run(self) -> RunId {
        RunId(self.0 >> 8)
    }

    /// Blocks of the run before this one.
    pub(crate) const fn offset(self) -> u32 {
        self.0 & 0xFF
    }
}

// === impl RunState ===

impl RunState {
    /// Blocks of the run; zero if there is none of this number.
    pub(crate) const fn len(self) -> u32 {
        (self.0 >> LENGTH_SHIFT & LENGTH) as u32
    }

    /// Who holds it.
    pub(crate) const fn holder(self) -> Holder {
        Holder::from_raw(self.0 as u32)
    }

    /// The next state: another version, whatever the contents.
    pub(crate) const fn next(self, len: u32, holder: Holder) -> Self {
        let version = (self.0 >> VERSION_SHIFT).wrapping_add(1);
        Self(version << VERSION_SHIFT | (len as u64) << LENGTH_SHIFT | holder.get() as u64)
    }
}

// === impl RunPlace ===

impl RunPlace {
    /// Hashes at a cell, used in an era, behind a run.
    pub(crate) const fn new(cell: u32, era: u8, parent: u32) -> Self {
        Self((parent as u64) << PARENT_SHIFT | (era as u64) << ERA_SHIFT | cell as u64)
    }

    /// Cell of the first hash.
    pub(crate) const fn cell(self) -> u32 {
        self.0 as u32
    }

    /// When the run was last used.
    pub(crate) const fn era(self) -> u8 {
        (self.0 >> ERA_SHIFT) as u8
    }

    /// What [`crate::lineage::Lineage::attach`] gave.
    pub(crate) const fn parent(self) -> u32 {
        (self.0 >> PARENT_SHIFT) as u32
    }

    /// The same place in another era.
    pub(crate) const fn used_in(self, era: u8) -> Self {
        Self::new(self.cell(), era, self.parent())
    }

    /// The same hashes elsewhere.
    pub(crate) const fn moved_to(self, cell: u32) -> Self {
        Self::new(cell, self.era(), self.parent())
    }
}

// === impl Runs ===

impl Runs {
    /// Empty, with a directory for at most so many chunks of cells.
    pub(crate) fn new(chunks: usize) -> Self {
        let most_records = (RunId::LIMIT * RECORD) as usize / crate::cells::CHUNK;
        Self { records: Cells::new(chunks.min(most_records)), cells: Cells::new(chunks) }
    }

    /// The chunks of the records.
    pub(crate) const fn records(&self) -> &Cells {
        &self.records
    }

    /// Bytes of the directories.
    pub(crate) fn directory_bytes(&self) -> usize {
        self.records.directory_bytes() + self.cells.directory_bytes()
    }

    /// A run's state, for the proof that it holds still.
    pub(crate) fn state(&self, run: RunId) -> RunState {
        RunState(self.records.acquire(run.state_cell()))
    }

    /// True if nothing that was read since `state` was taken can have been reused.
    pub(crate) fn is_still(&self, run: RunId, state: RunState) -> bool {
        settle();
        self.records.get(run.state_cell()) == state.0
    }

    /// Where a run's hashes are.
    pub(crate) fn place(&self, run: RunId) -> RunPlace {
        RunPlace(self.records.acquire(run.place_cell()))
    }

    /// The hash of a block of a run.
    pub(crate) fn hash(&self, place: RunPlace, offset: u32) -> SequenceHash {
        SequenceHash::from_raw(self.cells.get(place.cell().wrapping_add(offset)))
    }

    /// The hash of the block at a location.
    pub(crate) fn sequence(&self, at: Location) -> SequenceHash {
        self.hash(self.place(at.run()), at.offset())
    }

    /// Publishes a run's state. What it refers to is written before.
    pub(crate) fn publish(&self, run: RunId, state: RunState) {
        self.records.set(run.state_cell(), state.0);
    }

    /// Says where a run's hashes are. Those of the published length are the same in both places.
    pub(crate) fn relocate(&self, run: RunId, place: RunPlace) {
        self.records.set(run.place_cell(), place.0);
    }

    /// Notes that a lookup used a run. One that meets a writer gives way: the writer notes the same.
    pub(crate) fn mark(&self, run: RunId, place: RunPlace, era: u8) {
        if let Some(cell) = self.records.cell(run.place_cell()) {
            let _ =
                cell.compare_exchange(place.0, place.used_in(era).0, Ordering::Release, Ordering::Relaxed);
        }
    }
}
