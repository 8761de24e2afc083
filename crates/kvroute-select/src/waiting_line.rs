//! Requests that wait for a rank with room, and who of them is next.
//!
//! The line is bounded: beyond its limit a newcomer is refused, since a longer line only makes everybody wait longer.
//!
//! A request that only some ranks may serve must not hold up those that others may serve. Requests that the same ranks
//! may serve stand in a lane of their own; whether there is room is asked once a lane, however many wait in it. What
//! makes a lane is up to the owner, and should say what a rank must be rather than which ones are it: ranks come and go
//! while a request waits.
//!
//! Shortest first alone would leave a long prompt standing for as long as shorter ones arrive. So everybody has a
//! moment from which nobody who comes later is let pass: arrival, and then a time that grows with the prompt and stays
//! below the line's patience. Those who arrived together leave shortest first; a prompt of any length lets only those
//! pass who arrive within the patience; and since the moment never changes, nor does the order of those who wait.

mod place;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kvroute_core::{Tokens, closed_label};
use thiserror::Error;

use place::{Place, yielding};

closed_label! {
    /// Who of those with the same priority is next.
    QueueOrder {
        /// Whoever arrived first.
        Fcfs = "fcfs",
        /// Whoever has the fewest tokens to compute, among those who arrived at about the same time.
        ShortestPrefill = "shortest-prefill",
    }
}

/// What the line must know of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket<L> {
    /// Higher goes first, whatever the order of the line.
    pub priority: i32,
    /// What a rank would have to compute for it.
    pub uncached: Tokens,
    /// What a rank must be to serve it. Requests of equal lanes may be served by the same ranks.
    pub lane: L,
    /// When it arrived, by the clock that all tickets share.
    pub arrived: Duration,
}

/// Names one who waits; never given twice by the same line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TicketId(Place);

/// The line has as many as it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{waiting} requests wait already")]
pub struct LineFull {
    /// How many wait.
    pub waiting: usize,
}

/// A bounded line of requests, each with something that its owner keeps for it.
#[derive(Debug)]
pub struct WaitingLine<L, T> {
    limit: usize,
    order: QueueOrder,
    patience: Duration,
    next: u64,
    /// What ranks would have to compute for all who wait.
    uncached: Tokens,
    waiting: BTreeMap<Place, (Ticket<L>, T)>,
    /// Those of each lane. A lane without anybody is removed.
    lanes: BTreeMap<L, BTreeSet<Place>>,
}

// === impl QueueOrder ===

impl QueueOrder {
    /// The order of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|order| order.as_str() == name)
    }
}

// === impl WaitingLine ===

impl<L: Clone + Ord, T> WaitingLine<L, T> {
    /// An empty line for so many. `patience` bounds how long a prompt lets shorter ones pass that came after it; it
    /// should be well below the time that anybody waits at most.
    pub fn new(limit: usize, order: QueueOrder, patience: Duration) -> Self {
        let (waiting, lanes) = (BTreeMap::new(), BTreeMap::new());
        Self { limit, order, patience, next: 0, uncached: Tokens::ZERO, waiting, lanes }
    }

    /// From now on so many may wait, in this order. Those who wait keep their places, even where they are more.
    pub fn configure(&mut self, limit: usize, order: QueueOrder, patience: Duration) {
        (self.limit, self.order, self.patience) = (limit, order, patience);
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// True if nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// What ranks would have to compute for all who wait.
    pub fn uncached(&self) -> Tokens {
        self.uncached
    }

    /// Lets one join.
    pub fn push(&mut self, ticket: Ticket<L>, kept: T) -> Result<TicketId, LineFull> {
        if self.len() >= self.limit {
            return Err(LineFull { waiting: self.len() });
        }
        let place = self.place_of(&ticket);
        self.next += 1;
        self.uncached += ticket.uncached;
        self.lanes.entry(ticket.lane.clone()).or_default().insert(place);
        self.waiting.insert(place, (ticket, kept));
        Ok(TicketId(place))
    }

    /// Takes one out, wherever it stands; `None` if it is not in line any more.
    pub fn remove(&mut self, id: TicketId) -> Option<(Ticket<L>, T)> {
        let removed = self.waiting.remove(&id.0)?;
        self.uncached = self.uncached.saturating_sub(removed.0.uncached);
        if let Some(lane) = self.lanes.get_mut(&removed.0.lane) {
            lane.remove(&id.0);
            if lane.is_empty() {
                self.lanes.remove(&removed.0.lane);
            }
        }
        Some(removed)
    }

    /// What is kept for one who waits.
    pub fn get_mut(&mut self, id: TicketId) -> Option<&mut T> {
        self.waiting.get_mut(&id.0).map(|(_, kept)| kept)
    }

    /// Takes out the first one whose lane is admissible.
    pub fn pop_first(&mut self, admissible: impl FnMut(&L) -> bool) -> Option<(TicketId, Ticket<L>, T)> {
        let first = self.first(admissible)?;
        let (ticket, kept) = self.remove(first)?;
        Some((first, ticket, kept))
    }

    /// Whether a newcomer would be the first whose lane is admissible.
    pub fn is_next(&self, newcomer: &Ticket<L>, mut admissible: impl FnMut(&L) -> bool) -> bool {
        let place = self.place_of(newcomer);
        admissible(&newcomer.lane) && self.first(admissible).is_none_or(|TicketId(first)| place < first)
    }

    /// What is kept for each of those who wait, in no order that means anything.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.waiting.values_mut().map(|(_, kept)| kept)
    }

    fn first(&self, mut admissible: impl FnMut(&L) -> bool) -> Option<TicketId> {
        let open = self.lanes.iter().filter(|(lane, _)| admissible(lane));
        open.filter_map(|(_, places)| places.first()).min().copied().map(TicketId)
    }

    fn place_of(&self, ticket: &Ticket<L>) -> Place {
        let yields = match self.order {
            QueueOrder::Fcfs => Duration::ZERO,
            QueueOrder::ShortestPrefill => yielding(ticket.uncached, self.patience),
        };
        Place::new(ticket.priority, ticket.arrived.saturating_add(yields), self.next)
    }
}

#[cfg(test)]
mod tests;
