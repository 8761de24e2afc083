//! Which runs hang behind which: so that a new block is not looked for where it cannot be.
//!
//! A block that is not right behind its parent heads a run, and finding a head costs a read of far memory. That
//! read is spared where it cannot find anything: no run hangs behind the parent's run at that place, and every
//! run is known to hang where its parent is, or to begin at a root. A run whose parent was unknown when it
//! began, or left before it, counts as detached; while there is one, every new block is looked for.
//!
//! The number of a run is used again only after the last run that hangs behind it is gone, even if it is empty
//! by then: what is noted here refers to it.

use crate::run::{Location, RunId};

/// What stands before a run's first block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parent {
    /// Nothing.
    Root,
    /// A block that is not in the index, or not known.
    Unknown,
    /// A block of another run.
    Block(Location),
}

/// The runs behind each run.
#[derive(Debug, Default)]
pub(crate) struct Lineage {
    /// By the run's number.
    branches: Vec<Branches>,
    /// Runs that may hang behind a block that is elsewhere by now.
    detached: usize,
}

/// The runs behind one run: 22 bits of their number, 9 bits of the last offset that one was attached to, plus
/// one, and whether a block that one may hang behind has left.
#[derive(Clone, Copy, Debug, Default)]
struct Branches(u32);

const COUNT: u32 = (1 << 22) - 1;
const END_SHIFT: u32 = 22;
const END: u32 = (1 << 9) - 1;
const LOST: u32 = 1 << 31;

// === impl Lineage ===

impl Lineage {
    /// Bytes of the books.
    pub(crate) fn bytes(&self) -> usize {
        self.branches.capacity() * size_of::<Branches>()
    }

    /// Makes room for so many runs.
    pub(crate) fn grow(&mut self, runs: usize) {
        self.branches.reserve_exact(runs.saturating_sub(self.branches.len()));
        self.branches.resize(runs.max(self.branches.len()), Branches::default());
    }

    /// True if some run may hang behind a block that is not in the index.
    pub(crate) fn has_detached(&self) -> bool {
        self.detached > 0
    }

    /// True if a run may hang behind that block.
    pub(crate) fn may_branch(&self, at: Location) -> bool {
        self.detached > 0 || self.of(at.run()).is_some_and(|branches| at.offset() < branches.end())
    }

    /// Notes that a run begins. Returns what its record keeps of it for [`Lineage::detach`].
    pub(crate) fn attach(&mut self, parent: Parent) -> u32 {
        let at = match parent {
            Parent::Root => return 0,
            Parent::Block(at) => at,
            Parent::Unknown => Location::new(RunId::new(RunId::LIMIT), 0),
        };
        let branches = self.branches.get_mut(at.run().get() as usize).filter(|known| known.count() < COUNT);
        let Some(branches) = branches else {
            self.detached += 1;
            return RunId::LIMIT;
        };
        branches.add(at.offset());
        self.detached += usize::from(branches.is_lost());
        at.run().get()
    }

    /// Notes that a run ended. Returns its parent's run if that may now be used again, provided it is empty.
    pub(crate) fn detach(&mut self, kept: u32) -> Option<RunId> {
        if kept == 0 {
            return None;
        }
        let Some(branches) = self.branches.get_mut(kept as usize).filter(|known| known.count() > 0) else {
            self.detached -= 1;
            return None;
        };
        self.detached -= usize::from(branches.is_lost());
        branches.0 -= 1;
        if branches.count() > 0 {
            return None;
        }
        *branches = Branches::default();
        Some(RunId::new(kept))
    }

    /// Notes that a run keeps only so many blocks. True if nothing hangs behind it.
    pub(crate) fn shorten(&mut self, run: RunId, len: u32) -> bool {
        let Some(branches) = self.branches.get_mut(run.get() as usize) else { return true };
        if branches.end() > len && !branches.is_lost() {
            branches.0 |= LOST;
            self.detached += branches.count() as usize;
        }
        branches.count() == 0
    }

    fn of(&self, run: RunId) -> Option<Branches> {
        self.branches.get(run.get() as usize).copied()
    }
}

// === impl Branches ===

impl Branches {
    const fn count(self) -> u32 {
        self.0 & COUNT
    }

    const fn end(self) -> u32 {
        self.0 >> END_SHIFT & END
    }

    const fn is_lost(self) -> bool {
        self.0 & LOST != 0
    }

    fn add(&mut self, offset: u32) {
        let end = self.end().max(offset + 1);
        self.0 = (self.0 & !(END << END_SHIFT) | end << END_SHIFT) + 1;
    }
}
