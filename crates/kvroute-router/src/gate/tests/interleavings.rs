//! Random interleavings of everything that can happen at a gate, step by step against a plain list.
//!
//! The list knows after every step who waits, who has been given the turn and who may still be told so. A future is
//! looked at only when it says so or at random, so a wake-up that is missing shows at once.

use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::task::Wake;

use proptest::collection::vec;
use proptest::prelude::*;
use tokio::runtime::Builder;
use tokio::time::advance;

use super::*;

const RANKS: u32 = 3;
const LIMIT: usize = 6;

/// Deadlines lie between two of these, so that it never depends on rounding whether one has passed.
const TICK: Duration = Duration::from_millis(10);

#[derive(Clone, Debug)]
enum Step {
    Arrive {
        priority: i32,
        uncached: u64,
        lane: Lane,
        patience: u32,
    },
    /// One of those whose end is not known is looked at, though nothing calls for it.
    Look(usize),
    /// All that were woken are looked at.
    LookAtWoken,
    /// A client leaves.
    Cancel(usize),
    /// One that may decide does, and books or not.
    Decide {
        which: usize,
        books: bool,
    },
    /// A request that was served ends.
    Release(usize),
    /// Seats come and go; nobody tells the gate of those that go, nor of those that time makes.
    Seat {
        rank: u32,
        comes: bool,
        is_told: bool,
    },
    Wait(u32),
    /// The router stops.
    Close,
}

#[derive(Debug, Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// What the plain list says of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    InLine,
    /// Has the turn and does not know it yet.
    Chosen,
    /// Has been let in and decides.
    Deciding {
        alone: bool,
    },
    Placed,
    Unplaced,
    Full,
    TimedOut,
    TurnedAway,
    Cancelled,
}

type Entering<'a> = Pin<Box<dyn Future<Output = Result<Turn<'a, Seats>, Refused>> + 'a>>;

struct Request<'a> {
    ticket: Ticket,
    deadline: Instant,
    standing: Standing,
    entering: Option<Entering<'a>>,
    turn: Option<Turn<'a, Seats>>,
    woken: Arc<Woken>,
}

struct World<'a> {
    gate: &'a Gate<Seats>,
    seats: &'a Seats,
    shortest_first: bool,
    is_closed: bool,
    requests: Vec<Request<'a>>,
    /// Ranks of those that are served.
    served: Vec<u32>,
}

// === impl World ===

impl<'a> World<'a> {
    async fn take(&mut self, step: Step) {
        match step {
            Step::Arrive { priority, uncached, lane, patience } => {
                let arrived = Duration::from_millis(self.requests.len() as u64);
                let ticket = Ticket { priority, uncached: Tokens::new(uncached), lane, arrived };
                self.arrive(ticket, TICK * patience + TICK / 2);
            }
            Step::Look(any) => {
                if let Some(index) = self.pick(any, |request| request.entering.is_some()) {
                    self.look(index);
                }
            }
            Step::LookAtWoken => self.look_at_woken(),
            Step::Cancel(any) => {
                if let Some(index) = self.pick(any, |request| request.entering.is_some()) {
                    let had_turn = self.requests[index].standing == Standing::Chosen;
                    self.requests[index].standing = Standing::Cancelled;
                    self.requests[index].entering = None;
                    if had_turn {
                        self.choose();
                    }
                }
            }
            Step::Decide { which, books } => {
                if let Some(index) = self.pick(which, |request| request.turn.is_some()) {
                    self.decide(index, books);
                }
            }
            Step::Release(any) => {
                if let Some(index) = any.checked_rem(self.served.len()) {
                    self.seats.add(self.served.swap_remove(index));
                    self.wake();
                }
            }
            Step::Seat { rank, comes, is_told } => {
                match comes {
                    true => self.seats.add(rank),
                    false => {
                        self.seats.0.lock().entry(rank).and_modify(|free| *free = free.saturating_sub(1));
                    }
                }
                if is_told {
                    self.wake();
                }
            }
            Step::Wait(ticks) => advance(TICK * ticks).await,
            Step::Close => self.close(),
        }
    }

    fn close(&mut self) {
        let stand = |standing| matches!(standing, Standing::InLine | Standing::Chosen);
        for request in self.requests.iter_mut().filter(|request| stand(request.standing)) {
            request.standing = Standing::TurnedAway;
        }
        self.is_closed = true;
        self.gate.close();
    }

