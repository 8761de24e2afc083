//! The primitives that readers and writers meet at, replaced by loom's in its model tests.

#[cfg(not(all(test, loom)))]
mod real {
    use std::hint::spin_loop;
    pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};

    /// One writer at a time; what it guards are atomics, since readers do not wait for it.
    ///
    /// A cache line of its own: who waits for the turn must not take away the line that its holder writes.
    #[derive(Debug, Default)]
    #[repr(align(64))]
    pub(crate) struct Turn(parking_lot::Mutex<()>);

    /// A turn lasts some microseconds, which is less than it takes to sleep and to be woken; this is a few times as long.
    const LOOKS_BEFORE_SLEEP: usize = 400;

    /// Until it is dropped it is nobody else's turn.
    pub(crate) type TurnGuard<'a> = parking_lot::MutexGuard<'a, ()>;

    // === impl Turn ===

    impl Turn {
        pub(crate) fn take(&self) -> TurnGuard<'_> {
            for _ in 0..LOOKS_BEFORE_SLEEP {
                if !self.0.is_locked()
                    && let Some(turn) = self.0.try_lock()
                {
                    return turn;
                }
                spin_loop();
            }
            self.0.lock()
        }
    }

    /// Atomics that are all zero. The system gives memory that it zeroes when it is first touched, so what was never used
    /// is not resident.
    pub(crate) fn zeroed<A: bytemuck::Zeroable>(count: usize) -> Box<[A]> {
        bytemuck::zeroed_slice_box(count)
    }
}

#[cfg(all(test, loom))]
mod model {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};

    #[derive(Debug, Default)]
    pub(crate) struct Turn(loom::sync::Mutex<()>);

    pub(crate) type TurnGuard<'a> = loom::sync::MutexGuard<'a, ()>;

    // === impl Turn ===

    impl Turn {
        pub(crate) fn take(&self) -> TurnGuard<'_> {
            self.0.lock().unwrap()
        }
    }

    pub(crate) fn zeroed<A: Default>(count: usize) -> Box<[A]> {
        (0..count).map(|_| A::default()).collect()
    }
}

#[cfg(all(test, loom))]
pub(crate) use model::*;
#[cfg(not(all(test, loom)))]
pub(crate) use real::*;
