use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn config() -> BreakerConfig {
    BreakerConfig {
        enabled: true,
        failures: 3,
        share: 0.5,
        window: SECOND * 10,
        cooldown: SECOND * 4,
        longest: SECOND * 30,
    }
}

/// A breaker that has just opened, and when its time is over.
fn opened() -> (Breaker, Duration) {
    let mut breaker = Breaker::new(config());
    for _ in 0..3 {
        let ticket = breaker.enter(SECOND);
        breaker.failed(ticket, SECOND, 0.0);
    }
    let until = breaker.open_until().unwrap();
    (breaker, until)
}

#[test]
fn failures_in_a_row_open_it_and_an_answer_between_them_does_not() {
    let mut breaker = Breaker::new(config());
    for _ in 0..2 {
        let tickets = [breaker.enter(SECOND), breaker.enter(SECOND), breaker.enter(SECOND)];
        assert_eq!(breaker.failed(tickets[0], SECOND, 0.0), None);
        assert_eq!(breaker.failed(tickets[1], SECOND, 0.0), None);
        breaker.succeeded(tickets[2], SECOND);
    }
    assert_eq!(breaker.admission(), Admission::All);
    for expected in [None, None, Some(SECOND * 4)] {
        let ticket = breaker.enter(SECOND);
        assert_eq!(breaker.failed(ticket, SECOND, 0.0), expected);
    }
    assert_eq!(breaker.admission(), Admission::OneFrom(SECOND * 5));
}

#[test]
fn a_large_part_of_failures_opens_it_though_never_two_come_in_a_row() {
    let mut breaker = Breaker::new(config());
    for _ in 0..4 {
        let (good, bad) = (breaker.enter(SECOND), breaker.enter(SECOND));
        breaker.succeeded(good, SECOND);
        assert_eq!(breaker.failed(bad, SECOND, 0.0), None, "too few to tell");
    }
    let (good, bad) = (breaker.enter(SECOND), breaker.enter(SECOND));
    breaker.succeeded(good, SECOND);
    assert!(breaker.failed(bad, SECOND, 0.0).is_some());
}

#[test]
fn old_failures_are_no_part_of_the_share() {
    let mut breaker = Breaker::new(config());
    for step in 0..100 {
        let now = SECOND * 6 * step;
        let (good, bad) = (breaker.enter(now), breaker.enter(now));
        breaker.succeeded(good, now);
        assert_eq!(breaker.failed(bad, now, 0.0), None);
    }
}

#[test]
fn one_tries_once_its_time_is_over_and_the_next_one_only_when_that_one_is_back() {
    let (mut breaker, until) = opened();
    assert_eq!(breaker.admission(), Admission::OneFrom(until));
    let trial = breaker.enter(until);
    assert_eq!(breaker.admission(), Admission::Nobody);
    breaker.left(trial);
    assert_eq!(breaker.admission(), Admission::OneFrom(until));
}

#[test]
fn a_failed_trial_doubles_the_time_up_to_the_longest() {
    let (mut breaker, mut until) = opened();
    for expected in [8, 16, 30, 30, 30] {
        let trial = breaker.enter(until);
        assert_eq!(breaker.failed(trial, until, 0.0), Some(SECOND * expected));
        until = breaker.open_until().unwrap();
    }
    let trial = breaker.enter(until);
    breaker.succeeded(trial, until);
    for expected in [None, None, Some(SECOND * 4)] {
        let ticket = breaker.enter(until);
        assert_eq!(breaker.failed(ticket, until, 0.0), expected, "a complete answer forgives everything");
    }
}

#[test]
fn a_sign_of_life_lets_others_in_until_one_of_them_fails() {
    let (mut breaker, until) = opened();
    let trial = breaker.enter(until);
    breaker.shows_life(trial);
    assert_eq!(breaker.admission(), Admission::All);
    let other = breaker.enter(until);
    assert_eq!(breaker.failed(other, until, 0.0), Some(SECOND * 8));
    breaker.succeeded(trial, until);
    assert!(breaker.open_until().is_some(), "it began before the worker failed again");
}

#[test]
fn a_trial_before_its_time_costs_no_further_time() {
    let (mut breaker, until) = opened();
    let early = breaker.enter(SECOND * 2);
    let further = breaker.enter(SECOND * 2);
    assert_eq!(breaker.failed(further, SECOND * 2, 0.0), None);
    assert_eq!(breaker.admission(), Admission::Nobody, "the first one still tries");
    assert_eq!(breaker.failed(early, SECOND * 2, 0.0), None);
    assert_eq!(breaker.admission(), Admission::OneFrom(until));
}

#[test]
fn what_began_before_it_opened_says_nothing_any_more() {
    let mut breaker = Breaker::new(config());
    let old = [breaker.enter(SECOND), breaker.enter(SECOND)];
    for _ in 0..3 {
        let ticket = breaker.enter(SECOND);
        breaker.failed(ticket, SECOND, 0.0);
    }
    breaker.succeeded(old[0], SECOND);
    assert!(breaker.open_until().is_some());
    let trial = breaker.enter(SECOND * 5);
    breaker.succeeded(trial, SECOND * 5);
    assert_eq!(breaker.failed(old[1], SECOND * 5, 0.0), None);
    assert_eq!(breaker.admission(), Admission::All);
}

