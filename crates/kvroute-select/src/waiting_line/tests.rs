use proptest::collection::vec;
use proptest::prelude::*;

use kvroute_core::RankSlot;

use super::*;

/// The only ranks that may serve a request; `None` for any.
type Lane = Option<Vec<RankSlot>>;
type Ticket = super::Ticket<Lane>;

const PATIENCE: Duration = Duration::from_secs(10);

fn ticket(arrived: u64, uncached: u64) -> Ticket {
    let arrived = Duration::from_secs(arrived);
    Ticket { priority: 0, uncached: Tokens::new(uncached), lane: None, arrived }
}

fn only(slots: &[u32], arrived: u64) -> Ticket {
    Ticket { lane: Some(slots.iter().copied().map(RankSlot::new).collect()), ..ticket(arrived, 0) }
}

fn line(order: QueueOrder) -> WaitingLine<Lane, &'static str> {
    WaitingLine::new(10, order, PATIENCE)
}

/// Those who wait, in the order in which they are let in.
fn drained<T>(mut line: WaitingLine<Lane, T>) -> Vec<T> {
    std::iter::from_fn(|| line.pop_first(|_| true)).map(|(_, _, kept)| kept).collect()
}

#[test]
fn whoever_arrived_first_is_first_however_long_its_prompt_and_whenever_it_joined() {
    let mut line = line(QueueOrder::Fcfs);
    line.push(ticket(2, 1), "second").unwrap();
    line.push(ticket(1, 9000), "first").unwrap();
    line.push(ticket(2, 0), "joined after the second").unwrap();
    assert_eq!(drained(line), ["first", "second", "joined after the second"]);
}

#[test]
fn what_waits_is_the_sum_of_those_in_line() {
    let mut line = WaitingLine::new(3, QueueOrder::ShortestPrefill, PATIENCE);
    let first = line.push(ticket(1, 500), "first").unwrap();
    line.push(ticket(2, 70), "second").unwrap();
    line.push(ticket(3, 8), "third").unwrap();
    line.push(ticket(4, 9000), "refused").unwrap_err();
    assert_eq!(line.uncached(), Tokens::new(578));
    line.remove(first).unwrap();
    assert_eq!(line.remove(first), None);
    assert_eq!(line.uncached(), Tokens::new(78));
    while line.pop_first(|_| true).is_some() {}
    assert_eq!(line.uncached(), Tokens::ZERO);
}

#[test]
fn a_higher_priority_goes_first_in_every_order() {
    for order in QueueOrder::ALL {
        let mut line = line(order);
        for (priority, name) in [(-1, "low"), (5, "high"), (0, "none"), (5, "high too")] {
            line.push(Ticket { priority, ..ticket(1, 100) }, name).unwrap();
        }
        assert_eq!(drained(line), ["high", "high too", "none", "low"]);
    }
}

#[test]
fn of_those_who_arrived_together_the_shortest_is_first() {
    let mut line = line(QueueOrder::ShortestPrefill);
    for (uncached, name) in [(1_000_000, "longest"), (0, "cached"), (90_000, "long"), (1, "short")] {
        line.push(ticket(1, uncached), name).unwrap();
    }
    assert_eq!(drained(line), ["cached", "short", "long", "longest"]);
}

#[test]
fn a_long_prompt_lets_nobody_pass_who_arrives_after_the_patience() {
    let mut line = line(QueueOrder::ShortestPrefill);
    line.push(ticket(10, u64::MAX), "endless").unwrap();
    line.push(ticket(21, 0), "late").unwrap();
    line.push(ticket(19, 0), "in time").unwrap();
    assert_eq!(drained(line), ["in time", "endless", "late"]);
}

