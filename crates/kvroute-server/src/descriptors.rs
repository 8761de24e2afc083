//! How many files and sockets this process may have open.
//!
//! Each request takes two sockets, the client's and the worker's, and many systems hand out no more than a thousand unless
//! they are asked. A router that runs out of them can neither accept nor send.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors beside those of connections: event sockets, files, the runtime's own.
const OTHERS: u64 = 256;

/// Raises the limit as far as this process may, and says so where it is less than that many connections would take.
pub(crate) fn raise_for(connections: usize) {
    let needed = u64::try_from(connections).unwrap_or(u64::MAX).saturating_mul(2).saturating_add(OTHERS);
    let limit = raised();
    // Without a number there is no limit.
    if let Some(limit) = limit.filter(|limit| *limit < needed) {
        tracing::warn!(
            limit,
            needed,
            connections,
            "this process may open fewer files than its connections take, each with one to a worker; raise its hard limit \
             (ulimit -Hn, LimitNOFILE=) or lower server.limits.connections"
        );
    }
}

/// The limit after it has been raised; `None`: there is none.
fn raised() -> Option<u64> {
    let now = getrlimit(Resource::Nofile);
    let most = Rlimit { current: now.maximum, maximum: now.maximum };
    match setrlimit(Resource::Nofile, most) {
        Ok(()) => now.maximum,
        Err(error) => {
            tracing::warn!(%error, "cannot raise the number of files that this process may open");
            now.current
        }
    }
}
