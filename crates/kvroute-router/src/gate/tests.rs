mod interleavings;
mod threads;

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use kvroute_core::{ModelName, Phase, Tokens};
use kvroute_metrics::{Metrics, MetricsOptions, PoolLabels, PoolMetrics};
use kvroute_select::QueueOrder;
use tokio::time::sleep;

use super::*;

/// The only ranks that may serve a request; `None` for any.
type Lane = Option<BTreeSet<u32>>;
type Ticket = super::Ticket<Lane>;

const MINUTE: Duration = Duration::from_secs(60);

/// Requests that each rank can take still.
#[derive(Clone, Debug, Default)]
struct Seats(Arc<Mutex<BTreeMap<u32, usize>>>);

// === impl Seats ===

impl Seats {
    fn of<const N: usize>(free: [(u32, usize); N]) -> Self {
        Self(Arc::new(Mutex::new(free.into())))
    }

    fn add(&self, rank: u32) {
        *self.0.lock().entry(rank).or_default() += 1;
    }

    /// Books the first rank that the ticket may use and that has room; `None` if there is none.
    fn take(&self, lane: &Lane) -> Option<u32> {
        let mut free = self.0.lock();
        let (rank, seats) = free.iter_mut().find(|(rank, seats)| **seats > 0 && allows(lane, **rank))?;
        *seats -= 1;
        Some(*rank)
    }
}

impl Room for Seats {
    type Lane = Lane;

    fn has_room(&self, lane: &Lane) -> bool {
        self.0.lock().iter().any(|(rank, seats)| *seats > 0 && allows(lane, *rank))
    }
}

fn allows(lane: &Lane, rank: u32) -> bool {
    lane.as_ref().is_none_or(|only| only.contains(&rank))
}

fn queue(limit: usize) -> QueueConfig {
    QueueConfig { limit, order: QueueOrder::Fcfs, ..QueueConfig::default() }
}

fn pool_metrics(metrics: &Metrics) -> PoolMetrics {
    let model = ModelName::new("m");
    metrics.pool(&PoolLabels {
        model: &model,
        policy: "kv",
        reasons: &[],
        shadows: &[],
        phases: &[Phase::Aggregated],
        counts_input: true,
        history: None,
    })
}

fn gate_of<R: Room>(room: R, config: &QueueConfig) -> Gate<R> {
    Gate::new(room, config, pool_metrics(&Metrics::new(&MetricsOptions::default()).unwrap()).queue())
}

fn gate(seats: &Seats) -> Gate<Seats> {
    gate_of(seats.clone(), &queue(10))
}

fn ticket(arrived: u64) -> Ticket {
    Ticket { priority: 0, uncached: Tokens::ZERO, lane: None, arrived: Duration::from_secs(arrived) }
}

fn only(rank: u32, arrived: u64) -> Ticket {
    Ticket { lane: Some([rank].into()), ..ticket(arrived) }
}

/// Enters with a ticket that is made already.
async fn enter<R: Room>(
    gate: &Gate<R>,
    ticket: super::Ticket<R::Lane>,
    deadline: Instant,
) -> Result<Turn<'_, R>, Refused> {
    gate.enter(ticket.lane.clone(), |_| ticket, deadline).await
}

fn soon() -> Instant {
    Instant::now() + MINUTE
}

/// What the future has to say now.
macro_rules! look {
    ($future:expr) => {
        $future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    };
}

macro_rules! assert_in {
    ($polled:expr) => {
        match $polled {
            Poll::Ready(Ok(turn)) => turn,
            other => panic!("expected a turn, found {other:?}"),
        }
    };
}

macro_rules! assert_waits {
    ($future:expr) => {
        assert!(look!($future).is_pending())
    };
}

