//! A request before it is known what it asks for.

use std::sync::Arc;

use http::HeaderValue;
use kvroute_metrics::RequestOutcome;
use kvroute_openai::Endpoint;
use tokio::time::Instant;

use crate::error::{ErrorKind, RouteError};
use crate::router::{Shared, route_label};
use crate::trail::Trail;

/// A request of which the headers have come.
#[derive(Debug)]
pub struct Arrival {
    pub(crate) endpoint: Endpoint,
    pub(crate) request_id: HeaderValue,
    pub(crate) received: Instant,
    pub(crate) trail: Trail,
}

/// A request whose body is being read.
#[derive(Debug)]
#[must_use = "dropping it counts the request as cancelled"]
pub struct Unread {
    uncounted: Uncounted,
    arrival: Arrival,
}

/// Counts a request as cancelled, unless it is counted otherwise.
#[derive(Debug)]
struct Uncounted {
    shared: Arc<Shared>,
    endpoint: Endpoint,
    is_open: bool,
}

// === impl Unread ===

impl Unread {
    /// A request whose head has come.
    pub(crate) const fn new(shared: Arc<Shared>, arrival: Arrival) -> Self {
        Self { uncounted: Uncounted { shared, endpoint: arrival.endpoint, is_open: true }, arrival }
    }

    /// The body has come: from here on the request is counted where it is served.
    pub fn read(mut self) -> Arrival {
        self.uncounted.is_open = false;
        self.arrival
    }

    /// The router will not serve it.
    pub(crate) fn refused(mut self, error: &RouteError) -> Arrival {
        let outcome = match error.kind() {
            ErrorKind::BodyBroken(_) => RequestOutcome::Cancelled,
            _ => RequestOutcome::Rejected,
        };
        self.uncounted.count(outcome);
        self.arrival.trail.refused(error);
        self.arrival
    }
}

// === impl Uncounted ===

impl Uncounted {
    fn count(&mut self, outcome: RequestOutcome) {
        self.is_open = false;
        self.shared.metrics().unknown_model().count(route_label(self.endpoint), outcome);
    }
}

impl Drop for Uncounted {
    fn drop(&mut self) {
        if self.is_open {
            self.count(RequestOutcome::Cancelled);
        }
    }
}
