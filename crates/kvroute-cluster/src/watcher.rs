//! Who is told how the sharing goes.

use std::fmt::Debug;

use kvroute_core::{Direction, MessageResult, SharingState};

/// Takes what happens to the sharing, for metrics. No call may block: some come from the path of a request.
pub trait SharingWatcher: Send + Sync + Debug + 'static {
    /// The sharing is in this state from now on.
    fn state(&self, state: SharingState);

    /// One message of any kind was sent or received, or is known to be missing.
    fn message(&self, direction: Direction, result: MessageResult);

    /// So many messages were not sent: there was no connection, or no room in the queue.
    fn dropped(&self, messages: u64);

    /// So many other replicas are there.
    fn peers(&self, peers: usize);
}
