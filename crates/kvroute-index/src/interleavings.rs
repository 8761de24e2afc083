//! Every interleaving of a lookup with a writer, under the rules of the memory model. Run by
//! `RUSTFLAGS="--cfg loom" cargo test -p kvroute-index --lib interleavings`.
//!
//! The writer is the real one, on tiny memory, so that what it frees is reused at once: a lookup that did not
//! notice would credit a block of another run.

use kvroute_core::{RankSlot, SequenceHash, Tier};
use loom::sync::Arc;

use crate::lineage::Parent;
use crate::lookup::DeviceWalk;
use crate::lookup_anywhere::HeldWalk;
use crate::prefixes::Prefixes;
use crate::run::RunId;
use crate::shelf::Shelf;
use crate::store::{Span, Store};

const A: RankSlot = RankSlot::new(0);
const B: RankSlot = RankSlot::new(1);
const C: RankSlot = RankSlot::new(2);

fn hashes(raw: &[u64]) -> Vec<SequenceHash> {
    raw.iter().map(|raw| SequenceHash::from_raw(*raw)).collect()
}

fn prefixes(shelf: &Shelf, prompt: &[u64]) -> [u32; 3] {
    let mut found = Prefixes::default();
    DeviceWalk::run(shelf, &hashes(prompt), 3, 0, &mut found);
    [A, B, C].map(|slot| found.on_device()[slot.index()])
}

fn held_anywhere(shelf: &Shelf, prompt: &[u64], first: usize) -> Vec<bool> {
    let mut held = Vec::new();
    HeldWalk::run(shelf, &hashes(prompt), first, &mut held);
    held
}

fn shelf() -> (Shelf, Store) {
    let shelf = Shelf::new(2);
    let mut store = Store::new(&shelf);
    assert!(store.prepare(&shelf, |_| true));
    (shelf, store)
}

fn fill(shelf: &Shelf, store: &mut Store, blocks: &[u64], slot: RankSlot) -> RunId {
    let run = store.reserve_run(shelf).unwrap();
    let filled = store.fill(shelf, (run, Parent::Root), hashes(blocks).into_iter(), slot, Tier::Device);
    assert_eq!(filled as usize, blocks.len());
    run
}

fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

#[test]
fn a_run_that_moves_while_it_grows_is_found_throughout() {
    explore(3, || {
        let (shelf, mut store) = shelf();
        let run = fill(&shelf, &mut store, &[11, 12], A);
        let shelf = Arc::new(shelf);
        let shared = Arc::clone(&shelf);
        let reader = loom::thread::spawn(move || prefixes(&shared, &[11, 12, 13]));
        store.append(&shelf, run, hashes(&[13]).into_iter(), A, Tier::Device);
        // Takes the memory that the growth freed.
        fill(&shelf, &mut store, &[21, 22], B);
        let [a, b, c] = reader.join().unwrap();
        assert!((2..=3).contains(&a) && (b, c) == (0, 0), "{a} {b} {c}");
        assert_eq!(prefixes(&shelf, &[11, 12, 13]), [3, 0, 0]);
    });
}

#[test]
fn a_run_that_is_freed_and_reused_credits_nobody_else() {
    explore(3, || {
        let (shelf, mut store) = shelf();
        let run = fill(&shelf, &mut store, &[11, 12], A);
        let shelf = Arc::new(shelf);
        let shared = Arc::clone(&shelf);
        let reader = loom::thread::spawn(move || prefixes(&shared, &[11, 12]));
        store.remove(&shelf, Span { slot: A, tier: Tier::Device, run, from: 0, to: 2 });
        // The same record, and the same cells.
        fill(&shelf, &mut store, &[31, 32], B);
        let [a, b, c] = reader.join().unwrap();
        assert!([0, 2].contains(&a) && (b, c) == (0, 0), "{a} {b} {c}");
        assert_eq!([prefixes(&shelf, &[11, 12]), prefixes(&shelf, &[31, 32])], [[0, 0, 0], [0, 2, 0]]);
    });
}

