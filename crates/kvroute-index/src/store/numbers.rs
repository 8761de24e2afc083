//! Numbers of runs, and the records that they stand for.

use super::Store;
use crate::cells::CHUNK;
use crate::run::{RECORD, RunId, RunPlace};
use crate::shelf::Shelf;

// === impl Store ===

impl Store {
    /// An unused number for a run; `None` if there are too many runs.
    pub(crate) fn reserve_run(&mut self, shelf: &Shelf) -> Option<RunId> {
        if self.free_run != 0 {
            let run = RunId::new(self.free_run);
            self.free_run = shelf.runs.place(run).cell();
            self.free_runs -= 1;
            return Some(run);
        }
        let number = self.fresh_run + 1;
        if number >= RunId::LIMIT {
            return None;
        }
        let has_record = (number as usize + 1) * RECORD as usize <= self.record_chunks * CHUNK;
        if !has_record && !self.grow_records(shelf) {
            return None;
        }
        self.fresh_run = number;
        Some(RunId::new(number))
    }

    pub(super) fn grow_records(&mut self, shelf: &Shelf) -> bool {
        if !shelf.runs.records().grow(self.record_chunks) {
            return false;
        }
        self.record_chunks += 1;
        self.lineage.grow(self.record_chunks * CHUNK / RECORD as usize);
        true
    }

    /// Gives a number back whose run was never filled, or is empty again.
    pub(crate) fn return_run(&mut self, shelf: &Shelf, run: RunId) {
        shelf.runs.relocate(run, RunPlace::new(self.free_run, 0, 0));
        self.free_run = run.get();
        self.free_runs += 1;
    }

    /// True if nearly all records of runs are in use.
    pub(crate) fn is_short_of_runs(&self) -> bool {
        let records = self.record_chunks * CHUNK / RECORD as usize;
        let unused = self.free_runs as usize + records.saturating_sub(self.fresh_run as usize + 1);
        unused < records / 16
    }
}
