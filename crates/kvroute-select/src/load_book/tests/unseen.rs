//! Prompts whose end nobody sees.

use super::*;

/// A whole answer to a prompt of so many tokens; a rank that has shown nothing computes 10,000 a second.
fn book_whole(load: &mut LoadBook, id: u64, tokens: u64, now: Duration) {
    let tokens = Tokens::new(tokens);
    let prompts = [BookedPrompt { tokens, hashes: &[] }];
    let booking = Booking {
        prefill: tokens,
        block_size: size(10),
        prompts: &prompts,
        choices: 1,
        shows_first_token: false,
        now,
    };
    load.book(AttemptId::new(id), SLOT, &booking);
}

fn backlog_at(load: &mut LoadBook, now: Duration) -> u64 {
    load.settle(now);
    load.load(SLOT).prefill_tokens.get()
}

fn seconds(seconds: u64) -> Duration {
    NOW + Duration::from_secs(seconds)
}

#[test]
fn prompts_of_whole_answers_count_as_computed_one_after_the_other() {
    let mut load = LoadBook::new();
    book_whole(&mut load, 1, 20_000, NOW);
    book_whole(&mut load, 2, 10_000, NOW);
    assert_eq!([0, 1, 2, 3].map(|at| backlog_at(&mut load, seconds(at))), [30_000, 30_000, 10_000, 0]);
    assert_eq!(load.load(SLOT).active_requests, 2);
    for id in [1, 2] {
        load.release(AttemptId::new(id), seconds(9));
    }
    assert_eq!(load.load(SLOT), WorkerLoad::default());
}

#[test]
fn room_comes_after_the_shortest_backlog_and_the_line_that_all_work_off_together() {
    let mut load = LoadBook::new();
    book_whole(&mut load, 1, 20_000, NOW);
    let other = RankSlot::new(SLOT.get() + 1);
    let time = |usable: &[RankSlot], all: &[RankSlot], in_line| {
        load.time_to_room(usable.iter().copied(), all.iter().copied(), Tokens::new(in_line))
    };
    let seconds = Duration::from_secs;
    assert_eq!(time(&[SLOT], &[SLOT], 0), seconds(2), "its own backlog");
    assert_eq!(time(&[SLOT], &[SLOT], 40_000), seconds(6));
    assert_eq!(
        time(&[SLOT, other], &[SLOT, other], 40_000),
        seconds(2),
        "one is idle, and each takes half of the line"
    );
    assert_eq!(time(&[SLOT], &[SLOT, other], 40_000), seconds(4));
    assert_eq!(time(&[], &[], 40_000), Duration::ZERO);
}

#[test]
fn an_answer_that_came_lets_those_behind_it_move_up() {
    let mut load = LoadBook::new();
    for id in 1..4 {
        book_whole(&mut load, id, 20_000, NOW);
    }
    load.release(AttemptId::new(2), NOW);
    load.release(AttemptId::new(1), seconds(1));
    assert_eq!([2, 3].map(|at| backlog_at(&mut load, seconds(at))), [20_000, 0]);
}

#[test]
fn a_faster_engine_than_assumed_does_not_look_busier_and_busier() {
    let mut load = LoadBook::new();
    for id in 0..1000 {
        book_whole(&mut load, id, 50_000, seconds(id));
        assert!(backlog_at(&mut load, seconds(id)) <= 100_000);
        load.release(AttemptId::new(id.saturating_sub(1)), seconds(id));
    }
}

#[test]
fn the_speed_that_streams_showed_is_that_of_whole_answers() {
    let mut load = LoadBook::new();
    book(&mut load, 1, 4000, &[], 1);
    load.first_token(AttemptId::new(1), seconds(2));
    assert_eq!(load.prefill_speed(SLOT), TokensPerSecond::new(2000.0));
    book_whole(&mut load, 2, 4000, seconds(2));
    assert_eq!([3, 4].map(|at| backlog_at(&mut load, seconds(at))), [4000, 0]);
}

#[test]
fn what_was_refused_was_remembered_as_work() {
    let mut load = LoadBook::new();
    book(&mut load, 1, 1000, &[], 1);
    book_whole(&mut load, 2, 500, NOW);
    load.release(AttemptId::new(1), NOW);
    load.release(AttemptId::new(2), NOW);
    assert_eq!(load.recent(seconds(100)).of(SLOT), Tokens::ZERO);
}

#[test]
fn what_was_given_up_is_remembered_as_far_as_there_was_time_to_compute_it() {
    let given_up = |tokens, after| {
        let mut load = LoadBook::new();
        book(&mut load, 1, tokens, &[], 1);
        load.release(AttemptId::new(1), seconds(after));
        load.recent(NOW).of(SLOT).get()
    };
    assert_eq!(
        [(50_000, 0), (50_000, 2), (50_000, 60)].map(|(tokens, after)| given_up(tokens, after)),
        [0, 20_000, 50_000]
    );
}

#[test]
fn recent_work_outlives_its_attempt_and_is_no_load() {
    let mut load = LoadBook::new();
    book(&mut load, 1, 1000, &[], 1);
    load.first_token(AttemptId::new(1), NOW);
    load.output(AttemptId::new(1), 0, Tokens::new(24), NOW);
    load.release(AttemptId::new(1), NOW);
    assert_eq!(load.load(SLOT), WorkerLoad::default());
    assert_eq!([0, 300, 6000].map(|at| load.recent(seconds(at)).of(SLOT).get()), [1024, 512, 0]);
}
