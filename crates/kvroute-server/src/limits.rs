//! What clients may take of this process: connections, time, requests at once and requests in a time.

use std::sync::Arc;
use std::time::Duration;

use kvroute_router::{ErrorKind, RouteError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::rate::{Meter, Rate};

/// Limits of the planes, of which the first two groups hold for each connection of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections that a plane serves at once.
    pub connections: usize,
    /// Requests that one connection of HTTP/2 may carry at once.
    pub streams: u32,
    /// Time for a request's head, and for what comes before the first one.
    pub head: Duration,
    /// Time for a request's body.
    pub body: Duration,
    /// How long a connection may stay open without a request.
    pub keep_alive: Duration,
    /// How long a client may read nothing of what is there for it.
    pub stall: Duration,
    /// Requests of the data plane that are served at once; `None`: any number.
    pub requests: Option<usize>,
    /// How often requests may come to the data plane; `None`: as often as they like.
    pub rate: Option<Rate>,
}

/// Counts the requests of the data plane against its limits.
#[derive(Clone, Debug)]
pub(crate) struct Turnstile {
    rate: Option<Arc<Meter>>,
    places: Option<(Arc<Semaphore>, usize)>,
}

// === impl Limits ===

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            streams: 1_000,
            head: Duration::from_secs(30),
            body: Duration::from_secs(120),
            keep_alive: Duration::from_secs(90),
            stall: Duration::from_secs(120),
            requests: None,
            rate: None,
        }
    }
}

// === impl Turnstile ===

impl Turnstile {
    pub(crate) fn new(limits: &Limits) -> Self {
        let places = limits.requests.map(|most| (Arc::new(Semaphore::new(most)), most));
        Self { rate: limits.rate.map(Meter::new).map(Arc::new), places }
    }

    /// For limits that may be the same: then what was counted by `before` still counts.
    pub(crate) fn succeeding(before: &Self, limits: &Limits) -> Self {
        let mut turnstile = Self::new(limits);
        if before.rate.as_ref().map(|meter| meter.rate()) == limits.rate {
            turnstile.rate.clone_from(&before.rate);
        }
        if before.places.as_ref().map(|(_, most)| *most) == limits.requests {
            turnstile.places.clone_from(&before.places);
        }
        turnstile
    }

    /// Lets one more request in, for as long as the permit is kept.
    pub(crate) fn enter(&self, now: Instant) -> Result<Option<OwnedSemaphorePermit>, RouteError> {
        if let Some(meter) = &self.rate {
            meter.admit(now).map_err(too_many)?;
        }
        let Some((places, _most)) = &self.places else { return Ok(None) };
        let place = Arc::clone(places).try_acquire_owned();
        let full = ErrorKind::Overloaded { limit: "server.limits.requests" };
        place.map(Some).map_err(|_full| RouteError::router(full))
    }
}

/// More requests in a time than the rate allows.
pub(crate) fn too_many(retry_after: Duration) -> RouteError {
    RouteError::client(ErrorKind::TooManyRequests { retry_after })
}
