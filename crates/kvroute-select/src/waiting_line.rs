//! Requests that wait for a rank with room, and who of them is next.
//!
//! The line is bounded: beyond its limit a newcomer is refused, since a longer line only makes everybody wait longer.
//!
//! A request that names its ranks must not hold up those that may use others. Requests with the same ranks stand in a
//! lane of their own; whether there is room is asked once a lane, however many wait in it.
//!
//! Shortest first alone would leave a long prompt standing for as long as shorter ones arrive. So everybody has a
//! moment from which nobody who comes later is let pass: arrival, and then a time that grows with the prompt and stays
//! below the line's patience. Those who arrived together leave shortest first; a prompt of any length lets only those
//! pass who arrive within the patience; and since the moment never changes, nor does the order of those who wait.

mod place;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kvroute_core::{RankSlot, Tokens, closed_label};
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
pub struct Ticket {
    /// Higher goes first, whatever the order of the line.
    pub priority: i32,
    /// What a rank would have to compute for it.
    pub uncached: Tokens,
    /// The only ranks that may serve it; `None` for any. Equal lists share a lane, so they should be sorted.
    pub only: Option<Arc<[RankSlot]>>,
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
pub struct WaitingLine<T> {
    limit: usize,
    order: QueueOrder,
    patience: Duration,
    next: u64,
    waiting: BTreeMap<Place, (Ticket, T)>,
    /// Those of each set of ranks. A lane without anybody is removed.
    lanes: BTreeMap<Option<Arc<[RankSlot]>>, BTreeSet<Place>>,
}

// === impl QueueOrder ===

impl QueueOrder {
    /// The order of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|order| order.as_str() == name)
    }
}

// === impl WaitingLine ===

impl<T> WaitingLine<T> {
    /// An empty line for so many. `patience` bounds how long a prompt lets shorter ones pass that came after it; it
    /// should be well below the time that anybody waits at most.
    pub fn new(limit: usize, order: QueueOrder, patience: Duration) -> Self {
        Self { limit, order, patience, next: 0, waiting: BTreeMap::new(), lanes: BTreeMap::new() }
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// True if nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Lets one join.
    pub fn push(&mut self, ticket: Ticket, kept: T) -> Result<TicketId, LineFull> {
        if self.len() >= self.limit {
            return Err(LineFull { waiting: self.len() });
        }
        let place = self.place_of(&ticket);
        self.next += 1;
        self.lanes.entry(ticket.only.clone()).or_default().insert(place);
        self.waiting.insert(place, (ticket, kept));
        Ok(TicketId(place))
    }

    /// Takes one out, wherever it stands; `None` if it is not in line any more.
    pub fn remove(&mut self, id: TicketId) -> Option<(Ticket, T)> {
        let removed = self.waiting.remove(&id.0)?;
        if let Some(lane) = self.lanes.get_mut(&removed.0.only) {
            lane.remove(&id.0);
            if lane.is_empty() {
                self.lanes.remove(&removed.0.only);
            }
        }
        Some(removed)
    }

    /// What is kept for one who waits.
    pub fn get_mut(&mut self, id: TicketId) -> Option<&mut T> {
        self.waiting.get_mut(&id.0).map(|(_, kept)| kept)
    }

    /// Takes out the first one that is admissible. That must depend on nothing but the ranks of the ticket: whoever
    /// stands first in a lane is asked for all of it.
    pub fn pop_first(&mut self, admissible: impl FnMut(&Ticket) -> bool) -> Option<(TicketId, Ticket, T)> {
        let first = self.first(admissible)?;
        let (ticket, kept) = self.remove(first)?;
        Some((first, ticket, kept))
    }

    /// Whether a newcomer would be the first that is admissible.
    pub fn is_next(&self, newcomer: &Ticket, mut admissible: impl FnMut(&Ticket) -> bool) -> bool {
        let place = self.place_of(newcomer);
        admissible(newcomer) && self.first(admissible).is_none_or(|TicketId(first)| place < first)
    }

    fn first(&self, mut admissible: impl FnMut(&Ticket) -> bool) -> Option<TicketId> {
        let heads = self.lanes.values().filter_map(BTreeSet::first);
        let mut may_go =
            |place: &&Place| self.waiting.get(place).is_some_and(|(ticket, _)| admissible(ticket));
        heads.filter(|place| may_go(place)).min().copied().map(TicketId)
    }

    fn place_of(&self, ticket: &Ticket) -> Place {
        let yields = match self.order {
            QueueOrder::Fcfs => Duration::ZERO,
            QueueOrder::ShortestPrefill => yielding(ticket.uncached, self.patience),
        };
        Place::new(ticket.priority, ticket.arrived.saturating_add(yields), self.next)
    }
}

#[cfg(test)]
mod tests;