    fn pick(&self, any: usize, wanted: impl Fn(&Request<'a>) -> bool) -> Option<usize> {
        let found: Vec<_> = (0..self.requests.len()).filter(|&index| wanted(&self.requests[index])).collect();
        any.checked_rem(found.len()).map(|index| found[index])
    }

    fn arrive(&mut self, ticket: Ticket, patience: Duration) {
        let deadline = Instant::now() + patience;
        let standing = self.standing_of_newcomer(&ticket);
        self.requests.push(Request {
            entering: Some(Box::pin(enter(self.gate, ticket.clone(), deadline))),
            ticket,
            deadline,
            standing,
            turn: None,
            woken: Arc::default(),
        });
        self.look(self.requests.len() - 1);
    }

    /// What becomes of a newcomer, and of those whom its coming lets in.
    fn standing_of_newcomer(&mut self, ticket: &Ticket) -> Standing {
        if self.is_closed {
            return Standing::TurnedAway;
        }
        let in_line = self.in_line().count();
        if !self.is_turn_out() {
            let best = self.best();
            let goes_first = best.is_none_or(|best| self.key(ticket) < self.key(&self.requests[best].ticket));
            if self.seats.has_room(&ticket.lane) && goes_first {
                return Standing::Deciding { alone: in_line > 0 };
            }
            self.choose();
        }
        if self.in_line().count() < LIMIT { Standing::InLine } else { Standing::Full }
    }

    /// Looks at a future and holds what it says against the list.
    fn look(&mut self, index: usize) {
        let request = &mut self.requests[index];
        request.woken = Arc::default(); // Another waker each time: the one before must not be relied on.
        let Some(entering) = &mut request.entering else { return };
        let polled = entering.as_mut().poll(&mut Context::from_waker(&Arc::clone(&request.woken).into()));
        let is_late = Instant::now() > request.deadline;
        let expected = match request.standing {
            Standing::Chosen => Standing::Deciding { alone: true },
            Standing::InLine if is_late => Standing::TimedOut,
            as_before => as_before,
        };
        request.standing = expected;
        match (polled, expected) {
            (Poll::Ready(Ok(turn)), Standing::Deciding { .. }) => {
                request.turn = Some(turn);
                request.entering = None;
            }
            (Poll::Ready(Err(Refused::Full { .. })), Standing::Full)
            | (Poll::Ready(Err(Refused::TimedOut { .. })), Standing::TimedOut)
            | (Poll::Ready(Err(Refused::Closed)), Standing::TurnedAway) => request.entering = None,
            (Poll::Pending, Standing::InLine) => {}
            (polled, _) => panic!("request {index} should be {expected:?}, its future says {polled:?}"),
        }
    }

    fn look_at_woken(&mut self) {
        for index in 0..self.requests.len() {
            if self.requests[index].woken.0.load(Ordering::SeqCst) {
                self.look(index);
            }
        }
    }

    fn decide(&mut self, index: usize, books: bool) {
        let rank = if books { self.seats.take(&self.requests[index].ticket.lane) } else { None };
        self.served.extend(rank);
        let request = &mut self.requests[index];
        let alone = request.standing == Standing::Deciding { alone: true };
        request.standing = if rank.is_some() { Standing::Placed } else { Standing::Unplaced };
        request.turn = None;
        if alone {
            self.choose();
        }
    }

    fn wake(&mut self) {
        if !self.is_turn_out() {
            self.choose();
        }
        self.gate.wake();
    }

    /// The best of those in line gets the turn.
    fn choose(&mut self) {
        if let Some(best) = self.best() {
            self.requests[best].standing = Standing::Chosen;
        }
    }

    fn is_turn_out(&self) -> bool {
        let has_it = |standing| matches!(standing, Standing::Chosen | Standing::Deciding { alone: true });
        self.requests.iter().any(|request| has_it(request.standing))
    }

    fn in_line(&self) -> impl Iterator<Item = usize> {
        (0..self.requests.len()).filter(|&index| self.requests[index].standing == Standing::InLine)
    }

    fn best(&self) -> Option<usize> {
        let may_go = self.in_line().filter(|&index| self.seats.has_room(&self.requests[index].ticket.lane));
        may_go.min_by_key(|&index| self.key(&self.requests[index].ticket))
    }

    /// Everybody here arrives within milliseconds, so length decides alone where it decides.
    fn key(&self, ticket: &Ticket) -> (i32, u64, Duration) {
        let length = if self.shortest_first { ticket.uncached.get() } else { 0 };
        (-ticket.priority, length, ticket.arrived)
    }

    /// What must hold between any two steps.
    fn check(&self) {
        for (index, request) in self.requests.iter().enumerate() {
            let is_told = request.woken.0.load(Ordering::SeqCst);
            assert!(request.standing != Standing::Chosen || is_told, "{index} has the turn and sleeps");
        }
        let in_line = self.in_line().count();
        let crowd = self.gate.crowd.load(Ordering::Relaxed);
        let turns = usize::from(self.is_turn_out());
        let is_told =
            |request: &Request<'_>| request.woken.0.load(Ordering::SeqCst) || request.entering.is_none();
        let turned_away = |request: &&Request<'_>| request.standing == Standing::TurnedAway;
        assert!(self.requests.iter().filter(turned_away).all(is_told), "turned away, and sleeps");
        if !self.is_closed {
            assert_eq!((self.gate.waiting(), crowd), (in_line, in_line + turns));
        }
        let alone = |request: &&Request<'_>| request.standing == Standing::Deciding { alone: true };
        assert!(self.requests.iter().filter(alone).count() <= 1);
    }

    /// Everybody decides and is served, until nothing moves any more.
    fn run_out(&mut self) {
        loop {
            self.look_at_woken();
            let deciding = self.pick(0, |request| request.turn.is_some());
            match deciding {
                Some(index) => self.decide(index, true),
                None => break,
            }
            self.check();
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ranks = proptest::collection::btree_set(0..RANKS, 1..3);
    let lane = proptest::option::weighted(0.4, ranks);
    // Lengths so far apart that the few milliseconds between the arrivals make no difference.
    let uncached = (0..4_u64).prop_map(|step| step * 1000);
    let arrive = (-1..2_i32, uncached, lane, 0..20_u32)
        .prop_map(|(priority, uncached, lane, patience)| Step::Arrive { priority, uncached, lane, patience });
    let step = prop_oneof![
        6 => arrive,
        2 => any::<usize>().prop_map(Step::Look),
        4 => Just(Step::LookAtWoken),
        2 => any::<usize>().prop_map(Step::Cancel),
        4 => (any::<usize>(), proptest::bool::weighted(0.8))
            .prop_map(|(which, books)| Step::Decide { which, books }),
        3 => any::<usize>().prop_map(Step::Release),
        2 => (0..RANKS, any::<bool>(), any::<bool>())
            .prop_map(|(rank, comes, is_told)| Step::Seat { rank, comes, is_told }),
        1 => (0..5_u32).prop_map(Step::Wait),
    ];
    (vec(step, 0..100), proptest::option::weighted(0.2, any::<usize>())).prop_map(|(mut steps, closes)| {
        if let Some(any) = closes {
            steps.insert(any % (steps.len() + 1), Step::Close);
        }
        steps
    })
}

async fn play(steps: Vec<Step>, order: QueueOrder) {
    let seats = Seats::of([(0, 1), (1, 1)]);
    let gate = gate_of(seats.clone(), &QueueConfig { order, ..queue(LIMIT) });
    let shortest_first = order == QueueOrder::ShortestPrefill;
    let mut world = World {
        gate: &gate,
        seats: &seats,
        shortest_first,
        is_closed: false,
        requests: Vec::new(),
        served: Vec::new(),
    };
    for step in steps {
        world.take(step).await;
        world.check();
    }
    world.wake();
    world.run_out();
    assert_eq!(world.best(), None, "somebody waits while there is room");

    for rank in 0..RANKS {
        for _ in 0..=LIMIT {
            seats.add(rank);
        }
    }
    world.wake();
    world.run_out();
    let ended = |request: &Request<'_>| {
        let is_open =
            matches!(request.standing, Standing::InLine | Standing::Chosen | Standing::Deciding { .. });
        !is_open && request.entering.is_none() && request.turn.is_none()
    };
    assert!(world.requests.iter().all(ended), "somebody waits for ever");
    assert_eq!((gate.waiting(), gate.crowd.load(Ordering::Relaxed)), (0, usize::from(world.is_closed)));
}

proptest! {
    #[test]
    fn everybody_ends_once_in_order_and_nobody_waits_while_there_is_room(
        steps in steps(),
        order in prop::sample::select(QueueOrder::ALL.to_vec()),
    ) {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(play(steps, order));
    }
}
