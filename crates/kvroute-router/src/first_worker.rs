//! The wait for the workers of a pool to say what they serve, before the first of them has.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kvroute_metrics::{QueueMetrics, QueueRefusal};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

/// Requests that may be for a pool of which nothing is known yet.
#[derive(Debug)]
pub(crate) struct FirstWorker {
    waiting: AtomicUsize,
    came: Notify,
    metrics: QueueMetrics,
    closing: CancellationToken,
}

/// One of those who wait.
struct Place<'a>(&'a AtomicUsize);

// === impl FirstWorker ===

impl FirstWorker {
    /// Nobody waits, and nobody does once `closing` is cancelled.
    pub(crate) const fn new(metrics: QueueMetrics, closing: CancellationToken) -> Self {
        Self { waiting: AtomicUsize::new(0), came: Notify::const_new(), metrics, closing }
    }

    /// More is known now of what is served.
    pub(crate) fn came(&self) {
        self.came.notify_waiters();
    }

    /// Waits until `is_there`, for as long as `patience` lasts, unless `limit` others wait already.
    pub(crate) async fn wait(&self, limit: usize, patience: Duration, is_there: impl Fn() -> bool) {
        let place = Place::take(&self.waiting);
        if place.number() > limit {
            return self.metrics.refused(QueueRefusal::NoWorker);
        }
        let (_counted, since) = (self.metrics.entered(), Instant::now());
        let until_there = async {
            loop {
                let came = self.came.notified();
                if is_there() {
                    return;
                }
                came.await;
            }
        };
        match self.closing.run_until_cancelled(timeout(patience, until_there)).await {
            Some(Ok(())) => self.metrics.waited(since.elapsed()),
            Some(Err(_elapsed)) => self.metrics.refused(QueueRefusal::NoWorker),
            None => self.metrics.refused(QueueRefusal::Stopping),
        }
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

    use kvroute_metrics::{Metrics, MetricsOptions};

    use super::*;

    fn nobody() -> FirstWorker {
        let metrics = Metrics::new(&MetricsOptions::default()).unwrap();
        FirstWorker::new(metrics.unknown_model_queue().clone(), CancellationToken::new())
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_wait_go_on_once_it_is_there_and_not_for_ever() {
        let (first, is_there) = (nobody(), AtomicBool::new(false));
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
        nobody().wait(0, Duration::MAX, || false).await;
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_a_worker_of_a_router_that_stops() {
        let first = nobody();
        let stops = async {
            tokio::task::yield_now().await;
            first.closing.cancel();
        };
        tokio::join!(first.wait(5, Duration::MAX, || false), stops);
        first.wait(5, Duration::MAX, || false).await;
    }
}