#[test]
fn those_whose_ranks_have_no_room_hold_up_nobody_else() {
    let mut line = line(QueueOrder::Fcfs);
    line.push(only(&[7], 1), "only 7").unwrap();
    line.push(only(&[8], 2), "only 8").unwrap();
    line.push(ticket(3, 0), "any").unwrap();
    let without_7 = |lane: &Lane| lane.as_deref() != Some(&[RankSlot::new(7)]);
    assert_eq!(line.pop_first(without_7).map(|(_, _, name)| name), Some("only 8"));
    assert_eq!(line.pop_first(without_7).map(|(_, _, name)| name), Some("any"));
    assert_eq!(line.pop_first(without_7), None);
    assert_eq!(drained(line), ["only 7"]);
}

#[test]
fn room_is_asked_once_for_all_who_wait_for_the_same_ranks() {
    let mut line = WaitingLine::new(100, QueueOrder::Fcfs, PATIENCE);
    for arrived in 0..50 {
        line.push(ticket(arrived, 0), ()).unwrap();
        line.push(only(&[1, 2], arrived), ()).unwrap();
    }
    let mut asked = 0;
    let no_room = |_: &Lane| {
        asked += 1;
        false
    };
    assert!(line.pop_first(no_room).is_none());
    assert_eq!(asked, 2);
}

#[test]
fn a_full_line_takes_nobody_until_one_leaves() {
    let mut line = WaitingLine::new(1, QueueOrder::Fcfs, PATIENCE);
    let first = line.push(ticket(1, 0), ()).unwrap();
    assert_eq!(line.push(ticket(0, 0), ()), Err(LineFull { waiting: 1 }));
    assert!(line.remove(first).is_some());
    assert_eq!(line.remove(first), None, "nobody leaves twice");
    line.push(ticket(2, 0), ()).unwrap();
    assert_eq!(line.len(), 1);
}

#[test]
fn an_order_is_known_by_the_name_that_it_shows() {
    for order in QueueOrder::ALL {
        assert_eq!(QueueOrder::by_name(order.as_str()), Some(order));
    }
    assert_eq!(QueueOrder::by_name("lifo"), None);
}

proptest! {
    #[test]
    fn more_to_compute_never_yields_less_and_never_the_whole_patience(
        shorter in any::<u64>(),
        more in any::<u64>(),
        patience in any::<Duration>(),
    ) {
        let longer = Tokens::new(shorter.saturating_add(more));
        let (less, more) = (yielding(Tokens::new(shorter), patience), yielding(longer, patience));
        prop_assert!(less <= more);
        prop_assert!(more < patience || patience.is_zero());
    }
}

// The model: a plain list, looked through from its best to its worst.

#[derive(Clone, Debug)]
enum Step {
    Push(Ticket),
    Remove(usize),
    /// Ranks that have room, a bit each; the last bit is the room of those that may use any.
    Pop(u8),
    AskNext(Ticket, u8),
}

#[derive(Debug)]
struct Model {
    limit: usize,
    order: QueueOrder,
    waiting: Vec<(Ticket, u64)>,
    joined: u64,
}

impl Model {
    fn key(&self, (ticket, number): &(Ticket, u64)) -> (i64, u128, u64) {
        let tokens = u128::from(ticket.uncached.get());
        let yields = match self.order {
            QueueOrder::Fcfs => 0,
            QueueOrder::ShortestPrefill => PATIENCE.as_nanos() * tokens / (tokens + 8192),
        };
        (-i64::from(ticket.priority), ticket.arrived.as_nanos() + yields, *number)
    }

    fn push(&mut self, ticket: &Ticket) -> bool {
        let fits = self.waiting.len() < self.limit;
        if fits {
            self.waiting.push((ticket.clone(), self.joined));
            self.joined += 1;
        }
        fits
    }

    fn first(&self, room: u8) -> Option<usize> {
        let sorted = (0..self.waiting.len()).filter(|index| has_room(&self.waiting[*index].0.lane, room));
        sorted.min_by_key(|index| self.key(&self.waiting[*index]))
    }

