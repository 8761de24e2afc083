use proptest::prelude::*;

use super::*;

fn block(tokens: u64, removed: Option<RemovalCause>, is_held: bool) -> MissingBlock {
    MissingBlock { tokens: Tokens::new(tokens), removed, is_held }
}

fn evicted() -> MissingBlock {
    block(16, Some(RemovalCause::Evicted), false)
}

fn terms([input, history, anywhere, partial]: [u64; 4]) -> HistoryTerms {
    let [input, history, anywhere, partial] = [input, history, anywhere, partial].map(Tokens::new);
    HistoryTerms { input, history, anywhere, partial }
}

/// New, residency and surplus, without what is nothing.
type Told = (Vec<(&'static str, u64)>, Vec<(&'static str, u64)>, u64);

/// Of each prompt its own amount and its missing blocks.
fn told(terms: HistoryTerms, prompts: &[(u64, &[MissingBlock])], blind: bool) -> Told {
    let prompts = prompts.iter().map(|(beyond, blocks)| (Tokens::new(*beyond), blocks.iter().copied()));
    let loss = HistoryLoss::of(terms, prompts, blind);
    let named = |reason: &'static str, tokens: Tokens| (!tokens.is_zero()).then_some((reason, tokens.get()));
    (
        loss.new_by_reason().filter_map(|(reason, tokens)| named(reason.as_str(), tokens)).collect(),
        loss.residency_by_reason().filter_map(|(reason, tokens)| named(reason.as_str(), tokens)).collect(),
        loss.surplus_tokens().get(),
    )
}

#[test]
fn what_nobody_has_computed_is_new_and_what_somebody_has_is_lost_by_its_removal() {
    let blocks = [evicted(), block(16, None, false), evicted()];
    let (new, residency, surplus) = told(terms([101, 64, 32, 5]), &[(32, &blocks)], false);
    assert_eq!(new, [("partial_block", 5), ("unseen", 32)]);
    assert_eq!((residency, surplus), (vec![("evicted", 16), ("unknown", 16)], 0));
}

#[test]
fn what_is_behind_the_history_is_new_whatever_became_of_it() {
    let cleared = block(16, Some(RemovalCause::Cleared), false);
    let (new, residency, _) = told(terms([64, 16, 0, 0]), &[(16, &[evicted(), cleared, cleared])], false);
    assert_eq!((new, residency), (vec![("unseen", 48)], vec![("evicted", 16)]));
}

#[test]
fn a_cache_that_holds_more_than_the_history_knows_is_a_surplus() {
    let (new, residency, surplus) = told(terms([64, 16, 48, 0]), &[(0, &[evicted()])], false);
    assert_eq!((new, residency, surplus), (vec![("unseen", 48)], vec![], 32));
    let (.., surplus) = told(terms([64, 48, 48, 0]), &[(0, &[evicted()])], false);
    assert_eq!(surplus, 0);
}

#[test]
fn a_partial_block_is_new_and_never_more_than_what_is() {
    let (new, ..) = told(terms([67, 64, 0, 15]), &[(64, &[])], false);
    assert_eq!(new, [("partial_block", 3)]);
    let (new, residency, _) = told(terms([64, 64, 64, 0]), &[(0, &[])], false);
    assert_eq!((new, residency), (vec![], vec![]));
}

/// The first prompt was known to its end, the second only to half.
#[test]
fn a_prompt_of_a_list_answers_for_its_own_tokens() {
    let gone = block(16, Some(RemovalCause::WorkerGone), false);
    let prompts: [(u64, &[_]); 2] = [(32, &[evicted(), evicted()]), (16, &[gone, evicted()])];
    let (_, residency, _) = told(terms([96, 48, 0, 0]), &prompts, false);
    assert_eq!(residency, [("worker_gone", 16), ("evicted", 32)]);
}

/// One prompt is cached beyond what is known of it, so that the list as a whole lost less than the other one did.
#[test]
fn what_one_prompt_has_too_much_another_has_not_lost() {
    let prompts: [(u64, &[_]); 2] = [(0, &[]), (48, &[evicted(), evicted(), evicted()])];
    let (_, residency, surplus) = told(terms([128, 64, 32, 0]), &prompts, false);
    assert_eq!((residency, surplus), (vec![("evicted", 32)], 0));
}

