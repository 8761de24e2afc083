//! The tasks of one connection of HTTP/2: one for each stream, none of which outlives the connection.

use std::future::Future;
use std::time::Duration;

use hyper::rt::Executor;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::reading::Reading;

/// Starts the tasks of a connection's streams.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    tasks: TaskTracker,
    end: CancellationToken,
    stall: Duration,
}

// === impl Streams ===

impl Streams {
    /// Streams whose clients have to read within `stall`. All end with the guard.
    pub(super) fn new(stall: Duration) -> (Self, DropGuard) {
        let end = CancellationToken::new();
        (Self { tasks: TaskTracker::new(), end: end.clone(), stall }, end.drop_guard())
    }
}

impl<F> Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let watched = Reading::watch(stream, self.stall);
        let ended = self.end.clone().run_until_cancelled_owned(watched);
        self.tasks.spawn(async move {
            let _cut_or_done = ended.await;
        });
    }
}
