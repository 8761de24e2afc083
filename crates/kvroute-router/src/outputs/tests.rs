use kvroute_core::{BlockContents, ItemId};
use kvroute_openai::TokenCounts;
use proptest::prelude::*;

use super::*;

const SIZE: u32 = 4;

fn size() -> BlockSize {
    BlockSize::new(SIZE).unwrap()
}

fn outputs(choices_a_prompt: u32, prompts: &[&[TokenId]]) -> Outputs {
    let end = |prompt: &&[TokenId]| {
        let blocks = PromptBlocks::new(prompt, size(), Namespace::DEFAULT);
        PromptEnd::of(prompt, &blocks, Namespace::DEFAULT)
    };
    Outputs::new(size(), choices_a_prompt, prompts.iter().map(end).collect())
}

/// The blocks of a prompt and the output behind it, without those of the prompt alone and without the newest token.
fn expected(prompt: &[TokenId], output: &[TokenId]) -> Vec<SequenceHash> {
    let computed = &output[..output.len().saturating_sub(1)];
    let blocks = PromptBlocks::new(&[prompt, computed].concat(), size(), Namespace::DEFAULT);
    blocks.hashes()[prompt.len() / SIZE as usize..].to_vec()
}

fn piece(outputs: &mut Outputs, choice: u32, ids: &[TokenId]) {
    outputs.observe(&Observation::Content { choice }, ids);
    outputs.observe(&Observation::Generated { choice, ids: Some(TokenSpan::from(0..ids.len())) }, ids);
}

fn text(outputs: &mut Outputs, choice: u32) {
    outputs.observe(&Observation::Content { choice }, &[]);
}

fn end(outputs: &mut Outputs, choice: u32, reason: FinishReason) {
    outputs.observe(&Observation::Finish { choice, reason }, &[]);
}

fn count(outputs: &mut Outputs, completion: u64) {
    let counts = TokenCounts { prompt: Some(9), completion: Some(completion) };
    outputs.observe(&Observation::Usage(counts), &[]);
}

fn behind(learned: &LearnedOutputs, prompt: usize) -> Vec<Vec<SequenceHash>> {
    learned.behind(prompt).map(<[SequenceHash]>::to_vec).collect()
}

const OUTPUT: [TokenId; 9] = [11, 12, 13, 14, 15, 16, 17, 18, 19];

/// An image of which the last tokens are in the block that the answer completes.
#[test]
fn an_image_that_reaches_into_the_first_block_of_the_answer_is_part_of_it() {
    let prompt = [1, 2, 3, 9, 9, 9];
    let items = [PromptItem { id: ItemId::new("cat"), offset: 3, length: 3 }];
    let of =
        |tokens: &[TokenId]| BlockContents::new(tokens, size()).with_items(&items).chain(Namespace::DEFAULT);
    let end_of = PromptEnd::of(&prompt, &of(&prompt), Namespace::DEFAULT).with_items(&items);
    let mut answer = Outputs::new(size(), 1, vec![end_of]);
    piece(&mut answer, 0, &OUTPUT);
    end(&mut answer, 0, FinishReason::Length);
    count(&mut answer, 9);
    let whole = of(&[&prompt[..], &OUTPUT[..8]].concat());
    assert_eq!(behind(&answer.learned(), 0), [whole.hashes()[1..].to_vec()]);
}

#[test]
fn an_answer_is_taught_behind_its_prompt() {
    let mut answer = outputs(1, &[&[1, 2, 3, 4, 5, 6]]);
    piece(&mut answer, 0, &OUTPUT[..1]);
    piece(&mut answer, 0, &OUTPUT[1..]);
    assert!(!answer.all_finished());
    end(&mut answer, 0, FinishReason::Length);
    assert!(answer.all_finished());
    count(&mut answer, 9);
    let learned = answer.learned();
    assert_eq!(learned.untracked, Tokens::ZERO);
    assert_eq!(behind(&learned, 0), [expected(&[1, 2, 3, 4, 5, 6], &OUTPUT)]);
    assert_eq!(behind(&learned, 0)[0].len(), 2);
    assert!(behind(&learned, 1).is_empty());
}

