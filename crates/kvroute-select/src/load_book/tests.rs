use std::collections::{BTreeMap, BTreeSet};

use kvroute_core::Blocks;
use proptest::prelude::*;

use super::*;

mod expected;
mod unseen;

const SLOT: RankSlot = RankSlot::new(3);
const NOW: Duration = Duration::from_secs(100);

fn size(tokens: u32) -> BlockSize {
    BlockSize::new(tokens).unwrap()
}

fn hashes(range: std::ops::Range<u64>) -> Vec<SequenceHash> {
    range.map(SequenceHash::from_raw).collect()
}

/// One prompt of `tokens` in blocks of 10, computed whole.
fn book(load: &mut LoadBook, id: u64, tokens: u64, hashes: &[SequenceHash], choices: u32) {
    let tokens = Tokens::new(tokens);
    let prompts = [BookedPrompt { tokens, hashes }];
    let booking = Booking {
        prefill: tokens,
        block_size: size(10),
        prompts: &prompts,
        choices,
        shows_first_token: true,
        now: NOW,
    };
    load.book(AttemptId::new(id), SLOT, &booking);
}

fn blocks(load: &LoadBook) -> u64 {
    load.load(SLOT).decode_blocks.get()
}

#[test]
fn a_shared_prefix_counts_once_until_its_last_user_leaves() {
    let mut load = LoadBook::new();
    book(&mut load, 1, 40, &hashes(0..4), 1);
    book(&mut load, 2, 60, &[hashes(0..3), hashes(7..10)].concat(), 1);
    assert_eq!(blocks(&load), 7);
    load.release(AttemptId::new(1), NOW);
    assert_eq!(blocks(&load), 6);
    load.release(AttemptId::new(2), NOW);
    assert_eq!(load.load(SLOT), WorkerLoad::default());
}

#[test]
fn prefill_ends_with_the_first_token_and_only_once() {
    let mut load = LoadBook::new();
    book(&mut load, 1, 40, &[], 1);
    book(&mut load, 2, 7, &[], 1);
    load.first_token(AttemptId::new(1), NOW);
    load.first_token(AttemptId::new(1), NOW);
    let expected =
        WorkerLoad { prefill_tokens: Tokens::new(7), decode_blocks: Blocks::new(5), active_requests: 2 };
    assert_eq!(load.load(SLOT), expected);
}

#[test]
fn output_fills_the_partial_block_then_crosses_several_boundaries_at_once() {
    let mut load = LoadBook::new();
    book(&mut load, 1, 25, &hashes(0..2), 1);
    let mut after = |tokens| {
        load.output(AttemptId::new(1), 0, Tokens::new(tokens), NOW);
        blocks(&load)
    };
    assert_eq!([after(0), after(5), after(1), after(9), after(31)], [3, 3, 4, 4, 8]);
}

#[test]
fn choices_share_the_prompt_and_grow_apart() {
    let mut load = LoadBook::new();
    book(&mut load, 1, 25, &hashes(0..2), 3);
    let mut after = |choice, tokens| {
        load.output(AttemptId::new(1), choice, Tokens::new(tokens), NOW);
        blocks(&load)
    };
    assert_eq!([after(1, 1), after(0, 1), after(2, 6), after(1, 5)], [3, 4, 6, 7]);
}

#[test]
fn every_sequence_reads_its_own_context_shared_or_not() {
    let mut load = LoadBook::new();
    book(&mut load, 1, 40, &hashes(0..4), 1);
    book(&mut load, 2, 40, &hashes(0..4), 3);
    load.output(AttemptId::new(2), 1, Tokens::new(7), NOW);
    assert_eq!((blocks(&load), load.context(SLOT).get()), (5, 167));
    load.release(AttemptId::new(2), NOW);
    load.release(AttemptId::new(1), NOW);
    assert_eq!(load.context(SLOT), Tokens::ZERO);
}

