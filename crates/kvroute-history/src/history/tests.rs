use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::export::ExportCursor;
use crate::line::SLOTS;

/// A queue that is searched from end to end.
#[derive(Default)]
struct Model {
    queue: VecDeque<SequenceHash>,
    taught: u64,
}

#[derive(Clone, Debug)]
enum Step {
    Teach(Vec<u64>),
    Look(Vec<u64>),
    Export,
    Clear,
}

// === impl Model ===

impl Model {
    fn teach(&mut self, capacity: usize, hashes: &[SequenceHash]) -> u64 {
        let before = self.taught;
        for hash in hashes {
            if self.queue.contains(hash) {
                continue;
            }
            if self.queue.len() == capacity {
                self.queue.pop_front();
            }
            self.queue.push_back(*hash);
            self.taught += 1;
        }
        self.taught - before
    }

    fn known_prefix(&self, hashes: &[SequenceHash]) -> u64 {
        hashes.iter().take_while(|hash| self.queue.contains(hash)).count() as u64
    }
}

fn history(lines: usize, capacity: usize, seed: u64) -> History {
    History::with_dimensions(0, Dimensions { lines, capacity }, seed)
}

fn hashes(raw: &[u64]) -> Vec<SequenceHash> {
    raw.iter().map(|raw| SequenceHash::from_raw(*raw)).collect()
}

fn exported(history: &History) -> Vec<SequenceHash> {
    let mut all = Vec::new();
    let mut next = Some(ExportCursor::default());
    while let Some(cursor) = next {
        next = history.export(cursor, &mut all);
    }
    all
}

fn step() -> impl Strategy<Value = Step> {
    // Few values, so that some come again while they are resident and some after they are gone.
    let some = || prop::collection::vec(prop_oneof![8 => 0..120u64, 1 => Just(u64::MAX)], 0..40);
    prop_oneof![
        12 => some().prop_map(Step::Teach),
        8 => some().prop_map(Step::Look),
        2 => Just(Step::Export),
        1 => Just(Step::Clear),
    ]
}

proptest! {
    #[test]
    fn it_is_a_plain_queue_without_duplicates(
        steps in prop::collection::vec(step(), 1..60),
        lines in 1usize..9,
        fill in 1usize..=97,
        seed in any::<u64>(),
    ) {
        // Up to nearly full lines, where most hashes stand behind others.
        let capacity = (lines * SLOTS * fill / 100).max(1);
        let history = history(lines, capacity, seed);
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Teach(raw) => {
                    let taught = history.teach(&hashes(&raw)).get();
                    prop_assert_eq!(taught, model.teach(capacity, &hashes(&raw)));
                }
                Step::Look(raw) => {
                    let known = history.known_prefix(&hashes(&raw)).get();
                    prop_assert_eq!(known, model.known_prefix(&hashes(&raw)));
                }
                Step::Export => prop_assert_eq!(VecDeque::from(exported(&history)), model.queue.clone()),
                Step::Clear => {
                    history.clear();
                    model = Model::default();
                }
            }
            prop_assert_eq!(history.resident().get(), model.queue.len() as u64);
            prop_assert!(history.resident() <= history.capacity());
            prop_assert_eq!(history.taught(), model.taught);
        }
        prop_assert_eq!(VecDeque::from(exported(&history)), model.queue.clone());
        for hash in model.queue {
            prop_assert_eq!(history.known_prefix(&[hash]).get(), 1);
        }
    }

    #[test]
    fn a_history_never_takes_more_than_its_budget(
        bytes in prop_oneof![4 => 700usize..100_000, 4 => 100_000usize..50_000_000, 1 => 50_000_000usize..8_000_000_000],
    ) {
        let dimensions = Dimensions::within(bytes);
        prop_assert!(dimensions.bytes() <= bytes, "{} of {bytes}: {dimensions:?}", dimensions.bytes());
        // Nor much less: what three more lines of the index and their hashes would take.
        let spare = bytes - dimensions.bytes();
        prop_assert!(spare <= 3 * (64 + 8 * 16), "{spare} unused: {dimensions:?}");
    }

    #[test]
    fn prompts_longer_than_a_batch_are_known_up_to_the_first_gap(
        length in 1usize..600,
        gap in 0usize..600,
    ) {
        let history = History::new(100_000, 5);
        let prompt = hashes(&(0..length as u64).collect::<Vec<_>>());
        let taught = prompt.iter().enumerate().filter(|(index, _)| *index != gap).map(|(_, hash)| *hash);
        let taught: Vec<_> = taught.collect();
        prop_assert_eq!(history.teach(&taught).get(), taught.len() as u64);
        prop_assert_eq!(history.known_prefix(&prompt).get(), gap.min(length) as u64);
    }
}

