//! Connections of clients that never became requests.

use std::sync::Arc;

use prometheus::IntCounter;

use crate::families::Families;
use crate::series::Scope;
use crate::{Plane, RefusedConnection};

/// The counters of one plane.
type OfPlane = [IntCounter; RefusedConnection::ALL.len()];

/// Counts refused connections of both planes. Cheap to clone; clones are the same counters.
#[derive(Clone, Debug)]
pub struct ConnectionMetrics {
    refused: Arc<([OfPlane; Plane::ALL.len()], Scope)>,
}

// === impl ConnectionMetrics ===

impl ConnectionMetrics {
    pub(crate) fn new(families: &Families) -> Self {
        let mut scope = Scope::default();
        let refused = Plane::ALL.map(|plane| {
            RefusedConnection::ALL
                .map(|reason| scope.hold(&families.refused_connections, [plane.as_str(), reason.as_str()]))
        });
        Self { refused: Arc::new((refused, scope)) }
    }

    /// Counts one connection that was refused.
    pub fn refuse(&self, plane: Plane, reason: RefusedConnection) {
        self.refused.0[plane as usize][reason as usize].inc();
    }
}
