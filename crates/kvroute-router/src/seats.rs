//! Whether a pool has room for one more prompt.

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::desk::Desk;
use crate::fleet::Fleet;
use crate::gate::Room;
use crate::lane::Lane;
use crate::roster::Crew;

/// The ranks of a pool and what is booked on them.
#[derive(Debug)]
pub(crate) struct Seats {
    desk: Arc<Desk>,
    fleet: Arc<ArcSwap<Fleet>>,
    /// The workers that are the pool's by their plan, whether they have joined it, another one or none.
    crew: Arc<Crew>,
}

// === impl Seats ===

impl Seats {
    /// The seats of a pool.
    pub(crate) const fn new(desk: Arc<Desk>, fleet: Arc<ArcSwap<Fleet>>, crew: Arc<Crew>) -> Self {
        Self { desk, fleet, crew }
    }

    /// Whether there is nothing to wait for: no rank of the pool will do, and none that could is still to come. That
    /// one is away is no such thing, and neither is that a worker has left to join anew.
    pub(crate) fn is_hopeless(&self, lane: &Lane) -> bool {
        if lane.pin.is_none() && lane.adapter.is_none() {
            return false;
        }
        if self.fleet.load().suiting(lane).next().is_some() {
            return false;
        }
        // A worker is no member before its ranks belong to the fleet, nor once they are about to leave it: whoever comes
        // or goes while this looks is seen as no member on one side of the fleet or on the other.
        let may_come = || {
            let crew = self.crew.now();
            crew.iter().any(|worker| !worker.is_member() && lane.may_suit(worker))
        };
        let (might_come, fleet) = (may_come(), self.fleet.load());
        let is_bound = fleet.home_of(lane).is_some();
        fleet.suiting(lane).next().is_none() && (is_bound || !might_come && !may_come())
    }
}

impl Room for Seats {
    type Lane = Lane;

    /// Whoever waits in vain is let in too: it is told so at once.
    fn has_room(&self, lane: &Lane) -> bool {
        let has_seat = || {
            let fleet = self.fleet.load();
            self.desk.has_room(fleet.usable(lane))
        };
        has_seat() || self.is_hopeless(lane)
    }
}

#[cfg(test)]
mod tests;