#[test]
fn prompts_of_a_list_each_have_their_own_end() {
    let mut load = LoadBook::new();
    let shared = hashes(0..2);
    let prompts = [
        BookedPrompt { tokens: Tokens::new(25), hashes: &shared },
        BookedPrompt { tokens: Tokens::new(20), hashes: &shared },
    ];
    let booking = Booking {
        prefill: Tokens::new(45),
        block_size: size(10),
        prompts: &prompts,
        choices: 2,
        shows_first_token: true,
        now: NOW,
    };
    load.book(AttemptId::new(1), SLOT, &booking);
    let mut after = |choice, tokens| {
        load.output(AttemptId::new(1), choice, Tokens::new(tokens), NOW);
        blocks(&load)
    };
    assert_eq!([after(0, 0), after(3, 1), after(2, 11), after(0, 6), after(99, 1)], [3, 4, 6, 7, 7]);
    load.release(AttemptId::new(1), NOW);
    assert_eq!(load.load(SLOT), WorkerLoad::default());
}

#[test]
fn a_late_release_frees_neither_the_next_attempt_nor_the_next_rank() {
    let mut load = LoadBook::new();
    book(&mut load, 1, 40, &hashes(0..4), 1);
    load.remove_slot(SLOT);
    assert_eq!(load.load(SLOT), WorkerLoad::default());
    book(&mut load, 2, 40, &hashes(0..4), 1);
    let booked = load.load(SLOT);
    load.first_token(AttemptId::new(1), NOW);
    load.output(AttemptId::new(1), 0, Tokens::new(100), NOW);
    load.release(AttemptId::new(1), NOW);
    assert_eq!(load.load(SLOT), booked);
}