#[test]
fn a_budget_of_nothing_still_holds_ten_hashes() {
    for bytes in [0, 1, 100] {
        let history = History::new(bytes, 1);
        assert_eq!((history.capacity().get(), history.capacity_bytes()), (10, bytes));
        assert!(history.bytes() < 700, "{}", history.bytes());
        assert_eq!(history.teach(&hashes(&(0..12).collect::<Vec<_>>())).get(), 12);
        assert_eq!(exported(&history), hashes(&(2..12).collect::<Vec<_>>()));
    }
}

#[test]
fn a_budget_beyond_all_bounds_is_used_as_far_as_slots_reach() {
    let dimensions = Dimensions::within(usize::MAX);
    assert!(dimensions.bytes() < 1 << 35);
    let lines = Queue::lines(dimensions.capacity);
    assert!((1 << 27..1 << 28).contains(&lines), "{lines}");
}

#[test]
fn the_default_budget_remembers_more_than_twice_as_much_as_eight_million_blocks() {
    let dimensions = Dimensions::within(256 << 20);
    assert!(dimensions.capacity >= 2 * 8_388_608, "{}", dimensions.capacity);
    assert!(dimensions.bytes() as f64 / dimensions.capacity as f64 <= 14.0);
}

#[test]
fn what_a_history_says_that_it_holds_is_what_it_allocated() {
    let history = History::new(1 << 20, 1);
    let allocated = history.queue.allocated() + history.index.allocated();
    assert_eq!(history.bytes(), size_of::<History>() + allocated);
    assert!(history.bytes() <= 1 << 20);
}

#[test]
fn zero_is_a_hash_like_any_other() {
    let history = History::new(10_000, 1);
    assert_eq!(history.known_prefix(&hashes(&[0])).get(), 0);
    assert_eq!(history.teach(&hashes(&[0, 0])).get(), 1);
    assert_eq!(history.known_prefix(&hashes(&[0])).get(), 1);
    history.clear();
    assert_eq!(history.known_prefix(&hashes(&[0])).get(), 0);
}

#[test]
fn a_run_ends_where_the_queue_ends_whatever_stood_there_before() {
    let history = history(1, 4, 1);
    history.teach(&hashes(&[1, 2, 3, 4]));
    history.clear();
    history.teach(&hashes(&[1, 2]));
    assert_eq!(history.known_prefix(&hashes(&[1, 2, 3, 4])).get(), 2);
}

#[test]
fn a_duplicate_does_not_grow_younger() {
    let history = History::new(0, 1);
    history.teach(&hashes(&(0..10).collect::<Vec<_>>()));
    assert_eq!(history.teach(&hashes(&[0])).get(), 0);
    history.teach(&hashes(&[10]));
    assert_eq!(history.known_prefix(&hashes(&[0])).get(), 0);
}

/// The test of a known block comes before the insertion of those behind it, and in their order.
#[test]
fn a_known_block_that_its_own_prompt_pushes_out_is_taught_anew() {
    let history = history(1, 4, 1);
    history.teach(&hashes(&[9, 8, 7, 6]));
    assert_eq!(history.teach(&hashes(&[1, 2, 9])).get(), 3);
    assert_eq!(exported(&history), hashes(&[6, 1, 2, 9]));
}

#[test]
fn an_export_gives_every_hash_that_stays_while_others_come_and_go() {
    let history = history(2000, 20_000, 9);
    history.teach(&hashes(&(0..25_000).collect::<Vec<_>>()));
    let (mut out, mut next, mut newer) = (Vec::new(), Some(ExportCursor::default()), 25_000);
    while let Some(cursor) = next {
        next = history.export(cursor, &mut out);
        history.teach(&hashes(&(newer..newer + 500).collect::<Vec<_>>()));
        newer += 500;
    }
    let raw: Vec<u64> = out.iter().map(|hash| hash.get()).collect();
    assert!(raw.is_sorted() && raw.first() == Some(&5000), "oldest first, and nothing twice");
    let stayed = exported(&history).iter().map(|hash| hash.get()).filter(|raw| *raw < 25_000).count();
    assert_eq!(raw.iter().rev().take(stayed).count(), stayed);
    assert_eq!(raw.last(), Some(&24_999));
    assert!(raw[raw.len() - stayed..].windows(2).all(|pair| pair[0] + 1 == pair[1]));
}
