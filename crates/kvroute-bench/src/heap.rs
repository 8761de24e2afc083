//! An allocator that knows how many bytes are live.
//!
//! It counts only when asked to: a shared counter would slow down whoever allocates on two threads at once, and the
//! indexes that are compared differ in just that.

#![expect(unsafe_code, reason = "an allocator is an unsafe trait; this one hands everything to the system's")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering::Relaxed};

/// The system's allocator, with a count.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static IS_COUNTING: AtomicBool = AtomicBool::new(false);
static LIVE: AtomicIsize = AtomicIsize::new(0);

/// Bytes that came alive since the count began. Everything that counts must begin and end its life while it runs.
#[derive(Debug)]
pub(crate) struct HeapCount {
    start: isize,
}

// === impl HeapCount ===

impl HeapCount {
    pub(crate) fn start() -> Self {
        IS_COUNTING.store(true, Relaxed);
        Self { start: LIVE.load(Relaxed) }
    }

    /// Bytes asked for and not given back; what the allocator itself adds is not in it.
    pub(crate) fn live(&self) -> isize {
        LIVE.load(Relaxed) - self.start
    }
}

impl Drop for HeapCount {
    fn drop(&mut self) {
        IS_COUNTING.store(false, Relaxed);
    }
}

// === impl Counting ===

// SAFETY: every call goes to the system's allocator with the arguments that came in.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        unsafe { System.realloc(pointer, layout, size) }
    }
}

fn count(bytes: isize) {
    if IS_COUNTING.load(Relaxed) {
        LIVE.fetch_add(bytes, Relaxed);
    }
}
