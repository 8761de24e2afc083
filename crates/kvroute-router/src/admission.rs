//! How a request gets its turn: at once while a rank has room, in line while none has, and not at all in the end.

use std::sync::Arc;
use std::time::Duration;

use kvroute_core::{RankSlot, Tokens};
use kvroute_metrics::QueueRefusal;
use kvroute_select::{Nobody, QueueOrder};
use tokio::time::{Instant, sleep};

use crate::gate::{Refused, Ticket};
use crate::placing::{Asked, Decision, DecisionTimer};
use crate::pool::Pool;
use crate::rank::Rank;

/// How long a request waits that no rank may take though some have room: until its own rank is back, say.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// Why a request got no rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unplaced {
    /// Every rank is busy, and so is the queue.
    QueueFull {
        /// Those who wait.
        waiting: usize,
    },
    /// Every rank stayed busy for as long as a request may wait.
    QueueTimeout {
        /// How long it waited.
        waited: Duration,
    },
    /// No rank takes requests, or none takes this one.
    NoWorker,
    /// The policy can never place such a request: what it lacks.
    Unservable(&'static str),
}

// === impl Pool ===

impl Pool {
    /// Waits for a turn and decides.
    pub(crate) async fn admit(&self, asked: &Asked<'_>) -> Result<Decision, Unplaced> {
        let placed = self.try_admit(asked).await;
        let refusal = match placed {
            Err(Unplaced::QueueFull { .. }) => QueueRefusal::Full,
            Err(Unplaced::QueueTimeout { .. }) => QueueRefusal::Timeout,
            Err(Unplaced::NoWorker) => QueueRefusal::NoWorker,
            Ok(_) | Err(Unplaced::Unservable(_)) => return placed,
        };
        self.metrics().queue().refused(refusal);
        placed
    }

    async fn try_admit(&self, asked: &Asked<'_>) -> Result<Decision, Unplaced> {
        let queue = self.config().queue;
        let arrived = self.knowledge().now();
        let deadline = Instant::now() + queue.timeout;
        loop {
            let turn = self.gate().enter(self.ticket(asked, arrived), deadline).await;
            let turn = turn.map_err(|refused| self.unplaced(refused))?;
            let nobody = match self.decide(asked, turn.waited()) {
                Ok(decision) => return Ok(decision),
                Err(nobody) => nobody,
            };
            drop(turn);
            if let Nobody { refusal: Some(refusal) } = nobody
                && !refusal.may_pass
            {
                return Err(Unplaced::Unservable(refusal.message));
            }
            if queue.limit == 0 || Instant::now() + RETRY_AFTER >= deadline {
                return Err(Unplaced::NoWorker);
            }
            sleep(RETRY_AFTER).await;
        }
    }

    fn ticket(&self, asked: &Asked<'_>, arrived: Duration) -> Ticket {
        Ticket {
            priority: asked.hints.priority,
            uncached: self.uncached(asked),
            only: self.usable(asked),
            arrived,
        }
    }

    /// The ranks that the request may use, where that is not all of them.
    fn usable(&self, asked: &Asked<'_>) -> Option<Arc<[RankSlot]>> {
        let fleet = self.fleet();
        let slots_of = |is_usable: &dyn Fn(&Rank) -> bool| {
            Some(fleet.ranks.iter().filter(|rank| is_usable(rank)).map(|rank| rank.slot).collect())
        };
        if let Some(pin) = &asked.hints.pin {
            return slots_of(&|rank| pin.names(&rank.name));
        }
        let adapter = fleet.adapter_of(asked.request)?;
        slots_of(&|rank| rank.serves_adapter(adapter))
    }

    /// What is to be computed of the prompt on the rank that has most of it; asked only where the queue goes by it.
    fn uncached(&self, asked: &Asked<'_>) -> Tokens {
        let input: Tokens = asked.prompt_lengths.iter().copied().sum();
        if self.config().queue.order != QueueOrder::ShortestPrefill {
            return input;
        }
        let (_, cached) = self.inquire(&self.fleet(), asked, &mut DecisionTimer::start(), |inquiry| {
            inquiry.cached.into_iter().flatten().map(|cached| cached.total()).max().unwrap_or_default()
        });
        input.saturating_sub(cached)
    }

    /// Nobody there is another trouble than everybody busy.
    fn unplaced(&self, refused: Refused) -> Unplaced {
        if !self.fleet().ranks.iter().any(|rank| rank.worker.takes_requests()) {
            return Unplaced::NoWorker;
        }
        match refused {
            Refused::Full { waiting } => Unplaced::QueueFull { waiting },
            Refused::TimedOut { waited } => Unplaced::QueueTimeout { waited },
        }
    }
}
