//! Work that keeps a core busy for longer than requests may be held up.
//!
//! It runs on threads of its own, and no more of it at once than there are cores: with more, nothing is done sooner, and
//! the threads that move everybody's tokens get the less of the cores the more there are that only wait for each other.
//! Those who wait for their turn are served in the order in which they came.

use std::num::NonZero;
use std::sync::{Arc, LazyLock};
use std::thread::available_parallelism;

use tokio::sync::Semaphore;
use tokio::task::{JoinError, spawn_blocking};

/// Lets so many pieces of work run at once.
#[derive(Clone, Debug)]
pub(super) struct LongWork {
    turns: Arc<Semaphore>,
}

static OF_THIS_PROCESS: LazyLock<LongWork> = LazyLock::new(|| {
    // Where nobody can tell the number of cores, one thing is done after the other.
    LongWork::at_once(available_parallelism().map_or(1, NonZero::get))
});

// === impl LongWork ===

impl LongWork {
    /// The one of this process: its pools share the cores.
    pub(super) fn of_this_process() -> Self {
        OF_THIS_PROCESS.clone()
    }

    /// With so many turns.
    pub(super) fn at_once(turns: usize) -> Self {
        Self { turns: Arc::new(Semaphore::new(turns)) }
    }

    /// Waits for a turn and does the work. Whoever drops the future while it waits gives up its place; work that has
    /// begun keeps its turn to its end, for it cannot be stopped. Fails only if the work panics.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        // Nobody closes the semaphore. Should it be closed, the work is done all the same.
        let turn = Arc::clone(&self.turns).acquire_owned().await.ok();
        spawn_blocking(move || {
            let _until_the_end = turn;
            work()
        })
        .await
    }

    /// Turns that neither anybody has nor anybody waits for.
    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        self.turns.available_permits()
    }
}

#[cfg(test)]
mod tests;