#[test]
fn numbers_from_outside_neither_overflow_nor_allocate_without_bound() {
    let mut load = LoadBook::new();
    book(&mut load, 1, 25, &hashes(0..2), u32::MAX);
    for choice in [0, 1, u32::MAX, u32::MAX] {
        load.output(AttemptId::new(1), choice, Tokens::new(u64::MAX), NOW);
    }
    load.release(AttemptId::new(1), NOW);
    let prompts: [BookedPrompt<'_>; 0] = [];
    let booking = Booking {
        prefill: Tokens::ZERO,
        block_size: size(10),
        prompts: &prompts,
        choices: 0,
        shows_first_token: true,
        now: NOW,
    };
    load.book(AttemptId::new(1), SLOT, &booking);
    load.output(AttemptId::new(1), 5, Tokens::new(5), NOW);
    assert_eq!(load.load(SLOT), WorkerLoad { active_requests: 1, ..WorkerLoad::default() });
}

#[derive(Clone, Debug)]
enum Step {
    Book { id: u64, slot: u32, shared: u64, own: u64, tail: u64, hashed: bool, choices: u32 },
    FirstToken { id: u64 },
    Output { id: u64, choice: u32, tokens: u64 },
    Release { id: u64 },
    RemoveSlot { slot: u32 },
}

/// An attempt as a list of facts; its share of the load is computed from scratch.
#[derive(Clone, Debug)]
struct ModelAttempt {
    slot: u32,
    size: u64,
    prefill: u64,
    hashes: BTreeSet<SequenceHash>,
    prompt: u64,
    outputs: BTreeMap<u32, u64>,
}

const SLOTS: u32 = 2;

fn step() -> impl Strategy<Value = Step> {
    let book = (0u64..6, 0..SLOTS, 0u64..4, 0u64..4, 0u64..10, any::<bool>(), 1u32..4).prop_map(
        |(id, slot, shared, own, tail, hashed, choices)| Step::Book {
            id,
            slot,
            shared,
            own,
            tail,
            hashed,
            choices,
        },
    );
    prop_oneof![
        4 => book,
        2 => (0u64..6).prop_map(|id| Step::FirstToken { id }),
        6 => (0u64..6, 0u32..3, 0u64..40).prop_map(|(id, choice, tokens)| Step::Output { id, choice, tokens }),
        3 => (0u64..6).prop_map(|id| Step::Release { id }),
        1 => (0..SLOTS).prop_map(|slot| Step::RemoveSlot { slot }),
    ]
}

fn run(step: &Step, load: &mut LoadBook, model: &mut BTreeMap<u64, ModelAttempt>) {
    match *step {
        Step::Book { id, slot, shared, own, tail, hashed, choices } => {
            let size_tokens = 4 + slot;
            let own_hashes = 1000 * (id + 1)..1000 * (id + 1) + own;
            let hashes = if hashed { [hashes(0..shared), hashes(own_hashes)].concat() } else { Vec::new() };
            let prompt = (shared + own) * u64::from(size_tokens) + tail.min(u64::from(size_tokens) - 1);
            let prompts = [BookedPrompt { tokens: Tokens::new(prompt), hashes: &hashes }];
            let prefill = Tokens::new(prompt / 2);
            let booking = Booking {
                prefill,
                block_size: size(size_tokens),
                prompts: &prompts,
                choices,
                shows_first_token: true,
                now: NOW,
            };
            load.book(AttemptId::new(id), RankSlot::new(slot), &booking);
            let attempt = ModelAttempt {
                slot,
                size: size_tokens.into(),
                prefill: prefill.get(),
                hashes: hashes.into_iter().collect(),
                prompt,
                outputs: (0..choices).map(|choice| (choice, 0)).collect(),
            };
            model.insert(id, attempt);
        }
        Step::FirstToken { id } => {
            load.first_token(AttemptId::new(id), NOW);
            model.entry(id).and_modify(|attempt| attempt.prefill = 0);
        }
        Step::Output { id, choice, tokens } => {
            let Some(attempt) = model.get_mut(&id) else {
                return load.output(AttemptId::new(id), choice, Tokens::new(tokens), NOW);
            };
            let choice = choice % attempt.outputs.len() as u32;
            load.output(AttemptId::new(id), choice, Tokens::new(tokens), NOW);
            *attempt.outputs.entry(choice).or_default() += tokens;
        }
        Step::Release { id } => {
            load.release(AttemptId::new(id), NOW);
            model.remove(&id);
        }
        Step::RemoveSlot { slot } => {
            load.remove_slot(RankSlot::new(slot));
            model.retain(|_, attempt| attempt.slot != slot);
        }
    }
}

fn expected(model: &BTreeMap<u64, ModelAttempt>, slot: u32) -> WorkerLoad {
    let here: Vec<&ModelAttempt> = model.values().filter(|attempt| attempt.slot == slot).collect();
    let shared: BTreeSet<_> = here.iter().flat_map(|attempt| &attempt.hashes).collect();
    let own = |attempt: &&ModelAttempt| {
        let partial = attempt.prompt % attempt.size;
        let outputs = attempt.outputs.values().filter(|output| **output > 0);
        let grown: u64 = outputs.map(|output| (partial + output).div_ceil(attempt.size)).sum();
        let unhashed = attempt.prompt / attempt.size - attempt.hashes.len() as u64;
        unhashed + grown.max(partial.div_ceil(attempt.size))
    };
    WorkerLoad {
        prefill_tokens: here.iter().map(|attempt| Tokens::new(attempt.prefill)).sum(),
        decode_blocks: Blocks::new(shared.len() as u64 + here.iter().map(own).sum::<u64>()),
        active_requests: here.len() as u64,
    }
}

proptest! {
    #[test]
    fn load_equals_the_sum_of_its_attempts_and_is_zero_at_rest(
        steps in prop::collection::vec(step(), 0..80),
        last_first in any::<bool>(),
    ) {
        let mut load = LoadBook::new();
        let mut model = BTreeMap::new();
        for step in &steps {
            run(step, &mut load, &mut model);
            for slot in 0..SLOTS {
                prop_assert_eq!(load.load(RankSlot::new(slot)), expected(&model, slot), "after {:?}", step);
            }
        }
        let mut open: Vec<u64> = (0..6).collect();
        if last_first {
            open.reverse();
        }
        open.into_iter().for_each(|id| load.release(AttemptId::new(id), NOW));
        for slot in (0..SLOTS).map(RankSlot::new) {
            prop_assert_eq!((load.load(slot), load.context(slot)), (WorkerLoad::default(), Tokens::ZERO));
        }
        prop_assert!(load.attempts.is_empty());
    }
}
