//! How a request gets its turn: at once while a rank has room, in line while none has, and not at all in the end.

use std::time::Duration;

use kvroute_core::{Phase, Tokens};
use kvroute_metrics::QueueRefusal;
use kvroute_select::{Bound, Nobody, QueueOrder};
use tokio::time::Instant;

use crate::gate::{Refused, Ticket};
use crate::lane::{Home, Lane};
use crate::placing::{Asked, Decision, DecisionTimer};
use crate::pool::Pool;

/// Turns that one request gets. It may find its rank gone when it decides, and then it waits again; whoever is let in
/// so often and finds nobody will not be helped by another turn.
const MOST_TURNS: usize = 5;

/// Why a request got no rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unplaced {
    /// Every rank is busy, and so is the queue.
    QueueFull {
        /// Those who wait.
        waiting: usize,
        /// What the request wanted.
        lane: Lane,
    },
    /// Every rank stayed busy for as long as a request may wait.
    QueueTimeout {
        /// How long it waited.
        waited: Duration,
        /// What the request wanted.
        lane: Lane,
    },
    /// No rank that may serve it takes requests.
    NoWorker(Lane),
    /// No rank will ever do.
    Hopeless(Lane),
    /// The policy can never place such a request: what it lacks.
    Unservable(&'static str),
    /// The router stops before the request had its turn.
    Stopping,
}

// === impl Pool ===

impl Pool {
    /// Waits for a turn and decides.
    pub(crate) async fn admit(&self, asked: &Asked<'_>) -> Result<Decision, Unplaced> {
        let placed = self.try_admit(asked).await;
        let refusal = match placed {
            Err(Unplaced::QueueFull { .. }) => QueueRefusal::Full,
            Err(Unplaced::QueueTimeout { .. }) => QueueRefusal::Timeout,
            Err(Unplaced::NoWorker(_)) => QueueRefusal::NoWorker,
            Err(Unplaced::Stopping) => QueueRefusal::Stopping,
            Ok(_) | Err(Unplaced::Hopeless(_) | Unplaced::Unservable(_)) => return placed,
        };
        self.metrics().queue().refused(refusal);
        placed
    }

    async fn try_admit(&self, asked: &Asked<'_>) -> Result<Decision, Unplaced> {
        let arrived = self.knowledge().now();
        let deadline = Instant::now() + self.config().queue.timeout;
        let mut waited = Duration::ZERO;
        for _ in 0..MOST_TURNS {
            // Asked anew each time: the session may have found its home in the meantime.
            let lane = self.lane(asked)?;
            if self.gate().room().is_hopeless(&lane) {
                return Err(Unplaced::Hopeless(lane));
            }
            let ticket = |lane| Ticket {
                priority: asked.hints.priority,
                uncached: self.uncached(asked),
                lane,
                arrived,
            };
            let turn = match self.gate().enter(lane, ticket, deadline).await {
                Ok(turn) => turn,
                Err(refused) => return Err(self.unplaced(refused, waited, self.lane(asked)?)),
            };
            waited += turn.waited();
            match self.decide(asked, waited) {
                Ok(decision) => return Ok(decision),
                Err(Nobody { refusal: Some(refusal) }) if !refusal.may_pass => {
                    return Err(Unplaced::Unservable(refusal.message));
                }
                Err(_nobody_now) => {}
            }
        }
        Err(Unplaced::NoWorker(self.lane(asked)?))
    }

    /// What a rank must be for the request.
    pub(crate) fn lane(&self, asked: &Asked<'_>) -> Result<Lane, Unplaced> {
        let (pin, adapter) = (asked.pin().cloned(), self.adapter_of(asked.request).map(Into::into));
        let lane = Lane { pin, adapter, engine: asked.engine, ..Lane::any(asked.phase) };
        if lane.pin.is_some() || asked.phase == Phase::Decode {
            return Ok(lane);
        }
        let home = match self.desk().bound(asked.request, asked.hints) {
            Bound::Free => None,
            Bound::Home(rank, refusal) => Some(Home { rank, away: refusal.message }),
            Bound::Nowhere(refusal) => return Err(Unplaced::Unservable(refusal.message)),
        };
        Ok(Lane { home, ..lane })
    }

    /// What is to be computed of the prompt on the rank that has most of it; asked only where the queue goes by it.
    fn uncached(&self, asked: &Asked<'_>) -> Tokens {
        let input: Tokens = asked.prompt_lengths.iter().copied().sum();
        if self.config().queue.order != QueueOrder::ShortestPrefill {
            return input;
        }
        let fleet = self.fleet();
        let (_, cached) = self.inquire(&fleet, asked, &mut DecisionTimer::start(), |inquiry| {
            inquiry.cached.into_iter().flatten().map(|cached| cached.total()).max().unwrap_or_default()
        });
        input.saturating_sub(cached)
    }

    /// Nobody there is another trouble than everybody busy.
    fn unplaced(&self, refused: Refused, waited_before: Duration, lane: Lane) -> Unplaced {
        let is_anybody_there = || self.fleet().usable(&lane).next().is_some();
        match refused {
            Refused::Closed => Unplaced::Stopping,
            _ if !is_anybody_there() => Unplaced::NoWorker(lane),
            Refused::Full { waiting } => Unplaced::QueueFull { waiting, lane },
            Refused::TimedOut { waited } => Unplaced::QueueTimeout { waited: waited_before + waited, lane },
        }
    }
}