#[test]
fn choices_follow_the_prompt_that_they_answer() {
    let prompts: [&[TokenId]; 2] = [&[1, 2, 3, 4], &[5]];
    let mut answer = outputs(2, &prompts);
    for (choice, first) in [(3, 30), (0, 40), (2, 50), (1, 60)] {
        let ids: Vec<TokenId> = (first..first + 6).collect();
        piece(&mut answer, choice, &ids);
        end(&mut answer, choice, FinishReason::Stop);
        assert_eq!(answer.all_finished(), choice == 1);
    }
    let learned = answer.learned();
    let of =
        |prompt: usize, first: TokenId| expected(prompts[prompt], &(first..first + 6).collect::<Vec<_>>());
    assert_eq!(behind(&learned, 0), [of(0, 40), of(0, 60)]);
    assert_eq!(behind(&learned, 1), [of(1, 50), of(1, 30)]);
}

#[test]
fn one_choice_that_failed_fails_them_all() {
    for (reason, is_normal) in
        [(FinishReason::ToolCalls, true), (FinishReason::Other, true), (FinishReason::Aborted, false)]
    {
        let mut answer = outputs(2, &[&[1]]);
        end(&mut answer, 0, FinishReason::Stop);
        end(&mut answer, 1, reason);
        assert_eq!(answer.all_finished(), is_normal, "{reason:?}");
    }
    let mut answer = outputs(1, &[&[1]]);
    end(&mut answer, 0, FinishReason::Stop);
    answer.observe(&Observation::Error, &[]);
    assert!(!answer.all_finished());
}

#[test]
fn the_end_of_one_choice_told_twice_is_not_the_end_of_two() {
    let mut answer = outputs(2, &[&[1]]);
    end(&mut answer, 0, FinishReason::Stop);
    end(&mut answer, 0, FinishReason::Stop);
    end(&mut answer, 7, FinishReason::Stop);
    assert!(!answer.all_finished());
}

#[test]
fn text_without_ids_is_not_tracked() {
    let mut answer = outputs(1, &[&[1]]);
    for _ in 0..3 {
        text(&mut answer, 0);
    }
    end(&mut answer, 0, FinishReason::Stop);
    assert_eq!(answer.learned().untracked, Tokens::new(3), "at least one token a piece");

    let mut cut_short = outputs(1, &[&[1]]);
    text(&mut cut_short, 0);
    assert_eq!(cut_short.learned().untracked, Tokens::new(1), "nothing came behind it");

    let mut counted = outputs(1, &[&[1]]);
    text(&mut counted, 0);
    count(&mut counted, 12);
    assert_eq!(counted.learned().untracked, Tokens::new(12));
}

#[test]
fn what_is_known_of_one_choice_is_taught_beside_another_without_ids() {
    let mut answer = outputs(2, &[&[1]]);
    piece(&mut answer, 0, &OUTPUT);
    text(&mut answer, 1);
    text(&mut answer, 1);
    count(&mut answer, 14);
    let learned = answer.learned();
    assert_eq!((behind(&learned, 0), learned.untracked), (vec![expected(&[1], &OUTPUT)], Tokens::new(5)));
}

#[test]
fn a_gap_in_the_ids_hides_where_the_rest_stands() {
    for middle in [None, Some(())] {
        let mut answer = outputs(1, &[&[1]]);
        piece(&mut answer, 0, &OUTPUT[..6]);
        match middle {
            None => text(&mut answer, 0),
            Some(()) => answer.observe(&Observation::Generated { choice: 0, ids: None }, &[]),
        }
        piece(&mut answer, 0, &OUTPUT[6..]);
        let learned = answer.learned();
        assert!(behind(&learned, 0).is_empty(), "{middle:?}");
        assert!(learned.untracked >= Tokens::new(7), "{:?}", learned.untracked);
    }
}

#[test]
fn a_count_does_not_heal_a_list_that_cannot_be_read() {
    let mut answer = outputs(1, &[&[1]]);
    answer.observe(&Observation::Generated { choice: 0, ids: None }, &[]);
    piece(&mut answer, 0, &OUTPUT);
    count(&mut answer, 9);
    let learned = answer.learned();
    assert_eq!((behind(&learned, 0), learned.untracked), (vec![], Tokens::new(9)));
}

