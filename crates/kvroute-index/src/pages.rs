//! Pieces of cells of many sizes, allocated and freed without end in a bounded number of chunks.
//!
//! A page holds pieces of one size. A page that became empty serves any size again, and where no page is left
//! a larger piece serves a smaller wish, so that memory which one workload cut up still serves the next.

use crate::cells::{CHUNK, Cells};

/// Cells in a page.
#[cfg(not(all(test, loom)))]
pub(crate) const PAGE: u32 = 1024;
#[cfg(all(test, loom))]
pub(crate) const PAGE: u32 = 16;

const PAGES_IN_CHUNK: u32 = CHUNK as u32 / PAGE;

/// Piece sizes: steps of at most a fifth, so that little of a piece stays unused.
#[cfg(not(all(test, loom)))]
const SIZES: [u16; 32] = [
    1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 18, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192,
    224, 256, 341, 512, 1024,
];
#[cfg(all(test, loom))]
const SIZES: [u16; 5] = [1, 2, 4, 8, 16];

const NONE: u16 = u16::MAX;
const UNLISTED: u32 = u32::MAX;

/// The allocator's books. The cells themselves are elsewhere; a free piece keeps the next free one of its page
/// in its first cell.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    pages: Vec<Page>,
    empty: Vec<u32>,
    partial: [Vec<u32>; SIZES.len()],
    chunks: usize,
    used: usize,
}

#[derive(Clone, Copy, Debug)]
struct Page {
    size: u8,
    live: u16,
    /// First free piece, by its number in the page.
    free: u16,
    /// Pieces from this one on were never used.
    fresh: u16,
    /// Position in the list of its size's partial pages.
    listed: u32,
}

// === impl Pages ===

impl Pages {
    /// Bytes of chunks and books.
    pub(crate) fn bytes(&self) -> usize {
        self.chunks * CHUNK * 8 + self.pages.capacity() * (size_of::<Page>() + 8)
    }

    /// Cells in pieces that are in use.
    pub(crate) const fn used(&self) -> usize {
        self.used
    }

    /// Cells that are in chunks and not in use.
    pub(crate) const fn free(&self) -> usize {
        self.chunks * CHUNK - self.used
    }

    /// Pages without any piece.
    pub(crate) fn empty_pages(&self) -> usize {
        self.empty.len()
    }

    /// True if some free piece has that many cells.
    pub(crate) fn has_piece(&self, cells: u32) -> bool {
        !self.empty.is_empty() || self.partial[class_of(cells)..].iter().any(|pages| !pages.is_empty())
    }

    /// Adds a chunk's pages; false if the directory is full.
    pub(crate) fn grow(&mut self, cells: &Cells) -> bool {
        if !cells.grow(self.chunks) {
            return false;
        }
        self.chunks += 1;
        let first = self.pages.len() as u32;
        let page = Page { size: 0, live: 0, free: NONE, fresh: 0, listed: UNLISTED };
        self.pages.extend((0..PAGES_IN_CHUNK).map(|_| page));
        self.empty.extend((first..first + PAGES_IN_CHUNK).rev());
        true
    }

    /// Cells of the piece that a wish for so many gets.
    pub(crate) fn round_up(cells: u32) -> u32 {
        SIZES[class_of(cells)] as u32
    }

    /// Cells of the piece at a cell.
    pub(crate) fn size_at(&self, at: u32) -> u32 {
        u32::from(SIZES[usize::from(self.pages[(at / PAGE) as usize].size)])
    }

    /// A piece of at least so many cells, from the memory that there is.
    pub(crate) fn take(&mut self, cells: &Cells, wished: u32) -> Option<u32> {
        let class = class_of(wished);
        if let Some(page) = self.partial[class].last() {
            return Some(self.take_from(cells, *page));
        }
        if let Some(page) = self.empty.pop() {
            self.open(page, class);
            return Some(self.take_from(cells, page));
        }
        let larger = self.partial[class..].iter().find_map(|pages| pages.last().copied())?;
        Some(self.take_from(cells, larger))
    }

    /// The largest free piece below a size, for what may as well be kept in smaller portions.
    pub(crate) fn take_smaller(&mut self, cells: &Cells, wished: u32) -> Option<u32> {
        let smaller =
            self.partial[..class_of(wished)].iter().rev().find_map(|pages| pages.last().copied())?;
        Some(self.take_from(cells, smaller))
    }

    /// Gives a piece back.
    pub(crate) fn give(&mut self, cells: &Cells, at: u32) {
        let number = at / PAGE;
        let page = &mut self.pages[number as usize];
        let class = usize::from(page.size);
        let size = u32::from(SIZES[class]);
        self.used -= size as usize;
        cells.set(at, u64::from(page.free));
        page.free = (at % PAGE / size) as u16;
        page.live -= 1;
        if page.live == 0 {
            self.unlist(number, class);
            self.empty.push(number);
        } else if page.listed == UNLISTED {
            page.listed = self.partial[class].len() as u32;
            self.partial[class].push(number);
        }
    }

    fn open(&mut self, number: u32, class: usize) {
        let listed = self.partial[class].len() as u32;
        self.pages[number as usize] = Page { size: class as u8, live: 0, free: NONE, fresh: 0, listed };
        self.partial[class].push(number);
    }

    fn take_from(&mut self, cells: &Cells, number: u32) -> u32 {
        let page = &mut self.pages[number as usize];
        let class = usize::from(page.size);
        let size = u32::from(SIZES[class]);
        let piece = if page.free == NONE {
            page.fresh += 1;
            page.fresh - 1
        } else {
            page.free
        };
        let at = number * PAGE + u32::from(piece) * size;
        if piece == page.free {
            page.free = cells.get(at) as u16;
        }
        page.live += 1;
        self.used += size as usize;
        let is_full = page.free == NONE && (u32::from(page.fresh) + 1) * size > PAGE;
        if is_full {
            self.unlist(number, class);
        }
        at
    }

    fn unlist(&mut self, number: u32, class: usize) {
        let listed = self.pages[number as usize].listed;
        if listed == UNLISTED {
            return;
        }
        self.pages[number as usize].listed = UNLISTED;
        self.partial[class].swap_remove(listed as usize);
        if let Some(moved) = self.partial[class].get(listed as usize) {
            self.pages[*moved as usize].listed = listed;
        }
    }
}

/// Class by the number of cells wished.
static CLASSES: [u8; PAGE as usize + 1] = {
    let mut classes = [0; PAGE as usize + 1];
    let mut cells = 0;
    while cells < classes.len() {
        let mut class = 0;
        while (SIZES[class] as usize) < cells {
            class += 1;
        }
        classes[cells] = class as u8;
        cells += 1;
    }
    classes
};

/// The class of the smallest pieces that have so many cells.
fn class_of(cells: u32) -> usize {
    usize::from(CLASSES[cells.min(PAGE) as usize])
}
