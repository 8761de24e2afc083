use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const SLOTS: [u32; 2] = [0, 5];
/// Chains of a small tree: block `i` of path `p` is the same as that of `q` if their bits up to `i` agree.
const DEPTH: usize = 4;

fn chain(path: u32, blocks: usize) -> Vec<SequenceHash> {
    let hash = |depth: usize| u64::from(path & ((1 << depth) - 1)) | (depth as u64) << 32;
    (1..=blocks).map(|depth| SequenceHash::from_raw(hash(depth))).collect()
}

fn attempt(id: u64) -> AttemptId {
    AttemptId::new(id)
}

fn slot(slot: u32) -> RankSlot {
    RankSlot::new(slot)
}

fn prefix(expected: &ExpectedBlocks, on: u32, path: u32, cached: u64) -> u64 {
    expected.prefix_after(slot(on), &chain(path, DEPTH), Blocks::new(cached)).get()
}

#[test]
fn a_block_is_expected_until_the_last_prompt_that_holds_it_is_done() {
    let mut expected = ExpectedBlocks::new();
    expected.place(attempt(1), slot(0), &chain(0b0000, 4));
    expected.place(attempt(2), slot(0), &chain(0b0100, 4));
    assert_eq!(prefix(&expected, 0, 0b0000, 0), 4);
    assert_eq!(prefix(&expected, 0, 0b0000, 3), 1);
    assert_eq!(prefix(&expected, 0, 0b0000, 9), 0);
    expected.done(attempt(1));
    expected.done(attempt(1));
    assert_eq!(prefix(&expected, 0, 0b0000, 0), 2);
    assert_eq!(prefix(&expected, 0, 0b0100, 0), 4);
    assert!(!expected.is_idle(slot(0)));
    expected.done(attempt(2));
    assert!(expected.is_idle(slot(0)));
}

#[test]
fn every_prompt_of_a_list_counts_and_ends_with_the_attempt() {
    let mut expected = ExpectedBlocks::new();
    for path in [0b00, 0b01, 0b00] {
        expected.place(attempt(1), slot(5), &chain(path, 2));
    }
    assert_eq!((prefix(&expected, 5, 0b00, 0), prefix(&expected, 5, 0b01, 0)), (2, 2));
    expected.done(attempt(1));
    assert!(expected.is_idle(slot(5)));
}

#[test]
fn an_attempt_is_on_one_rank() {
    let mut expected = ExpectedBlocks::new();
    expected.place(attempt(1), slot(0), &chain(0, 2));
    expected.place(attempt(1), slot(5), &chain(0, 2));
    assert!(expected.is_idle(slot(0)));
    assert_eq!(prefix(&expected, 5, 0, 0), 2);
}

#[test]
fn a_late_end_does_not_touch_the_slots_next_rank() {
    let mut expected = ExpectedBlocks::new();
    expected.place(attempt(1), slot(0), &chain(0, 4));
    expected.remove_slot(slot(0));
    assert!(expected.is_idle(slot(0)));
    expected.place(attempt(2), slot(0), &chain(0, 4));
    expected.done(attempt(1));
    assert_eq!(prefix(&expected, 0, 0, 0), 4);
}

#[test]
fn at_rest_no_memory_is_kept() {
    let mut expected = ExpectedBlocks::new();
    let long: Vec<_> = (0..50_000).map(SequenceHash::from_raw).collect();
    for id in 0..200 {
        expected.place(attempt(id), slot(0), &long[..1000]);
    }
    expected.place(attempt(999), slot(0), &long);
    expected.done(attempt(999));
    assert!(expected.ranks[0].capacity() < 8000, "{}", expected.ranks[0].capacity());
    (0..200).for_each(|id| expected.done(attempt(id)));
    assert_eq!((expected.ranks[0].capacity(), expected.attempts.capacity()), (0, 0));
}

#[derive(Clone, Debug)]
enum Step {
    Place { id: u64, path: u32, blocks: usize },
    Done { id: u64 },
    RemoveSlot { slot: u32 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u64..12, 0u32..1 << DEPTH, 0..=DEPTH).prop_map(|(id, path, blocks)| Step::Place { id, path, blocks }),
        4 => (0u64..12).prop_map(|id| Step::Done { id }),
        1 => prop::sample::select(SLOTS.to_vec()).prop_map(|slot| Step::RemoveSlot { slot }),
    ]
}

proptest! {
    /// Against a list of what every attempt placed.
    #[test]
    fn every_answer_equals_the_models(steps in prop::collection::vec(step(), 1..80), cached in 0..6u64) {
        let mut expected = ExpectedBlocks::new();
        let mut model: BTreeMap<u64, (u32, Vec<Vec<SequenceHash>>)> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Place { id, path, blocks } => {
                    let on = SLOTS[id as usize % SLOTS.len()];
                    expected.place(attempt(id), slot(on), &chain(path, blocks));
                    model.entry(id).or_insert((on, Vec::new())).1.push(chain(path, blocks));
                }
                Step::Done { id } => {
                    expected.done(attempt(id));
                    model.remove(&id);
                }
                Step::RemoveSlot { slot: on } => {
                    expected.remove_slot(slot(on));
                    model.retain(|_, (at, _)| *at != on);
                }
            }
            for on in SLOTS {
                let placed: Vec<_> = model.values().filter(|(at, _)| *at == on).flat_map(|(_, chains)| chains).collect();
                prop_assert_eq!(expected.is_idle(slot(on)), placed.iter().all(|chain| chain.is_empty()));
                for path in 0..1 << DEPTH {
                    let shared = |other: &&Vec<SequenceHash>| {
                        other.iter().zip(chain(path, DEPTH)).take_while(|(a, b)| **a == *b).count() as u64
                    };
                    let longest = placed.iter().map(shared).max().unwrap_or(0);
                    prop_assert_eq!(prefix(&expected, on, path, cached), longest.saturating_sub(cached));
                }
            }
        }
    }
}