#[tokio::test(start_paused = true)]
async fn whoever_finds_room_and_nobody_in_line_is_let_in_at_once() {
    let gate = gate(&Seats::of([(0, 1)]));
    let (mut one, mut other) = (pin!(enter(&gate, ticket(1), soon())), pin!(enter(&gate, ticket(2), soon())));
    let turns = (assert_in!(look!(one)), assert_in!(look!(other)));
    assert_eq!((turns.0.waited(), turns.1.waited()), (Duration::ZERO, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_are_let_in_one_after_the_other() {
    let seats = Seats::default();
    let gate = gate(&seats);
    let (mut second, mut first) =
        (pin!(enter(&gate, ticket(2), soon())), pin!(enter(&gate, ticket(1), soon())));
    assert_waits!(second);
    assert_waits!(first);
    tokio::time::advance(Duration::from_secs(5)).await;
    seats.0.lock().insert(0, 2);
    gate.wake();
    gate.wake();
    assert_waits!(second);
    let turn = assert_in!(look!(first));
    assert_eq!(turn.waited(), Duration::from_secs(5));
    assert_waits!(second);
    drop(turn);
    drop(assert_in!(look!(second)));
}

#[tokio::test(start_paused = true)]
async fn a_turn_lets_nobody_in_whom_its_booking_left_no_room() {
    let seats = Seats::default();
    let gate = gate(&seats);
    let (mut first, mut second) =
        (pin!(enter(&gate, ticket(1), soon())), pin!(enter(&gate, ticket(2), soon())));
    assert_waits!(first);
    assert_waits!(second);
    seats.add(0);
    gate.wake();
    let turn = assert_in!(look!(first));
    assert_eq!(seats.take(&None), Some(0));
    drop(turn);
    assert_waits!(second);
    seats.add(0);
    gate.wake();
    drop(assert_in!(look!(second)));
}

#[tokio::test(start_paused = true)]
async fn a_newcomer_does_not_overtake_but_by_priority() {
    let seats = Seats::default();
    let gate = gate(&seats);
    let mut waiting = pin!(enter(&gate, ticket(1), soon()));
    assert_waits!(waiting);
    seats.add(0); // Nobody has told the gate.
    let mut urgent = pin!(enter(&gate, Ticket { priority: 1, ..ticket(2) }, soon()));
    let turn = assert_in!(look!(urgent));
    assert_waits!(waiting);
    drop(turn);
    let mut newcomer = pin!(enter(&gate, ticket(3), soon()));
    assert_waits!(newcomer);
    drop(assert_in!(look!(waiting)));
    drop(assert_in!(look!(newcomer)));
}

#[tokio::test(start_paused = true)]
async fn a_newcomer_lets_in_whoever_time_alone_has_made_room_for() {
    let seats = Seats::default();
    let gate = gate(&seats);
    let (mut waiting, mut newcomer) =
        (pin!(enter(&gate, ticket(1), soon())), pin!(enter(&gate, ticket(2), soon())));
    assert_waits!(waiting);
    seats.add(0);
    assert_waits!(newcomer);
    drop(assert_in!(look!(waiting)));
}

#[tokio::test(start_paused = true)]
async fn those_whose_ranks_are_full_or_gone_hold_up_nobody_else() {
    let gate = gate(&Seats::of([(0, 0), (1, 1)]));
    let mut full = pin!(enter(&gate, only(0, 1), soon()));
    let mut gone = pin!(enter(&gate, only(9, 2), soon()));
    assert_waits!(full);
    assert_waits!(gone);
    drop(assert_in!(look!(pin!(enter(&gate, ticket(3), soon())))));
    drop(assert_in!(look!(pin!(enter(&gate, only(1, 4), soon())))));
}

#[tokio::test(start_paused = true)]
async fn one_that_leaves_the_line_never_gets_a_turn() {
    let seats = Seats::default();
    let gate = gate(&seats);
    let mut leaving = Box::pin(enter(&gate, ticket(1), soon()));
    let mut staying = pin!(enter(&gate, ticket(2), soon()));
    assert_waits!(leaving);
    assert_waits!(staying);
    drop(leaving);
    assert_eq!(gate.waiting(), 1);
    seats.add(0);
    gate.wake();
    drop(assert_in!(look!(staying)));
}

#[tokio::test(start_paused = true)]
async fn a_turn_given_to_one_that_is_gone_is_passed_on() {
    let seats = Seats::default();
    let gate = gate(&seats);
    let mut leaving = Box::pin(enter(&gate, ticket(1), soon()));
    let mut staying = pin!(enter(&gate, ticket(2), soon()));
    assert_waits!(leaving);
    assert_waits!(staying);
    seats.add(0);
    gate.wake();
    drop(leaving);
    drop(assert_in!(look!(staying)));
}

#[tokio::test(start_paused = true)]
async fn the_line_is_bounded_and_nobody_waits_at_all_where_it_takes_none() {
    let seats = Seats::default();
    let gate = gate_of(seats.clone(), &queue(1));
    let mut waiting = pin!(enter(&gate, ticket(1), soon()));
    assert_waits!(waiting);
    assert_eq!(enter(&gate, ticket(2), soon()).await.err(), Some(Refused::Full { waiting: 1 }));

    let nobody_waits = gate_of(seats.clone(), &queue(0));
    assert_eq!(enter(&nobody_waits, ticket(1), soon()).await.err(), Some(Refused::Full { waiting: 0 }));
    seats.add(0);
    assert!(enter(&nobody_waits, ticket(1), soon()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_full_line_with_room_for_its_first_takes_one_more() {
    let seats = Seats::default();
    let gate = gate_of(seats.clone(), &queue(1));
    let (mut waiting, mut newcomer) =
        (pin!(enter(&gate, ticket(1), soon())), pin!(enter(&gate, ticket(2), soon())));
    assert_waits!(waiting);
    seats.add(0);
    assert_waits!(newcomer);
    drop(assert_in!(look!(waiting)));
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_beyond_the_deadline() {
    let gate = gate(&Seats::default());
    let refused = enter(&gate, ticket(1), soon()).await.err();
    assert!(matches!(refused, Some(Refused::TimedOut { waited }) if waited >= MINUTE));
    assert_eq!(gate.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_comes_with_the_deadline_is_taken() {
    let seats = Seats::default();
    let gate = gate(&seats);
    let mut late = pin!(enter(&gate, ticket(1), soon()));
    assert_waits!(late);
    sleep(2 * MINUTE).await;
    seats.add(0);
    gate.wake();
    drop(assert_in!(look!(late)));
}

#[tokio::test(start_paused = true)]
async fn whoever_keeps_the_gate_sleeps_until_somebody_waits() {
    let gate = gate(&Seats::default());
    let mut occupied = pin!(gate.occupied());
    assert!(look!(occupied).is_pending());
    let mut waiting = pin!(enter(&gate, ticket(1), soon()));
    assert_waits!(waiting);
    assert!(look!(occupied).is_ready());
    assert!(look!(pin!(gate.occupied())).is_ready());
}

#[tokio::test(start_paused = true)]
async fn those_in_line_are_counted_while_they_wait_and_timed_once_let_in() {
    let metrics = Metrics::new(&MetricsOptions::default()).unwrap();
    let pool = pool_metrics(&metrics);
    let seats = Seats::of([(0, 1)]);
    let gate = Gate::new(seats.clone(), &queue(10), pool.queue());
    let value = |name: &str| -> f64 {
        let text = metrics.render();
        let line = text.lines().find(|line| line.starts_with(name) && !line.contains("_bucket")).unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    let pending = || value("dynamo_frontend_router_queue_pending_requests{");
    let waits = || value("kvroute_queue_wait_seconds_count{");

    assert!(enter(&gate, ticket(1), soon()).await.is_ok());
    seats.take(&None);
    let mut leaving = Box::pin(enter(&gate, ticket(2), soon()));
    let mut staying = pin!(enter(&gate, ticket(3), soon()));
    assert_waits!(leaving);
    assert_waits!(staying);
    assert_eq!((pending(), waits()), (2.0, 0.0));
    drop(leaving);
    assert_eq!((pending(), waits()), (1.0, 0.0));
    seats.add(0);
    gate.wake();
    let turn = assert_in!(look!(staying));
    assert_eq!((pending(), waits()), (0.0, 1.0));
    drop(turn);
}

#[tokio::test(start_paused = true)]
async fn a_closed_gate_turns_away_those_who_wait_those_who_come_and_whoever_was_about_to_decide() {
    let seats = Seats::default();
    let gate = gate(&seats);
    let mut chosen = pin!(enter(&gate, ticket(1), soon()));
    let mut waiting = pin!(enter(&gate, ticket(2), soon()));
    assert_waits!(chosen);
    assert_waits!(waiting);
    seats.0.lock().insert(0, 5);
    gate.wake();
    gate.close();
    let mut newcomer = pin!(enter(&gate, ticket(3), soon()));
    assert!(matches!(look!(newcomer), Poll::Ready(Err(Refused::Closed))), "though there is room");
    assert!(matches!(look!(chosen), Poll::Ready(Err(Refused::Closed))));
    assert!(matches!(look!(waiting), Poll::Ready(Err(Refused::Closed))));
    assert_eq!(gate.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn no_ticket_is_made_for_whoever_is_let_in_at_once() {
    let gate = gate(&Seats::of([(0, 1)]));
    let no_ticket = |_| unreachable!("it may be dear");
    assert!(gate.enter(None, no_ticket, soon()).await.is_ok());
}
