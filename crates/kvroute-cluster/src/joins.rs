//! How a replica that joins gets what the others know already.
//!
//! It asks one peer, the one that offers the most. If that one refuses, vanishes or falls silent, it asks the next; if nobody
//! offers anything it starts empty. Nothing waits for the outcome: what other replicas learn meanwhile is taken as always.

use std::sync::Arc;

use kvroute_history::Domain;
use tokio::time::Instant;

use crate::config::Timing;
use crate::message::{Origin, PartEnd};
use crate::peers::Peers;

/// Every domain whose hashes are being asked for.
#[derive(Debug, Default)]
pub(crate) struct Joins {
    open: Vec<Join>,
}

#[derive(Debug)]
struct Join {
    domain: Arc<Domain>,
    /// When offers were asked for.
    since: Instant,
    /// Everybody that was asked.
    asked: Vec<Origin>,
    transfer: Option<Transfer>,
}

#[derive(Debug)]
struct Transfer {
    number: u64,
    from: Origin,
    next: u32,
    heard: Instant,
}

/// What must be asked of whom.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) of: Origin,
    pub(crate) transfer: u64,
    pub(crate) domain: Arc<Domain>,
}

/// What a part of a transfer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Waited for; so many before it did not come.
    Expected { missing: u32 },
    /// Nobody waits for it (any more).
    Stale,
}

// === impl Joins ===

impl Joins {
    /// Starts to look for somebody to ask; offers were asked for at `now`.
    pub(crate) fn begin(&mut self, domain: Arc<Domain>, now: Instant) {
        self.open.retain(|join| join.domain != domain);
        self.open.push(Join { domain, since: now, asked: Vec::new(), transfer: None });
    }

    /// Requests that are due. `number` draws numbers of transfers.
    pub(crate) fn due(
        &mut self,
        peers: &Peers,
        timing: &Timing,
        now: Instant,
        mut number: impl FnMut() -> u64,
    ) -> Vec<Request> {
        let mut requests = Vec::new();
        self.open.retain_mut(|join| {
            join.give_up_on_silent(peers, timing, now);
            requests.extend(join.ask(peers, timing, now, &mut number));
            join.is_open(timing, now)
        });
        requests
    }

    /// Domains of which not everything has come that could.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = &Arc<Domain>> {
        self.open.iter().map(|join| &join.domain)
    }

    /// A part came.
    pub(crate) fn part(
        &mut self,
        from: Origin,
        (number, index): (u64, u32),
        end: PartEnd,
        now: Instant,
    ) -> Part {
        let is_meant = |join: &Join| join.transfer.as_ref().is_some_and(|open| open.is(from, number, index));
        let Some(place) = self.open.iter().position(is_meant) else { return Part::Stale };
        let join = &mut self.open[place];
        let Some(transfer) = &mut join.transfer else { return Part::Stale };
        let missing = index - transfer.next;
        (transfer.next, transfer.heard) = (index.saturating_add(1), now);
        match end {
            PartEnd::More => {}
            PartEnd::Last => drop(self.open.swap_remove(place)),
            PartEnd::Refused => join.transfer = None,
        }
        Part::Expected { missing }
    }
}

// === impl Join ===

impl Join {
    fn give_up_on_silent(&mut self, peers: &Peers, timing: &Timing, now: Instant) {
        self.transfer.take_if(|transfer| {
            !peers.knows(transfer.from) || now.duration_since(transfer.heard) >= timing.part_silence
        });
    }

    fn ask(
        &mut self,
        peers: &Peers,
        timing: &Timing,
        now: Instant,
        number: impl FnOnce() -> u64,
    ) -> Option<Request> {
        let has_waited = now.duration_since(self.since) >= timing.offers;
        if self.transfer.is_some() || !has_waited {
            return None;
        }
        let of = peers.fullest(&self.domain, &self.asked)?;
        let number = number();
        self.asked.push(of);
        self.transfer = Some(Transfer { number, from: of, next: 0, heard: now });
        Some(Request { of, transfer: number, domain: Arc::clone(&self.domain) })
    }

    /// Whether somebody was asked, or may still offer something.
    fn is_open(&self, timing: &Timing, now: Instant) -> bool {
        self.transfer.is_some() || now.duration_since(self.since) < timing.no_offers
    }
}

// === impl Transfer ===

impl Transfer {
    fn is(&self, from: Origin, number: u64, index: u32) -> bool {
        self.from == from && self.number == number && index >= self.next
    }
}

#[cfg(test)]
mod tests;
