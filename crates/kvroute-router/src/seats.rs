//! Whether a pool has room for one more prompt.

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::desk::Desk;
use crate::gate::{Room, Ticket};
use crate::pool::Fleet;
use crate::rank::Rank;

/// The ranks of a pool and what is booked on them.
#[derive(Debug)]
pub(crate) struct Seats {
    desk: Arc<Desk>,
    fleet: Arc<ArcSwap<Fleet>>,
}

// === impl Seats ===

impl Seats {
    /// The seats of a pool.
    pub(crate) const fn new(desk: Arc<Desk>, fleet: Arc<ArcSwap<Fleet>>) -> Self {
        Self { desk, fleet }
    }
}

impl Room for Seats {
    fn has_room(&self, ticket: &Ticket) -> bool {
        self.desk.has_room(usable(&self.fleet.load(), ticket))
    }
}

/// Ranks that take requests and that this one may use.
fn usable<'a>(fleet: &'a Fleet, ticket: &'a Ticket) -> impl Iterator<Item = &'a Arc<Rank>> {
    let is_allowed = |rank: &&Arc<Rank>| ticket.only.as_ref().is_none_or(|only| only.contains(&rank.slot));
    fleet.ranks.iter().filter(|rank| rank.worker.takes_requests()).filter(is_allowed)
}