#[test]
fn a_worker_that_was_away_and_is_back_may_be_tried_at_once() {
    let (mut breaker, _) = opened();
    breaker.may_be_tried(SECOND * 2);
    assert_eq!(breaker.admission(), Admission::OneFrom(SECOND * 2));
    let trial = breaker.enter(SECOND * 2);
    assert_eq!(breaker.failed(trial, SECOND * 2, 0.0), Some(SECOND * 8));
    breaker.may_be_tried(SECOND * 3);
    assert_eq!(breaker.admission(), Admission::OneFrom(SECOND * 10), "it answers probes and fails requests");
    breaker.reset(config());
    assert_eq!(breaker.admission(), Admission::All);
}

#[test]
fn one_that_is_switched_off_stays_closed() {
    let mut breaker = Breaker::new(BreakerConfig { enabled: false, ..config() });
    for _ in 0..100 {
        let ticket = breaker.enter(SECOND);
        assert_eq!(breaker.failed(ticket, SECOND, 0.5), None);
    }
    assert_eq!(breaker.admission(), Admission::All);
}

/// What may befall a breaker.
#[derive(Clone, Copy, Debug)]
enum Step {
    Pause(u64),
    Enter,
    ShowsLife(usize),
    Succeeds(usize),
    Fails(usize, f64),
    Leaves(usize),
    MayBeTried,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => (0u64..20_000).prop_map(Step::Pause),
        5 => Just(Step::Enter),
        1 => any::<usize>().prop_map(Step::ShowsLife),
        2 => any::<usize>().prop_map(Step::Succeeds),
        6 => (any::<usize>(), 0.0f64..1.0).prop_map(|(one, random)| Step::Fails(one, random)),
        1 => any::<usize>().prop_map(Step::Leaves),
        1 => Just(Step::MayBeTried),
    ];
    prop::collection::vec(step, 1..300)
}

/// Attempts that are on their way.
#[derive(Default)]
struct InFlight(Vec<Ticket>);

impl InFlight {
    fn take(&mut self, one: usize) -> Option<Ticket> {
        (!self.0.is_empty()).then(|| self.0.swap_remove(one % self.0.len()))
    }
}

fn tries(breaker: &Breaker, ticket: Ticket) -> bool {
    ticket.era == breaker.era && matches!(ticket.kind, TicketKind::Trial { .. })
}

proptest! {
    #[test]
    fn whatever_happens_somebody_is_let_in_in_the_end_and_never_two_try_at_once(steps in steps()) {
        let (mut breaker, mut now, mut flying) = (Breaker::new(config()), Duration::ZERO, InFlight::default());
        for step in steps {
            let until_before = breaker.open_until();
            match step {
                Step::Pause(millis) => now += Duration::from_millis(millis),
                Step::Enter => flying.0.push(breaker.enter(now)),
                Step::ShowsLife(one) => {
                    if let Some(ticket) = flying.0.get(one % flying.0.len().max(1)) {
                        breaker.shows_life(*ticket);
                    }
                }
                Step::Succeeds(one) => {
                    if let Some(ticket) = flying.take(one) { breaker.succeeded(ticket, now); }
                }
                Step::Fails(one, random) => if let Some(ticket) = flying.take(one) {
                    let cooldown = breaker.failed(ticket, now, random);
                    prop_assert_eq!(cooldown.map(|time| now + time).or(until_before), breaker.open_until());
                    if let Some(time) = cooldown {
                        prop_assert!(time >= SECOND * 3 && time <= SECOND * 30, "{:?}", time);
                    }
                }
                Step::Leaves(one) => if let Some(ticket) = flying.take(one) { breaker.left(ticket) }
                Step::MayBeTried => breaker.may_be_tried(now),
            }
            let trying = flying.0.iter().filter(|ticket| tries(&breaker, **ticket)).count();
            let is_open = breaker.open_until().is_some();
            prop_assert!(!is_open || trying <= 1, "{} try at once", trying);
            prop_assert_eq!(is_open && trying == 1, breaker.admission() == Admission::Nobody, "a permit was lost");
        }
        while let Some(ticket) = flying.take(0) { breaker.left(ticket); }
        prop_assert!(breaker.admission() != Admission::Nobody);
        let (until, limit) = (breaker.open_until().unwrap_or(now), now + SECOND * 30);
        prop_assert!(until <= limit, "it stays away too long");
    }

    #[test]
    fn refusals_and_clients_that_leave_never_open_it(leaves in 1usize..200) {
        let mut breaker = Breaker::new(config());
        for _ in 0..leaves {
            let ticket = breaker.enter(SECOND);
            breaker.left(ticket);
        }
        prop_assert_eq!(breaker.admission(), Admission::All);
    }
}
