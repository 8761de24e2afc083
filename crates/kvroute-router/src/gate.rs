//! In front of the desk: lets a request decide at once, or keeps it in line until a rank has room.
//!
//! Whoever waited decides alone. What a decision books is what tells the next one whether there is still room, so the
//! right to decide is passed from one to the next: two who are let in on the same room would both take it. Requests
//! that find room and nobody in line decide at once and share nothing but two reads; how many of them can take the
//! same room is bounded by the threads that run them.
//!
//! Whether a request waits, has the right to decide, or is gone is told by one state under one lock. Nothing is sent to
//! those who wait: they are woken and look. So a future that is dropped at any moment finds out itself whether it was
//! still in line or had its turn already, and then passes that on; there is no message that could be lost with it.

mod queued;
mod turn;

use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::task::Waker;
use std::time::Duration;

use kvroute_core::Tokens;
use kvroute_metrics::QueueMetrics;
use kvroute_select::{LineFull, TicketId, WaitingLine};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::config::QueueConfig;
use queued::Queued;

pub(crate) use kvroute_select::Ticket;
pub(crate) use turn::Turn;

/// Part of the longest wait that a prompt lets shorter ones pass: what is left is for those who were there before.
const PATIENCE_SHARE: u32 = 3;

/// Who knows what ranks have room. Asked under the gate's lock: it must not call the gate, and [`Gate::wake`] and the
/// end of a turn must not come from under a lock that it takes.
pub(crate) trait Room: Send + Sync {
    /// What a rank must be for a request: requests of equal lanes wait for the same room.
    type Lane: Clone + Ord + Send + Sync;

    /// Whether a request of this lane should be let in now.
    fn has_room(&self, lane: &Self::Lane) -> bool;
}

/// Why a request is not let in. Counted by whoever knows whether there was any rank for it at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// As many wait as may wait.
    Full { waiting: usize },
    /// No rank had room for it for so long.
    TimedOut { waited: Duration },
    /// Nobody is let in any more.
    Closed,
}

/// One pool's gate.
#[derive(Debug)]
pub(crate) struct Gate<R: Room> {
    room: R,
    state: Mutex<State<R::Lane>>,
    /// Those who wait, the turn that is out, whoever is about to join, and one more once the gate is closed: zero lets a
    /// newcomer decide at once. Written under the lock, read without it.
    crowd: AtomicUsize,
    joined: Notify,
    metrics: QueueMetrics,
}

/// Who waits, and whether one of those who waited may decide now.
#[derive(Debug)]
struct State<L> {
    line: WaitingLine<L, Option<Waker>>,
    is_turn_out: bool,
    is_closed: bool,
}

/// How it stands with one who was in line.
enum Standing {
    Waits,
    HasTurn,
    TurnedAway,
}

// === impl Gate ===

impl<R: Room> Gate<R> {
    /// A gate where nobody waits.
    pub(crate) fn new(room: R, config: &QueueConfig, metrics: QueueMetrics) -> Self {
        let line = WaitingLine::new(config.limit, config.order, config.timeout / PATIENCE_SHARE);
        let state = Mutex::new(State { line, is_turn_out: false, is_closed: false });
        Self { room, state, crowd: AtomicUsize::new(0), joined: Notify::new(), metrics }
    }

