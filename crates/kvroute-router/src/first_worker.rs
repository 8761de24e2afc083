//! The wait for a worker of any model, before the first one has said what it serves.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

/// Requests that came before any pool exists.
#[derive(Debug, Default)]
pub(crate) struct FirstWorker {
    waiting: AtomicUsize,
    came: Notify,
}

/// One of those who wait.
struct Place<'a>(&'a AtomicUsize);

// === impl FirstWorker ===

impl FirstWorker {
    /// A pool exists now.
    pub(crate) fn came(&self) {
        self.came.notify_waiters();
    }

    /// Waits until `is_there`, for as long as `patience` lasts, unless `limit` others wait already.
    pub(crate) async fn wait(&self, limit: usize, patience: Duration, is_there: impl Fn() -> bool) {
        let waiting = Place::take(&self.waiting);
        if waiting.number() > limit {
            return;
        }
        let until_there = async {
            loop {
                let came = self.came.notified();
                if is_there() {
                    return;
                }
                came.await;
            }
        };
        let _in_time = timeout(patience, until_there).await;
    }
}

// === impl Place ===

impl<'a> Place<'a> {
    fn take(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }

    fn number(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn those_who_wait_go_on_once_it_is_there_and_not_for_ever() {
        let (first, is_there) = (FirstWorker::default(), AtomicBool::new(false));
        let look = || is_there.load(Ordering::Relaxed);
        first.wait(5, Duration::from_secs(30), look).await;
        let comes = async {
            tokio::task::yield_now().await;
            is_there.store(true, Ordering::Relaxed);
            first.came();
        };
        tokio::join!(first.wait(5, Duration::MAX, look), first.wait(5, Duration::MAX, look), comes);
        assert_eq!(first.waiting.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn one_too_many_does_not_wait() {
        FirstWorker::default().wait(0, Duration::MAX, || false).await;
    }
}
