//! Requests that are given up by their id, as SGLang's `/abort_request` does.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// The requests under way, by id.
#[derive(Clone, Debug, Default)]
pub(super) struct Aborts(Arc<Mutex<HashMap<String, CancellationToken>>>);

/// One request under way.
#[derive(Debug)]
pub(super) struct Abort {
    aborts: Aborts,
    id: String,
    token: CancellationToken,
}

// === impl Aborts ===

impl Aborts {
    /// Begins a request.
    pub(super) fn register(&self, id: &str) -> Abort {
        let token = CancellationToken::new();
        self.0.lock().insert(id.to_owned(), token.clone());
        Abort { aborts: self.clone(), id: id.to_owned(), token }
    }

    /// Gives up one request, or all of them.
    pub(super) fn abort(&self, id: &str, all: bool) {
        let requests = self.0.lock();
        let is_meant = |name: &str| all || name == id;
        requests.iter().filter(|(name, _)| is_meant(name)).for_each(|(_, token)| token.cancel());
    }
}

// === impl Abort ===

impl Abort {
    /// Resolves when the request is given up.
    pub(super) async fn aborted(&self) {
        self.token.cancelled().await;
    }

    /// Whether it was given up.
    pub(super) fn is_aborted(&self) -> bool {
        self.token.is_cancelled()
    }
}

impl Drop for Abort {
    fn drop(&mut self) {
        self.aborts.0.lock().remove(&self.id);
    }
}