#[test]
fn a_chunk_that_was_lost_shows_in_the_count_alone() {
    let mut answer = outputs(1, &[&[1]]);
    piece(&mut answer, 0, &OUTPUT);
    count(&mut answer, 10);
    let learned = answer.learned();
    assert_eq!((behind(&learned, 0), learned.untracked), (vec![], Tokens::new(10)));
}

#[test]
fn ids_that_come_behind_their_text_are_believed_if_they_are_all() {
    let mut answer = outputs(1, &[&[1]]);
    text(&mut answer, 0);
    text(&mut answer, 0);
    answer.observe(&Observation::Generated { choice: 0, ids: Some(TokenSpan::from(0..9)) }, &OUTPUT);
    count(&mut answer, 9);
    let learned = answer.learned();
    assert_eq!((behind(&learned, 0), learned.untracked), (vec![expected(&[1], &OUTPUT)], Tokens::ZERO));
}

#[test]
fn a_count_of_less_than_all_choices_counts_for_nothing() {
    let mut answer = outputs(2, &[&[1]]);
    piece(&mut answer, 0, &OUTPUT);
    piece(&mut answer, 1, &OUTPUT);
    count(&mut answer, 9);
    let learned = answer.learned();
    assert_eq!((behind(&learned, 0).len(), learned.untracked), (2, Tokens::ZERO));
}

#[test]
fn a_choice_that_nobody_asked_for_is_ignored() {
    let mut answer = outputs(1, &[&[1]]);
    piece(&mut answer, 4_000_000_000, &OUTPUT);
    text(&mut answer, 1);
    assert_eq!(answer.choices.len(), 0);
    assert_eq!(answer.learned().untracked, Tokens::ZERO);
}

#[test]
fn a_client_that_asks_for_billions_of_answers_gets_no_room_for_them() {
    let mut answer = outputs(u32::MAX, &[&[1], &[2]]);
    piece(&mut answer, 0, &OUTPUT);
    end(&mut answer, 0, FinishReason::Stop);
    assert!(!answer.all_finished());
    assert_eq!(behind(&answer.learned(), 0).len(), 1);
}

proptest! {
    /// Interleaved choices in pieces of any length, with and without visible text.
    #[test]
    fn what_is_told_in_pieces_is_taught_as_a_whole(
        prompts in prop::collection::vec(prop::collection::vec(any::<TokenId>(), 1..12), 1..4),
        choices_a_prompt in 1u32..4,
        pieces in prop::collection::vec(
            (any::<prop::sample::Index>(), prop::collection::vec(any::<TokenId>(), 0..9), any::<bool>()),
            0..40,
        ),
    ) {
        let views: Vec<&[TokenId]> = prompts.iter().map(Vec::as_slice).collect();
        let mut answer = outputs(choices_a_prompt, &views);
        let expected_choices = choices_a_prompt as usize * prompts.len();
        let mut sequences = vec![Vec::new(); expected_choices];
        for (choice, ids, shows) in pieces {
            let choice = choice.index(expected_choices);
            if shows {
                text(&mut answer, choice as u32);
            }
            let generated = Observation::Generated { choice: choice as u32, ids: Some(TokenSpan::from(0..ids.len())) };
            answer.observe(&generated, &ids);
            sequences[choice].extend(ids);
        }
        count(&mut answer, sequences.iter().map(|ids| ids.len() as u64).sum());
        let learned = answer.learned();
        prop_assert_eq!(learned.untracked, Tokens::ZERO);
        for (prompt, tokens) in prompts.iter().enumerate() {
            let of_prompt = &sequences[prompt * choices_a_prompt as usize..][..choices_a_prompt as usize];
            let blocks = of_prompt.iter().map(|ids| expected(tokens, ids)).filter(|blocks| !blocks.is_empty());
            prop_assert_eq!(behind(&learned, prompt), blocks.collect::<Vec<_>>());
        }
    }
}
