//! Bursts of cold prompts, none of them computed meanwhile.

use kvroute_core::{AttemptId, SequenceHash};

use super::*;
use crate::{BookedPrompt, Booking, LoadBook};

/// Places cold prompts of 1,000 tokens one after another on equal idle ranks, booking each; none is computed
/// meanwhile. Answers which slot each got.
fn burst(prompts: impl IntoIterator<Item = u64>, ranks: u32) -> Vec<u32> {
    let policy = fresh("kv").unwrap();
    let usual = RequestShape { weights: CostWeights::default(), ..request(0.0) };
    let (mut book, mut rng) = (LoadBook::new(), rng(3));
    let mut placed: Vec<(RankSlot, u64)> = Vec::new();
    for (number, prompt) in prompts.into_iter().enumerate() {
        let hashes: Vec<_> =
            (0..1000 / 16).map(|block| SequenceHash::from_raw(prompt * 100 + block)).collect();
        let expected_on = |slot| {
            let shares = placed.contains(&(slot, prompt));
            BlockSize::DEFAULT.tokens(Blocks::from(if shares { hashes.len() } else { 0 }))
        };
        let candidates: Vec<_> = (0..ranks)
            .map(|slot| {
                let slot = RankSlot::new(slot);
                Candidate {
                    load: book.load(slot),
                    context: book.context(slot),
                    expected: expected_on(slot),
                    ..idle(slot.get())
                }
            })
            .collect();
        let picked = policy.pick(&usual, &candidates, &mut Vec::new(), &mut rng).unwrap();
        let slot = candidates[picked.candidate].slot;
        let tokens = Tokens::new(1000);
        let booking = Booking {
            prefill: tokens - expected_on(slot),
            block_size: BlockSize::DEFAULT,
            prompts: &[BookedPrompt { tokens, hashes: &hashes }],
            choices: 1,
            shows_first_token: true,
            now: Duration::ZERO,
        };
        book.book(AttemptId::new(number as u64), slot, &booking);
        placed.push((slot, prompt));
    }
    placed.into_iter().map(|(slot, _)| slot.get()).collect()
}

#[test]
fn a_burst_of_equal_cold_prompts_gathers_on_one_rank() {
    let slots = burst([7; 24], 8);
    assert!(slots.iter().all(|slot| *slot == slots[0]), "{slots:?}");
}

#[test]
fn what_all_of_them_read_moves_a_long_burst_on_to_few_ranks() {
    let slots = burst([7; 64], 8);
    let ranks: std::collections::BTreeSet<_> = slots.iter().collect();
    assert!((2..5).contains(&ranks.len()), "{slots:?}");
}

#[test]
fn a_burst_of_different_prompts_spreads_evenly() {
    let slots = burst(0..32, 8);
    let counts: Vec<_> = (0..8).map(|slot| slots.iter().filter(|other| **other == slot).count()).collect();
    assert_eq!(counts, [4; 8]);
}

#[test]
fn groups_of_equal_prompts_each_gather_on_a_rank_of_their_own() {
    let slots = burst((0..32).map(|number| number % 4), 4);
    let homes: std::collections::BTreeSet<_> = slots[..4].iter().collect();
    assert_eq!(homes.len(), 4);
    assert!(slots.chunks(4).all(|round| round == &slots[..4]), "{slots:?}");
}