    fn is_next(&self, ticket: &Ticket, room: u8) -> bool {
        let key = self.key(&(ticket.clone(), self.joined));
        has_room(&ticket.lane, room)
            && self.first(room).is_none_or(|first| key < self.key(&self.waiting[first]))
    }
}

fn has_room(lane: &Lane, room: u8) -> bool {
    match lane {
        Some(only) => only.iter().any(|slot| room & (1 << slot.get()) != 0),
        None => room & 1 << 7 != 0,
    }
}

fn tickets() -> impl Strategy<Value = Ticket> {
    let lists = vec(0..3_u32, 1..3).prop_map(|slots| slots.into_iter().map(RankSlot::new).collect());
    let lane = prop_oneof![Just(None), lists.prop_map(Some)];
    let uncached = prop_oneof![0..4_u64, 0..30_000_u64].prop_map(Tokens::new);
    (-1..2_i32, uncached, lane, 0..12_000_u64).prop_map(|(priority, uncached, lane, arrived)| Ticket {
        priority,
        uncached,
        lane,
        arrived: Duration::from_millis(arrived),
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => tickets().prop_map(Step::Push),
        1 => any::<usize>().prop_map(Step::Remove),
        2 => any::<u8>().prop_map(Step::Pop),
        1 => (tickets(), any::<u8>()).prop_map(|(ticket, room)| Step::AskNext(ticket, room)),
    ];
    vec(step, 0..80)
}

proptest! {
    #[test]
    fn the_line_does_what_a_sorted_list_does(
        steps in steps(),
        limit in 0..20_usize,
        order in prop::sample::select(QueueOrder::ALL.to_vec()),
    ) {
        let mut line = WaitingLine::new(limit, order, PATIENCE);
        let mut model = Model { limit, order, waiting: Vec::new(), joined: 0 };
        let mut ids = BTreeMap::new();
        for step in steps {
            match step {
                Step::Push(ticket) => {
                    let number = model.joined;
                    let pushed = line.push(ticket.clone(), number);
                    prop_assert_eq!(pushed.is_ok(), model.push(&ticket));
                    if let Ok(id) = pushed {
                        ids.insert(number, id);
                    }
                }
                Step::Remove(any) => {
                    let Some(index) = any.checked_rem(model.waiting.len()) else { continue };
                    let (ticket, number) = model.waiting.remove(index);
                    prop_assert_eq!(line.remove(ids[&number]), Some((ticket, number)));
                }
                Step::Pop(room) => {
                    let expected = model.first(room).map(|index| model.waiting.remove(index));
                    let popped = line.pop_first(|lane| has_room(lane, room));
                    prop_assert_eq!(popped.map(|(_, ticket, number)| (ticket, number)), expected);
                }
                Step::AskNext(ticket, room) => {
                    let is_next = line.is_next(&ticket, |lane| has_room(lane, room));
                    prop_assert_eq!(is_next, model.is_next(&ticket, room));
                }
            }
            prop_assert_eq!(line.len(), model.waiting.len());
        }
        prop_assert!(line.lanes.len() <= line.len(), "a lane without anybody");
        let in_order = std::iter::from_fn(|| model.first(u8::MAX).map(|index| model.waiting.remove(index)));
        let in_order: Vec<_> = in_order.map(|(_, number)| number).collect();
        prop_assert_eq!(drained(line), in_order);
    }
}

#[test]
fn a_new_limit_and_a_new_order_count_for_those_who_come() {
    let mut line = line(QueueOrder::Fcfs);
    line.push(ticket(0, 9000), "long").unwrap();
    line.push(ticket(0, 500), "before the change").unwrap();
    line.configure(2, QueueOrder::ShortestPrefill, PATIENCE);
    assert_eq!(line.push(ticket(0, 0), "refused"), Err(LineFull { waiting: 2 }));
    line.configure(3, QueueOrder::ShortestPrefill, PATIENCE);
    line.push(ticket(0, 5), "after the change").unwrap();
    assert_eq!(drained(line), ["long", "before the change", "after the change"], "places are kept");
}
