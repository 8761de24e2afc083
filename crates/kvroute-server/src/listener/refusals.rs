//! What is told of connections that are refused before anybody could read a request of theirs: a count, and a name in the log.
//!
//! What hyper refuses it answers by itself, with a status and no body, and offers no place to say more; an answer that is
//! put in its place by what it looks like might be a worker's own.

use std::net::IpAddr;

use kvroute_metrics::{ConnectionMetrics, Plane, RefusedConnection};

/// Counts the refused connections of one plane. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Refusals {
    plane: Plane,
    metrics: ConnectionMetrics,
}

// === impl Refusals ===

impl Refusals {
    pub(crate) const fn new(plane: Plane, metrics: ConnectionMetrics) -> Self {
        Self { plane, metrics }
    }

    /// One more than may be at once.
    pub(super) fn beyond_limit(&self) {
        self.metrics.refuse(self.plane, RefusedConnection::Limit);
    }

    /// A connection ended by this error, which may be that its client sent what cannot be read.
    pub(super) fn ended(&self, peer: IpAddr, error: &hyper::Error) {
        let Some((reason, status)) = refused(error) else {
            return tracing::debug!(%error, "a client's connection ended early");
        };
        self.metrics.refuse(self.plane, reason);
        let (plane, reason) = (self.plane.as_str(), reason.as_str());
        tracing::info!(plane, reason, status, %peer, %error, "a request was refused before it could be read");
    }
}

/// Why hyper refused a request, and with which status; `None` where it did not.
fn refused(error: &hyper::Error) -> Option<(RefusedConnection, u16)> {
    if error.is_parse_too_large() {
        return Some((RefusedConnection::HeadTooLarge, 431));
    }
    error.is_parse().then_some((RefusedConnection::MalformedHead, 400))
}