#[test]
fn a_run_that_moves_while_it_shrinks_is_found_throughout() {
    explore(3, || {
        let (shelf, mut store) = shelf();
        let run = fill(&shelf, &mut store, &[11, 12, 13, 14, 15, 16, 17, 18], A);
        let shelf = Arc::new(shelf);
        let shared = Arc::clone(&shelf);
        let reader = loom::thread::spawn(move || prefixes(&shared, &[11, 12]));
        store.remove(&shelf, Span { slot: A, tier: Tier::Device, run, from: 1, to: 8 });
        // Takes the memory that was given back.
        fill(&shelf, &mut store, &[21, 22, 23, 24, 25, 26, 27, 28], B);
        let [a, b, c] = reader.join().unwrap();
        assert!((1..=2).contains(&a) && (b, c) == (0, 0), "{a} {b} {c}");
        assert_eq!(prefixes(&shelf, &[11, 12]), [1, 0, 0]);
    });
}

#[test]
fn a_run_that_only_moves_is_found_throughout() {
    explore(4, || {
        let (shelf, mut store) = shelf();
        let run = fill(&shelf, &mut store, &[11, 12], A);
        let elsewhere = store.pages.take(shelf.cells(), 4).unwrap();
        let shelf = Arc::new(shelf);
        let shared = Arc::clone(&shelf);
        let reader = loom::thread::spawn(move || prefixes(&shared, &[11, 12]));
        // No other change tells a lookup that the first place was given to another run.
        store.move_hashes(&shelf, run, 2, elsewhere);
        fill(&shelf, &mut store, &[21, 22], B);
        assert_eq!(reader.join().unwrap(), [2, 0, 0]);
    });
}

#[test]
fn holders_that_change_leave_the_steady_one_alone() {
    explore(2, || {
        let (shelf, mut store) = shelf();
        let run = fill(&shelf, &mut store, &[11, 12], A);
        store.add(&shelf, Span { slot: B, tier: Tier::Device, run, from: 0, to: 1 });
        let shelf = Arc::new(shelf);
        let shared = Arc::clone(&shelf);
        let reader = loom::thread::spawn(move || prefixes(&shared, &[11, 12]));
        store.remove(&shelf, Span { slot: B, tier: Tier::Device, run, from: 0, to: 1 });
        // Other segments where the first ones were.
        store.add(&shelf, Span { slot: C, tier: Tier::Device, run, from: 1, to: 2 });
        let [a, b, c] = reader.join().unwrap();
        assert!(a == 2 && b <= 1 && c == 0, "{a} {b} {c}");
        assert_eq!(prefixes(&shelf, &[11, 12]), [2, 0, 0]);
    });
}

#[test]
fn a_block_behind_a_hole_is_found_while_its_run_changes() {
    explore(2, || {
        let (shelf, mut store) = shelf();
        let run = fill(&shelf, &mut store, &[11, 12, 13], A);
        store.remove(&shelf, Span { slot: A, tier: Tier::Device, run, from: 0, to: 2 });
        let shelf = Arc::new(shelf);
        let shared = Arc::clone(&shelf);
        let reader = loom::thread::spawn(move || held_anywhere(&shared, &[11, 12, 13, 14], 1));
        store.add(&shelf, Span { slot: B, tier: Tier::Host, run, from: 1, to: 2 });
        // Other segments where the first ones were.
        store.add(&shelf, Span { slot: C, tier: Tier::Device, run, from: 0, to: 1 });
        let held = reader.join().unwrap();
        assert!(held[1] && !held[2], "{held:?}");
        assert_eq!(held_anywhere(&shelf, &[11, 12, 13, 14], 1), [true, true, false]);
    });
}

#[test]
fn holders_of_a_reused_run_hold_nothing_of_the_one_before() {
    explore(1, || {
        let (shelf, mut store) = shelf();
        let run = fill(&shelf, &mut store, &[11, 12], A);
        store.remove(&shelf, Span { slot: A, tier: Tier::Device, run, from: 0, to: 1 });
        let shelf = Arc::new(shelf);
        let shared = Arc::clone(&shelf);
        let writer = loom::thread::spawn(move || {
            store.remove(&shared, Span { slot: A, tier: Tier::Device, run, from: 1, to: 2 });
            // The same record, the same cells, and other segments where the first ones were.
            let reused = fill(&shared, &mut store, &[41, 42], B);
            store.add(&shared, Span { slot: C, tier: Tier::Device, run: reused, from: 0, to: 1 });
        });
        assert!(!held_anywhere(&shelf, &[11, 12], 0)[0], "nobody held it at any time");
        writer.join().unwrap();
        assert_eq!(held_anywhere(&shelf, &[11, 12], 0), [false; 2]);
        assert_eq!(held_anywhere(&shelf, &[41, 42], 0), [true; 2]);
    });
}
