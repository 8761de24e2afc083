use std::time::Duration;

use kvroute_core::Tokens;
use proptest::prelude::*;

use super::*;

const SIZE: u32 = 32;

fn synthesizer(seed: u64) -> PromptSynthesizer {
    PromptSynthesizer::new(BlockSize::new(SIZE).unwrap(), TokenRange::new(10..500).unwrap(), seed)
}

fn request(blocks: &[u64], tail: u64) -> TraceRequest {
    let complete = blocks.len() as u64;
    let mut ids = blocks.to_vec();
    if tail > 0 {
        ids.push(u64::MAX);
    }
    let input = Tokens::new(complete * u64::from(SIZE) + tail);
    TraceRequest { at: Duration::ZERO, input, output: Tokens::new(1), blocks: ids }
}

fn shared_prefix<T: PartialEq>(left: &[T], right: &[T]) -> usize {
    left.iter().zip(right).take_while(|(a, b)| a == b).count()
}

#[test]
fn the_same_request_gives_the_same_tokens_and_another_seed_gives_others() {
    let asked = request(&[3, 4], 5);
    assert_eq!(synthesizer(1).prompt(0, &asked), synthesizer(1).prompt(0, &asked));
    assert_ne!(synthesizer(1).prompt(0, &asked), synthesizer(2).prompt(0, &asked));
}

#[test]
fn partial_tails_of_equal_id_are_not_shared() {
    let asked = request(&[3], SIZE as u64 - 1);
    let (first, second) = (synthesizer(1).prompt(0, &asked), synthesizer(1).prompt(1, &asked));
    let shared = shared_prefix(&first, &second);
    assert!((SIZE as usize..SIZE as usize + 8).contains(&shared), "shared {shared}");
}

#[test]
fn every_allowed_id_occurs_and_no_other() {
    let prompt = synthesizer(1).prompt(0, &request(&(0..400).collect::<Vec<u64>>(), 0));
    let seen: std::collections::BTreeSet<TokenId> = prompt.into_iter().collect();
    assert_eq!(seen, (10..500).collect());
}

#[test]
fn a_range_of_few_ids_is_refused_with_its_bounds() {
    let error = TokenRange::new(5..20).unwrap_err();
    assert_eq!(error.to_string(), "token ids 5..20 are 15 ids; prompts need at least 64");
}

proptest! {
    #[test]
    fn prompts_share_exactly_the_blocks_that_their_ids_share(
        left in prop::collection::vec(0u64..3, 0..6),
        right in prop::collection::vec(0u64..3, 0..6),
        tails in (1u64..SIZE as u64, 1u64..SIZE as u64),
        seed in any::<u64>(),
        engine_size in prop::sample::select(vec![8usize, 16, 32]),
    ) {
        let maker = synthesizer(seed);
        let first = maker.prompt(0, &request(&left, tails.0));
        let second = maker.prompt(1, &request(&right, tails.1));
        prop_assert_eq!(first.len() as u64, left.len() as u64 * u64::from(SIZE) + tails.0);

        let engine_blocks = |tokens: &[TokenId]| -> Vec<Vec<TokenId>> {
            tokens.chunks_exact(engine_size).map(<[TokenId]>::to_vec).collect()
        };
        let shared = shared_prefix(&engine_blocks(&first), &engine_blocks(&second)) * engine_size;
        prop_assert_eq!(shared, shared_prefix(&left, &right) * SIZE as usize);
    }
}