    /// Waits until a request of this lane may decide, until `deadline` at most; its ticket is made only where others
    /// wait or it has to. Dropping the future takes it out of line.
    pub(crate) async fn enter(
        &self,
        lane: R::Lane,
        ticket: impl FnOnce(R::Lane) -> Ticket<R::Lane>,
        deadline: Instant,
    ) -> Result<Turn<'_, R>, Refused> {
        if self.crowd.load(Ordering::Relaxed) == 0 && self.room.has_room(&lane) {
            return Ok(Turn::at_once(None));
        }
        let mut queued = match self.join(ticket(lane))? {
            Joined::Next(turn) => return Ok(turn),
            Joined::InLine(queued) => queued,
        };
        match timeout_at(deadline, &mut queued).await {
            Ok(turn) => turn,
            Err(_elapsed) => queued.give_up(),
        }
    }

    /// From now on so many may wait, in this order. Those who wait keep their places.
    pub(crate) fn configure(&self, config: &QueueConfig) {
        let mut state = self.state.lock();
        state.line.configure(config.limit, config.order, config.timeout / PATIENCE_SHARE);
        self.unlock(state, None);
    }

    /// Turns away all who wait, and whoever comes.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        let waiting: Vec<_> = state.line.all_mut().filter_map(Option::take).collect();
        self.unlock(state, None);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Who knows what ranks have room.
    pub(crate) const fn room(&self) -> &R {
        &self.room
    }

    /// Room may have become free.
    pub(crate) fn wake(&self) {
        // Whoever joins counts itself before it looks for room. Either it sees the room that came before this call, or
        // this call sees it.
        fence(Ordering::SeqCst);
        if self.crowd.load(Ordering::Relaxed) > 0 {
            let mut state = self.state.lock();
            let admitted = self.give_turn(&mut state);
            self.unlock(state, admitted);
        }
    }

    /// What ranks would have to compute for all who wait.
    pub(crate) fn uncached(&self) -> Tokens {
        self.state.lock().line.uncached()
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.state.lock().line.len()
    }

    /// Returns once somebody waits.
    pub(crate) async fn occupied(&self) {
        loop {
            let joined = self.joined.notified();
            if self.waiting() > 0 {
                return;
            }
            joined.await;
        }
    }

    fn join(&self, ticket: Ticket<R::Lane>) -> Result<Joined<'_, R>, Refused> {
        let mut state = self.state.lock();
        if state.is_closed {
            return Err(Refused::Closed);
        }
        self.crowd.store(state.crowd() + 1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !state.is_turn_out && state.line.is_next(&ticket, |lane| self.room.has_room(lane)) {
            // Those behind it must not be let in on the room that it is about to take.
            state.is_turn_out = !state.line.is_empty();
            let turn = Turn::at_once(state.is_turn_out.then_some(self));
            self.unlock(state, None);
            return Ok(Joined::Next(turn));
        }
        // Room that time alone has made is there for whoever waits already.
        let admitted = self.give_turn(&mut state);
        let id = state.line.push(ticket, None);
        self.unlock(state, admitted);
        let id = id.map_err(|LineFull { waiting }| Refused::Full { waiting })?;
        let queued = Queued::new(self, id);
        self.joined.notify_waiters();
        Ok(Joined::InLine(queued))
    }

    /// The turn is over; whoever had it has booked, or never will.
    fn end_turn(&self) {
        let mut state = self.state.lock();
        state.is_turn_out = false;
        let admitted = self.give_turn(&mut state);
        self.unlock(state, admitted);
    }

    /// Gives the turn to the first in line that there is room for, unless it is out already.
    fn give_turn(&self, state: &mut State<R::Lane>) -> Option<Waker> {
        if state.is_turn_out {
            return None;
        }
        let (_, _, waker) = state.line.pop_first(|lane| self.room.has_room(lane))?;
        state.is_turn_out = true;
        waker
    }

    /// Lets newcomers see what has changed, and then wakes whoever was given the turn.
    fn unlock(&self, state: MutexGuard<'_, State<R::Lane>>, admitted: Option<Waker>) {
        self.crowd.store(state.crowd(), Ordering::Relaxed);
        drop(state);
        if let Some(waker) = admitted {
            waker.wake();
        }
    }

    /// How it stands with one who was in line; if it still waits, `waker` will be woken when that changes.
    fn standing(&self, id: TicketId, waker: &Waker) -> Standing {
        let waker = waker.clone();
        let mut state = self.state.lock();
        if state.is_closed {
            return Standing::TurnedAway;
        }
        let Some(kept) = state.line.get_mut(id) else { return Standing::HasTurn };
        let displaced = kept.replace(waker);
        drop(state); // Dropping a waker may drop what it would have woken.
        drop(displaced);
        Standing::Waits
    }

    /// Takes one out of line; false if it is not there any more, since it was given the turn.
    fn leave(&self, id: TicketId) -> bool {
        let mut state = self.state.lock();
        let left = state.line.remove(id);
        self.unlock(state, None);
        left.is_some()
    }
}

/// How a newcomer fares.
enum Joined<'a, R: Room> {
    /// It may decide.
    Next(Turn<'a, R>),
    /// It has to wait.
    InLine(Queued<'a, R>),
}

// === impl State ===

impl<L: Clone + Ord> State<L> {
    fn crowd(&self) -> usize {
        self.line.len() + usize::from(self.is_turn_out) + usize::from(self.is_closed)
    }
}

#[cfg(test)]
mod tests;
