//! A request before it is known what it asks for.

use std::sync::Arc;

use kvroute_metrics::RequestOutcome;
use kvroute_openai::Endpoint;

use crate::error::{ErrorKind, RouteError};
use crate::router::{Shared, route_label};

/// A request whose body is being read.
#[derive(Debug)]
#[must_use = "dropping it counts the request as cancelled"]
pub struct Unread {
    shared: Arc<Shared>,
    endpoint: Endpoint,
    is_open: bool,
}

// === impl Unread ===

impl Unread {
    /// A request whose head has come.
    pub(crate) const fn new(shared: Arc<Shared>, endpoint: Endpoint) -> Self {
        Self { shared, endpoint, is_open: true }
    }

    /// The body has come: from here on the request is counted where it is served.
    pub fn read(mut self) {
        self.is_open = false;
    }

    /// The router will not serve it.
    pub(crate) fn refused(mut self, error: &RouteError) {
        self.is_open = false;
        let outcome = match error.kind() {
            ErrorKind::BodyBroken(_) => RequestOutcome::Cancelled,
            _ => RequestOutcome::Rejected,
        };
        self.shared.metrics().unknown_model().count(route_label(self.endpoint), outcome);
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        if self.is_open {
            let requests = self.shared.metrics().unknown_model();
            requests.count(route_label(self.endpoint), RequestOutcome::Cancelled);
        }
    }
}
