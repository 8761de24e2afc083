//! Blocks that placed prompts are about to bring.

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

fn place(load: &mut LoadBook, id: u64, on: u32, chains: &[Vec<SequenceHash>]) {
    let tokens = |chain: &Vec<SequenceHash>| Tokens::new(10 * chain.len() as u64);
    let prompts: Vec<_> =
        chains.iter().map(|chain| BookedPrompt { tokens: tokens(chain), hashes: chain }).collect();
    let booking = Booking {
        prefill: chains.iter().map(tokens).sum(),
        block_size: size(10),
        prompts: &prompts,
        choices: 1,
        shows_first_token: true,
        now: NOW,
    };
    load.book(AttemptId::new(id), RankSlot::new(on), &booking);
}

fn prefix(load: &LoadBook, on: u32, path: u32, cached: u64) -> u64 {
    let mut by_slot = Vec::new();
    load.expected(&chain(path, DEPTH), &mut by_slot);
    by_slot.get(on as usize).map_or(0, |&blocks| u64::from(blocks).saturating_sub(cached))
}

#[test]
fn a_block_is_expected_until_the_last_prompt_that_holds_it_is_computed() {
    let mut load = LoadBook::new();
    place(&mut load, 1, 0, &[chain(0b0000, 4)]);
    place(&mut load, 2, 0, &[chain(0b0100, 4)]);
    assert_eq!([0, 3, 9].map(|cached| prefix(&load, 0, 0b0000, cached)), [4, 1, 0]);
    load.first_token(AttemptId::new(1), NOW);
    load.first_token(AttemptId::new(1), NOW);
    assert_eq!([0b0000, 0b0100].map(|path| prefix(&load, 0, path, 0)), [2, 4]);
    load.release(AttemptId::new(1), NOW);
    assert_eq!([0b0000, 0b0100].map(|path| prefix(&load, 0, path, 0)), [2, 4]);
    load.release(AttemptId::new(2), NOW);
    assert_eq!(prefix(&load, 0, 0b0100, 0), 0);
}

#[test]
fn a_prompt_that_is_cached_whole_still_brings_its_blocks() {
    let mut load = LoadBook::new();
    let blocks = chain(0, 4);
    let prompts = [BookedPrompt { tokens: Tokens::new(40), hashes: &blocks }];
    let booking = Booking {
        prefill: Tokens::ZERO,
        block_size: size(10),
        prompts: &prompts,
        choices: 1,
        shows_first_token: true,
        now: NOW,
    };
    load.book(AttemptId::new(1), RankSlot::new(0), &booking);
    assert_eq!(prefix(&load, 0, 0, 0), 4);
    load.first_token(AttemptId::new(1), NOW);
    assert_eq!(prefix(&load, 0, 0, 0), 0);
}

#[test]
fn a_hash_that_belongs_to_another_prefix_is_nobodys_and_leaves_nothing_behind() {
    let prompts = [[1, 2, 3], [1, 7, 8], [4, 5, 6], [4, 7, 8]];
    let mut load = LoadBook::new();
    for (id, prompt) in prompts.into_iter().enumerate() {
        place(&mut load, id as u64, 0, &[prompt.map(SequenceHash::from_raw).to_vec()]);
    }
    assert_eq!(load.load(RankSlot::new(0)).decode_blocks, Blocks::new(10));
    (0..4).for_each(|id| load.release(AttemptId::new(id), NOW));
    assert_eq!(load.load(RankSlot::new(0)), WorkerLoad::default());
    assert_eq!(load.prompts.room(), 0);
}

#[test]
fn at_rest_no_memory_is_kept() {
    let mut load = LoadBook::new();
    let long: Vec<_> = (0..50_000).map(SequenceHash::from_raw).collect();
    for id in 0..200 {
        place(&mut load, id, 0, &[long[..1000].to_vec()]);
    }
    place(&mut load, 999, 0, std::slice::from_ref(&long));
    load.release(AttemptId::new(999), NOW);
    assert!(load.prompts.room() < 8000, "{}", load.prompts.room());
    (0..200).for_each(|id| load.release(AttemptId::new(id), NOW));
    assert_eq!(load.prompts.room(), 0);
}

#[derive(Clone, Debug)]
enum Step {
    Place { id: u64, paths: Vec<(u32, usize)> },
    FirstToken { id: u64 },
    Release { id: u64 },
    RemoveSlot { slot: u32 },
}

fn step() -> impl Strategy<Value = Step> {
    let paths = prop::collection::vec((0u32..1 << DEPTH, 0..=DEPTH), 1..3);
    prop_oneof![
        6 => (0u64..12, paths).prop_map(|(id, paths)| Step::Place { id, paths }),
        4 => (0u64..12).prop_map(|id| Step::FirstToken { id }),
        3 => (0u64..12).prop_map(|id| Step::Release { id }),
        1 => prop::sample::select(SLOTS.to_vec()).prop_map(|slot| Step::RemoveSlot { slot }),
    ]
}

proptest! {
    /// Against a list of what every attempt placed and has not computed.
    #[test]
    fn every_answer_equals_the_models(steps in prop::collection::vec(step(), 1..80), cached in 0..6u64) {
        let mut load = LoadBook::new();
        let mut model: BTreeMap<u64, (u32, Vec<Vec<SequenceHash>>)> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Place { id, paths } => {
                    let on = SLOTS[id as usize % SLOTS.len()];
                    let chains: Vec<_> = paths.iter().map(|(path, blocks)| chain(*path, *blocks)).collect();
                    place(&mut load, id, on, &chains);
                    model.insert(id, (on, chains));
                }
                Step::FirstToken { id } => {
                    load.first_token(AttemptId::new(id), NOW);
                    model.remove(&id);
                }
                Step::Release { id } => {
                    load.release(AttemptId::new(id), NOW);
                    model.remove(&id);
                }
                Step::RemoveSlot { slot: on } => {
                    load.remove_slot(RankSlot::new(on));
                    model.retain(|_, (at, _)| *at != on);
                }
            }
            for on in SLOTS {
                let placed = || model.values().filter(|(at, _)| *at == on).flat_map(|(_, chains)| chains);
                for path in 0..1 << DEPTH {
                    let shared = |other: &Vec<SequenceHash>| {
                        other.iter().zip(chain(path, DEPTH)).take_while(|(a, b)| **a == *b).count() as u64
                    };
                    let longest = placed().map(shared).max().unwrap_or(0);
                    prop_assert_eq!(prefix(&load, on, path, cached), longest.saturating_sub(cached));
                }
            }
        }
    }
}
