use proptest::prelude::*;

use super::*;

fn block(tokens: u64, removed: Option<RemovalCause>, is_held: bool) -> MissingBlock {
    MissingBlock { tokens: Tokens::new(tokens), removed, is_held }
}

fn loss(lost: u64, partial: u64, prompts: &[&[MissingBlock]], blind: bool) -> Vec<(&'static str, u64)> {
    let prompts = prompts.iter().map(|blocks| blocks.iter().copied());
    let loss = UnavailableLoss::of(Tokens::new(lost), Tokens::new(partial), prompts, blind);
    let named = loss.by_reason().filter(|(_, tokens)| !tokens.is_zero());
    named.map(|(reason, tokens)| (reason.as_str(), tokens.get())).collect()
}

#[test]
fn a_block_is_lost_by_its_newest_removal_and_one_that_nobody_knew_is_not_cached() {
    let blocks = [block(16, Some(RemovalCause::Evicted), false), block(16, None, false)];
    assert_eq!(loss(37, 5, &[&blocks], false), [("partial_block", 5), ("evicted", 16), ("not_cached", 16)]);
}

#[test]
fn a_block_that_is_held_behind_a_hole_takes_the_reason_of_the_hole() {
    let blocks = [
        block(16, Some(RemovalCause::WorkerGone), false),
        block(16, Some(RemovalCause::Evicted), true),
        block(16, None, true),
    ];
    assert_eq!(loss(48, 0, &[&blocks], false), [("worker_gone", 48)]);
}

#[test]
fn a_hole_ends_with_its_prompt() {
    let (first, second) = ([block(16, Some(RemovalCause::Cleared), false)], [block(16, None, true)]);
    assert_eq!(loss(32, 0, &[&first, &second], false), [("cleared", 16), ("not_cached", 16)]);
}

#[test]
fn what_nobody_knows_is_blamed_on_a_source_that_does_not_tell_everything() {
    assert_eq!(loss(20, 4, &[&[block(16, None, false)]], true), [("partial_block", 4), ("source_blind", 16)]);
}

#[test]
fn the_partial_block_is_no_more_than_what_is_lost() {
    assert_eq!(loss(3, 15, &[&[block(16, None, false)]], false), [("partial_block", 3)]);
}

proptest! {
    /// Whatever the facts say, every lost token has one reason.
    #[test]
    fn the_reasons_add_up_to_the_loss(
        lost in 0u64..500,
        partial in 0u64..40,
        blocks in proptest::collection::vec((1u64..40, 0usize..6, any::<bool>()), 0..20),
        blind in any::<bool>(),
    ) {
        let facts: Vec<_> = blocks
            .iter()
            .map(|&(tokens, cause, held)| block(tokens, RemovalCause::ALL.get(cause).copied(), held))
            .collect();
        let loss = UnavailableLoss::of(Tokens::new(lost), Tokens::new(partial), [facts], blind);
        prop_assert_eq!(loss.total(), Tokens::new(lost));
    }
}
