//! Every interleaving of lookups and teachers, under the rules of the memory model. Run by
//! `RUSTFLAGS="--cfg loom" cargo test -p kvroute-history --lib interleavings`.
//!
//! Histories are tiny, so that places are used again at once: a lookup that did not notice would take one hash for another,
//! or miss one that was there all the time.

use kvroute_core::SequenceHash;
use loom::sync::Arc;
use loom::thread;

use crate::dimensions::Dimensions;
use crate::history::History;

fn hashes(raw: &[u64]) -> Vec<SequenceHash> {
    raw.iter().map(|raw| SequenceHash::from_raw(*raw)).collect()
}

fn history(capacity: usize, known: &[u64]) -> Arc<History> {
    let history = History::with_dimensions(0, Dimensions { lines: 1, capacity }, 1);
    assert_eq!(teach(&history, known), known.len() as u64);
    Arc::new(history)
}

fn teach(history: &History, raw: &[u64]) -> u64 {
    history.teach(&hashes(raw)).get()
}

fn known(history: &History, raw: &[u64]) -> u64 {
    history.known_prefix(&hashes(raw)).get()
}

fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

#[test]
fn what_stays_resident_is_known_throughout() {
    explore(3, || {
        let history = history(3, &[1, 2, 3]);
        let shared = Arc::clone(&history);
        let writer = thread::spawn(move || teach(&shared, &[4]));
        assert_eq!(known(&history, &[2, 3]), 2);
        writer.join().unwrap();
    });
}

#[test]
fn what_went_is_not_known_by_the_hash_that_took_its_place() {
    explore(3, || {
        let history = history(2, &[1, 2]);
        let shared = Arc::clone(&history);
        let writer = thread::spawn(move || {
            teach(&shared, &[3]);
            // Gone for good before the other one comes.
            assert_eq!(known(&shared, &[1]), 0);
            teach(&shared, &[4]);
        });
        // 1 goes before 2, so nobody ever has 1 without 2 in front of it or behind it.
        let found = known(&history, &[1, 2]);
        assert!([0, 2].contains(&found), "{found}");
        writer.join().unwrap();
        assert_eq!(known(&history, &[3, 4]), 2);
    });
}

#[test]
fn a_hash_that_is_known_once_is_known_to_whoever_looks_later() {
    explore(3, || {
        // 9 was there before: its slot and its hash are still about when 5 comes.
        let history = history(2, &[9, 8, 7]);
        let shared = Arc::clone(&history);
        let writer = thread::spawn(move || teach(&shared, &[5]));
        let (first, second) = (known(&history, &[5]), known(&history, &[5]));
        assert!(first <= second, "{first} and then {second}");
        writer.join().unwrap();
        assert_eq!(known(&history, &[5]), 1);
    });
}

#[test]
fn no_prefix_is_made_of_blocks_that_were_never_there_together() {
    explore(3, || {
        let history = history(3, &[1, 2, 3]);
        let shared = Arc::clone(&history);
        // 5 comes to where 2 was, right behind the place of 1.
        let writer = thread::spawn(move || teach(&shared, &[4, 5]));
        let found = known(&history, &[1, 5]);
        assert!(found < 2, "{found}");
        writer.join().unwrap();
        assert_eq!((known(&history, &[1, 5]), known(&history, &[3, 4, 5])), (0, 3));
    });
}

#[test]
fn whoever_sees_that_one_came_sees_it_and_not_the_one_that_went() {
    explore(3, || {
        let history = history(2, &[1, 2]);
        let shared = Arc::clone(&history);
        let writer = thread::spawn(move || teach(&shared, &[3]));
        if history.taught() == 3 {
            assert_eq!((known(&history, &[1]), known(&history, &[3])), (0, 1));
        }
        writer.join().unwrap();
    });
}

#[test]
fn two_teachers_of_one_hash_insert_it_once() {
    explore(3, || {
        let history = history(3, &[1]);
        let shared = Arc::clone(&history);
        let other = thread::spawn(move || teach(&shared, &[1, 2]));
        let new = teach(&history, &[2]) + other.join().unwrap();
        assert_eq!((new, history.resident().get(), history.taught()), (1, 2, 2));
    });
}

#[test]
fn what_was_just_taught_is_not_lost_to_an_eviction_that_was_over_before() {
    explore(3, || {
        let history = history(3, &[1, 2, 3]);
        let shared = Arc::clone(&history);
        // Lets 1 go, whenever it likes.
        let other = thread::spawn(move || teach(&shared, &[4]));
        let new = teach(&history, &[1, 5]);
        let has_gone = other.join().unwrap() == 1;
        assert!(has_gone);
        // Either 1 was a duplicate and the first to go afterwards, or it had gone and came anew.
        let there = known(&history, &[1, 5]);
        assert_eq!(there, if new == 2 { 2 } else { 0 });
        assert_eq!(known(&history, &[5]), 1);
    });
}

#[test]
fn a_clear_leaves_nothing_that_a_lookup_takes_for_known() {
    explore(3, || {
        let history = history(3, &[1, 2]);
        let shared = Arc::clone(&history);
        let other = thread::spawn(move || {
            shared.clear();
            assert_eq!(known(&shared, &[1]), 0);
            teach(&shared, &[2]);
        });
        let found = known(&history, &[1, 2]);
        assert!([0, 2].contains(&found), "{found}");
        other.join().unwrap();
        assert_eq!((known(&history, &[2]), known(&history, &[1]), history.resident().get()), (1, 0, 1));
    });
}
