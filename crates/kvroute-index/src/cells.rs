//! Memory that writers fill while lookups read it, without a lock and without `unsafe`.
//!
//! A cell is an atomic 64-bit word. Cells come in chunks that are allocated once and never move, so an index
//! into them stays valid for ever: what a lookup reads there may be outdated, never out of bounds. Whoever
//! reads has to prove afterwards that nothing was reused meanwhile; [`Cells::set`] releases and
//! [`crate::sync::settle`] acquires, which makes that proof possible.

use crate::sync::{AtomicU64, OnceLock, Ordering};

/// Cells in a chunk.
pub(crate) const CHUNK: usize = 1 << CHUNK_BITS;
#[cfg(not(all(test, loom)))]
const CHUNK_BITS: usize = 14;
#[cfg(all(test, loom))]
const CHUNK_BITS: usize = 6;

type Chunk = Box<[AtomicU64; CHUNK]>;

/// A directory of chunks, of a fixed length.
#[derive(Debug)]
pub(crate) struct Cells {
    chunks: Box<[OnceLock<Chunk>]>,
}

// === impl Cells ===

impl Cells {
    /// Room for at most so many chunks; none is allocated yet.
    pub(crate) fn new(chunks: usize) -> Self {
        Self { chunks: (0..chunks).map(|_| OnceLock::new()).collect() }
    }

    /// Allocates a chunk; false if there is no room for it.
    pub(crate) fn grow(&self, chunk: usize) -> bool {
        let Some(place) = self.chunks.get(chunk) else { return false };
        place.get_or_init(|| {
            let cells: Vec<AtomicU64> = (0..CHUNK).map(|_| AtomicU64::new(0)).collect();
            match cells.into_boxed_slice().try_into() {
                Ok(chunk) => chunk,
                Err(_) => unreachable!("a chunk has exactly CHUNK cells"),
            }
        });
        true
    }

    /// Bytes of the directory.
    pub(crate) fn directory_bytes(&self) -> usize {
        size_of_val::<[_]>(&self.chunks)
    }

    /// The cell itself; `None` if its chunk was never allocated.
    pub(crate) fn cell(&self, at: u32) -> Option<&AtomicU64> {
        let at = at as usize;
        let chunk = self.chunks.get(at >> CHUNK_BITS)?.get()?;
        Some(&chunk[at & (CHUNK - 1)])
    }

    /// A value that may be outdated; zero where nothing is allocated.
    pub(crate) fn get(&self, at: u32) -> u64 {
        self.cell(at).map_or(0, |cell| cell.load(Ordering::Relaxed))
    }

    /// The newest value, and with it whatever its writer wrote before.
    pub(crate) fn acquire(&self, at: u32) -> u64 {
        self.cell(at).map_or(0, |cell| cell.load(Ordering::Acquire))
    }

    /// Writes a cell. Whoever sees the value sees all that was written before.
    pub(crate) fn set(&self, at: u32, value: u64) {
        if let Some(cell) = self.cell(at) {
            cell.store(value, Ordering::Release);
        }
    }
}
