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
    /// Whether a rank that this request may use has room now. Depends on the ranks of the ticket alone.
    fn has_room(&self, ticket: &Ticket) -> bool;
}

/// Why a request is not let in. Counted by whoever knows whether there was any rank for it at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// As many wait as may wait.
    Full { waiting: usize },
    /// No rank had room for it for so long.
    TimedOut { waited: Duration },
}

/// One pool's gate.
#[derive(Debug)]
pub(crate) struct Gate<R> {
    room: R,
    state: Mutex<State>,
    /// Those who wait, the turn that is out, and whoever is about to join: zero lets a newcomer decide at once.
    /// Written under the lock, read without it.
    crowd: AtomicUsize,
    joined: Notify,
    metrics: QueueMetrics,
}

/// Who waits, and whether one of those who waited may decide now.
#[derive(Debug)]
struct State {
    line: WaitingLine<Option<Waker>>,
    is_turn_out: bool,
}

// === impl Gate ===

impl<R: Room> Gate<R> {
    /// A gate where nobody waits.
    pub(crate) fn new(room: R, config: &QueueConfig, metrics: QueueMetrics) -> Self {
        let line = WaitingLine::new(config.limit, config.order, config.timeout / PATIENCE_SHARE);
        let state = Mutex::new(State { line, is_turn_out: false });
        Self { room, state, crowd: AtomicUsize::new(0), joined: Notify::new(), metrics }
    }

    /// Waits until the request may decide, until `deadline` at most. Dropping the future takes it out of line.
    pub(crate) async fn enter(&self, ticket: Ticket, deadline: Instant) -> Result<Turn<'_, R>, Refused> {
        if self.crowd.load(Ordering::Relaxed) == 0 && self.room.has_room(&ticket) {
            return Ok(Turn::at_once(None));
        }
        let mut queued = match self.join(ticket) {
            Ok(Joined::Next(turn)) => return Ok(turn),
            Ok(Joined::InLine(queued)) => queued,
            Err(LineFull { waiting }) => return Err(Refused::Full { waiting }),
        };
        match timeout_at(deadline, &mut queued).await {
            Ok(turn) => Ok(turn),
            Err(_elapsed) => queued.give_up(),
        }
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

    fn join(&self, ticket: Ticket) -> Result<Joined<'_, R>, LineFull> {
        let mut state = self.state.lock();
        self.crowd.store(state.crowd() + 1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !state.is_turn_out && state.line.is_next(&ticket, |ticket| self.room.has_room(ticket)) {
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
        let queued = Queued::new(self, id?);
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
    fn give_turn(&self, state: &mut State) -> Option<Waker> {
        if state.is_turn_out {
            return None;
        }
        let (_, _, waker) = state.line.pop_first(|ticket| self.room.has_room(ticket))?;
        state.is_turn_out = true;
        waker
    }

    /// Lets newcomers see what has changed, and then wakes whoever was given the turn.
    fn unlock(&self, state: MutexGuard<'_, State>, admitted: Option<Waker>) {
        self.crowd.store(state.crowd(), Ordering::Relaxed);
        drop(state);
        if let Some(waker) = admitted {
            waker.wake();
        }
    }

    /// Whether one is still in line; then `waker` will be woken when it is given the turn.
    fn still_waits(&self, id: TicketId, waker: &Waker) -> bool {
        let waker = waker.clone();
        let mut state = self.state.lock();
        let Some(kept) = state.line.get_mut(id) else { return false };
        let displaced = kept.replace(waker);
        drop(state); // Dropping a waker may drop what it would have woken.
        drop(displaced);
        true
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

impl State {
    fn crowd(&self) -> usize {
        self.line.len() + usize::from(self.is_turn_out)
    }
}

#[cfg(test)]
mod tests;
