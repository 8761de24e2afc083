//! Real threads that teach, look up, export and clear at once.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use kvroute_core::SequenceHash;
use kvroute_history::{ExportCursor, History};

const BLOCKS: u64 = 60;

/// Scattered over all 64 bits.
fn prompt(number: u64) -> Vec<SequenceHash> {
    let first = number * BLOCKS;
    (first..first + BLOCKS)
        .map(|block| SequenceHash::from_raw(block.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
        .collect()
}

fn all(history: &History) -> Vec<SequenceHash> {
    let (mut hashes, mut next) = (Vec::new(), Some(ExportCursor::default()));
    while let Some(cursor) = next {
        next = history.export(cursor, &mut hashes);
    }
    hashes
}

/// Teaches prompts that come twice, from here and from the other teacher. What it just taught must be there, unless so much
/// was taught meanwhile that it may have gone.
fn teach_and_look(history: &History, next: &AtomicU64, prompts: u64) -> u64 {
    let mut new = 0;
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed) / 2;
        if number >= prompts {
            return new;
        }
        let prompt = prompt(number);
        let before = history.taught();
        new += history.teach(&prompt).get();
        let known = history.known_prefix(&prompt).get();
        let meanwhile = history.taught() - before;
        assert!(
            known == BLOCKS || meanwhile + BLOCKS > history.capacity().get(),
            "{known} of {BLOCKS} after {meanwhile}"
        );
    }
}

#[test]
fn what_was_taught_is_there_and_counted_once_whoever_taught_it() {
    let history = History::new(60_000, 3);
    let (next, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let new: u64 = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let hashes = all(&history);
                let different: HashSet<_> = hashes.iter().collect();
                assert_eq!(different.len(), hashes.len(), "nothing comes twice");
                assert!(history.resident() <= history.capacity());
                assert!(history.known_prefix(&prompt(1 << 50)).is_zero(), "nobody taught it");
            }
        });
        let teachers = [0; 3].map(|_| scope.spawn(|| teach_and_look(&history, &next, 4000)));
        let new = teachers.into_iter().map(|teacher| teacher.join().unwrap()).sum();
        is_over.store(true, Ordering::Relaxed);
        reader.join().unwrap();
        new
    });
    assert_eq!(history.taught(), new);
    let resident = all(&history);
    assert_eq!(resident.len() as u64, history.capacity().get());
    assert!(resident.iter().all(|hash| history.known_prefix(&[*hash]).get() == 1));
    let resident: HashSet<_> = resident.into_iter().collect();
    for hash in (0..4000).flat_map(prompt) {
        assert_eq!(history.known_prefix(&[hash]).get(), u64::from(resident.contains(&hash)));
    }
}

#[test]
fn a_clear_beside_teachers_leaves_a_history_that_agrees_with_itself() {
    let history = History::new(30_000, 3);
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while next.load(Ordering::Relaxed) < 3000 {
                    history.teach(&prompt(next.fetch_add(1, Ordering::Relaxed)));
                }
            });
        }
        while next.load(Ordering::Relaxed) < 3000 {
            history.clear();
            thread::yield_now();
        }
    });
    let resident = all(&history);
    assert_eq!(resident.len() as u64, history.resident().get());
    assert!(resident.iter().all(|hash| history.known_prefix(&[*hash]).get() == 1));
    let resident: HashSet<_> = resident.into_iter().collect();
    let known = (0..3002).flat_map(prompt).filter(|hash| history.known_prefix(&[*hash]).get() == 1);
    assert_eq!(known.collect::<HashSet<_>>(), resident);
}
