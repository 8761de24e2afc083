//! How often this thread has taken the lock of a family.

use std::cell::Cell;

thread_local! {
    static TAKEN: Cell<usize> = const { Cell::new(0) };
}

pub(crate) fn count_one() {
    TAKEN.set(TAKEN.get() + 1);
}

/// How often `work` takes one.
pub(crate) fn taken_by(work: impl FnOnce()) -> usize {
    let before = TAKEN.get();
    work();
    TAKEN.get() - before
}
