//! Every interleaving of lookups and teachers, under the rules of the memory model. Run by
//! `RUSTFLAGS="--cfg loom" cargo test -p kvroute-history --lib interleavings`.
//!
//! Histories are tiny, so that places are used again at once: a lookup that did not notice would take one hash for another,
//! or miss one that was there all the time. The writer is the thread that loom runs first: of a thread that reads a word
//! before it writes it, loom forgets who else had read that word.

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
    explore(2, || {
        let history = history(3, &[1, 2, 3]);
        let shared = Arc::clone(&history);
        let reader = thread::spawn(move || known(&shared, &[2, 3]));
        teach(&history, &[4]);
        assert_eq!(reader.join().unwrap(), 2);
    });
}

#[test]
fn what_went_is_not_known_by_the_hash_that_took_its_place() {
    explore(1, || {
        let history = history(2, &[1, 2]);
        let shared = Arc::clone(&history);
        let reader = thread::spawn(move || known(&shared, &[1, 2]));
        teach(&history, &[3]);
        // Gone for good before the other one comes.
        assert_eq!(known(&history, &[1]), 0);
        teach(&history, &[4]);
        let found = reader.join().unwrap();
        assert!([0, 2].contains(&found), "1 never was there without 2: {found}");
        assert_eq!(known(&history, &[3, 4]), 2);
    });
}

#[test]
fn a_hash_that_is_known_once_is_known_to_whoever_looks_later() {
    explore(2, || {
        // 9 was there before: its hash is still about when 5 comes.
        let history = history(2, &[9, 8, 7]);
        let shared = Arc::clone(&history);
        let reader = thread::spawn(move || (known(&shared, &[5]), known(&shared, &[5])));
        teach(&history, &[5]);
        let (first, second) = reader.join().unwrap();
        assert!(first <= second, "{first} and then {second}");
        assert_eq!(known(&history, &[5]), 1);
    });
}

#[test]
fn no_prefix_is_made_of_blocks_that_were_never_there_together() {
    explore(2, || {
        let history = history(3, &[1, 2, 3]);
        let shared = Arc::clone(&history);
        // 5 comes to where 2 was, right behind the place of 1.
        let reader = thread::spawn(move || known(&shared, &[1, 5]));
        teach(&history, &[4, 5]);
        let found = reader.join().unwrap();
        assert!(found < 2, "{found}");
        assert_eq!((known(&history, &[1, 5]), known(&history, &[3, 4, 5])), (0, 3));
    });
}

#[test]
fn whoever_sees_that_one_came_sees_it_and_not_the_one_that_went() {
    explore(2, || {
        let history = history(2, &[1, 2]);
        let shared = Arc::clone(&history);
        let reader = thread::spawn(move || {
            if shared.taught() == 3 {
                assert_eq!((known(&shared, &[1]), known(&shared, &[3])), (0, 1));
            }
        });
        teach(&history, &[3]);
        reader.join().unwrap();
    });
}

#[test]
fn two_teachers_of_one_hash_insert_it_once() {
    explore(2, || {
        let history = history(3, &[1]);
        let shared = Arc::clone(&history);
        let other = thread::spawn(move || teach(&shared, &[1, 2]));
        let new = teach(&history, &[2]) + other.join().unwrap();
        assert_eq!((new, history.resident().get(), history.taught()), (1, 2, 2));
    });
}

#[test]
fn what_was_just_taught_is_not_lost_to_an_eviction_that_was_over_before() {
    explore(2, || {
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
    explore(2, || {
        let history = history(3, &[1, 2]);
        let shared = Arc::clone(&history);
        let reader = thread::spawn(move || known(&shared, &[1, 2]));
        history.clear();
        assert_eq!(known(&history, &[1]), 0);
        teach(&history, &[2]);
        let found = reader.join().unwrap();
        assert!([0, 2].contains(&found), "{found}");
        assert_eq!((known(&history, &[2]), known(&history, &[1]), history.resident().get()), (1, 0, 1));
    });
}