/// Where block sizes differ the prefix ends within the first missing block.
#[test]
fn a_block_that_is_partly_covered_is_lost_with_what_is_not() {
    let rest = block(8, Some(RemovalCause::Forgotten), false);
    let (_, residency, _) = told(terms([64, 48, 24, 0]), &[(24, &[rest, evicted()])], false);
    assert_eq!(residency, [("forgotten", 8), ("evicted", 16)]);
}

#[test]
fn a_block_that_is_held_behind_a_hole_takes_the_reason_of_the_hole() {
    let hole = block(16, Some(RemovalCause::IndexBudget), false);
    let held = block(16, Some(RemovalCause::Evicted), true);
    let blocks = [hole, held, block(16, None, true), block(16, None, false)];
    let (_, residency, _) = told(terms([64, 64, 0, 0]), &[(64, &blocks)], false);
    assert_eq!(residency, [("index_budget", 48), ("unknown", 16)]);
}

#[test]
fn what_nobody_knows_is_blamed_on_a_source_that_does_not_tell_everything() {
    let (new, residency, _) = told(terms([40, 32, 0, 8]), &[(32, &[block(16, None, false)])], true);
    assert_eq!((new, residency), (vec![("partial_block", 8)], vec![("source_blind", 32)]));
}

#[test]
fn nothing_is_asked_of_a_prompt_that_lost_nothing() {
    let asked = std::cell::Cell::new(0);
    let prompts = (0..3).map(|_| {
        asked.set(asked.get() + 1);
        (Tokens::new(16), [evicted()])
    });
    let loss = HistoryLoss::of(terms([48, 32, 16, 0]), prompts, false);
    assert_eq!((loss.residency_tokens(), asked.get()), (Tokens::new(16), 1));
}

fn any_block() -> impl Strategy<Value = MissingBlock> {
    (1u64..40, 0usize..7, any::<bool>())
        .prop_map(|(tokens, cause, held)| block(tokens, RemovalCause::ALL.get(cause).copied(), held))
}

proptest! {
    /// Whatever the facts say, every lost token has one reason, and the two stages meet at F1.
    #[test]
    fn the_two_stages_close_whatever_facts_lack(
        input in 0u64..500,
        shares in prop::array::uniform2(0u64..=500),
        partial in 0u64..40,
        prompts in prop::collection::vec((0u64..200, prop::collection::vec(any_block(), 0..12)), 0..4),
        blind in any::<bool>(),
    ) {
        let [history, anywhere] = shares.map(|share| share.min(input));
        let facts = prompts.iter().map(|(beyond, blocks)| (Tokens::new(*beyond), blocks.iter().copied()));
        let loss = HistoryLoss::of(terms([input, history, anywhere, partial]), facts, blind);
        prop_assert_eq!(loss.new_tokens().get(), input - history);
        let (residency, surplus) = (loss.residency_tokens().get(), loss.surplus_tokens().get());
        prop_assert_eq!(history + surplus, residency + anywhere);
        prop_assert!(residency == 0 || surplus == 0);
        let by_reason: Tokens = loss.residency_by_reason().map(|(_, tokens)| tokens).sum();
        prop_assert_eq!(by_reason.get(), residency);
    }

    /// A prompt never answers for more than it was known beyond its prefix: what a removal explains of it is at most that.
    #[test]
    fn a_removal_explains_no_more_than_the_prompt_was_known(
        prompts in prop::collection::vec((0u64..80, 1u64..6), 1..6),
    ) {
        let causes = RemovalCause::ALL;
        let blocks = |prompt: usize, blocks: u64| {
            vec![block(16, Some(causes[prompt % causes.len()]), false); blocks as usize]
        };
        let history: u64 = prompts.iter().map(|(beyond, _)| beyond).sum();
        let facts = prompts.iter().enumerate();
        let facts = facts.map(|(at, (beyond, count))| (Tokens::new(*beyond), blocks(at, *count)));
        let loss = HistoryLoss::of(terms([history + 9, history, 0, 9]), facts, false);
        for (reason, tokens) in loss.residency_by_reason() {
            let at = causes.iter().position(|cause| ResidencyReason::from(*cause) == reason);
            let of_reason = prompts.iter().enumerate().filter(|(prompt, _)| Some(prompt % causes.len()) == at);
            let most: u64 = of_reason.map(|(_, (beyond, count))| (*beyond).min(count * 16)).sum();
            prop_assert!(at.is_none() || tokens.get() == most, "{:?}: {} of {}", reason, tokens, most);
        }
    }
}
