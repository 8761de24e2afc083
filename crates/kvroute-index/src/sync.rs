//! The primitives that readers and writers meet at, replaced by loom's in its model tests.

pub(crate) use std::sync::OnceLock;
#[cfg(not(all(test, loom)))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(all(test, loom))]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};

/// Ends an optimistic read: every load before it comes before every load behind it. If one of the former saw a
/// value that was written for a later use of its cell, the latter see that the earlier use had ended.
pub(crate) fn settle() {
    fence(Ordering::Acquire);
}
