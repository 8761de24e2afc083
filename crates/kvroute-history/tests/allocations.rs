//! What a request pays for: no allocation, whether the history is full or not.

use allocation_counter::measure;
use kvroute_core::SequenceHash;
use kvroute_history::History;

fn prompt(first: u64, blocks: u64) -> Vec<SequenceHash> {
    (first..first + blocks).map(SequenceHash::from_raw).collect()
}

#[test]
fn a_full_history_allocates_nothing_to_look_up_and_to_teach() {
    let history = History::new(100_000, 7);
    let capacity = history.capacity().get();
    history.teach(&prompt(0, 2 * capacity));
    assert_eq!(history.resident().get(), capacity);
    let (known, new, mixed) =
        (prompt(2 * capacity - 500, 500), prompt(3 * capacity, 700), prompt(3 * capacity + 600, 300));
    let allocations = measure(|| {
        assert_eq!(history.known_prefix(&known).get(), 500);
        assert_eq!(history.known_prefix(&new).get(), 0);
        assert_eq!(history.teach(&known).get(), 0);
        assert_eq!(history.teach(&new).get(), 700);
        assert_eq!(history.teach(&mixed).get(), 200);
    });
    assert_eq!(allocations.count_total, 0, "{allocations:?}");
}

#[test]
fn everything_that_a_history_will_ever_hold_is_allocated_at_once() {
    let bytes = 1 << 20;
    let mut history = None;
    let made = measure(|| history = Some(Box::new(History::new(bytes, 7))));
    let history = history.unwrap();
    assert_eq!(made.bytes_current, history.bytes() as i64);
    assert!(history.bytes() <= bytes);
    let filled = measure(|| {
        for first in (0..3 * history.capacity().get()).step_by(100) {
            history.teach(&prompt(first, 100));
        }
    });
    assert_eq!(filled.bytes_current, 0);
}
