use kvroute_core::Tokens;
use proptest::prelude::*;

use super::*;

const EQUAL: Finding = Finding::EqualIds;
const SAME_LENGTH: Finding = Finding::EqualLength;
const OTHER_LENGTH: Finding = Finding::OtherLength { router: Tokens::new(10), engine: Tokens::new(12) };

fn other_ids() -> Finding {
    Finding::of_ids(&[1, 2, 3], &[1, 9, 3])
}

fn of(kind: PromptKind, prompt: u64, finding: Finding) -> Evidence {
    Evidence { kind, prompt, finding }
}

/// A worker that was seen so, each time with a prompt of its own.
fn seen(findings: &[Finding]) -> WorkerIdentity {
    let mut identity = WorkerIdentity::default();
    for (prompt, finding) in (0..).zip(findings) {
        identity.add(of(PromptKind::Chat, prompt, *finding));
    }
    identity
}

fn state(findings: &[Finding]) -> IdentityState {
    seen(findings).state()
}

#[test]
fn equal_ids_prove_at_once_and_equal_lengths_together() {
    assert_eq!(state(&[]), IdentityState::Unproven);
    assert_eq!(state(&[EQUAL]), IdentityState::Proven);
    assert_eq!(state(&[SAME_LENGTH; PROVING_LENGTHS - 1]), IdentityState::Unproven);
    assert_eq!(state(&[SAME_LENGTH; PROVING_LENGTHS]), IdentityState::Proven);
    assert_eq!(state(&[OTHER_LENGTH, SAME_LENGTH, SAME_LENGTH, SAME_LENGTH]), IdentityState::Unproven);
}

#[test]
fn one_repeated_prompt_of_equal_length_proves_nothing() {
    let mut identity = WorkerIdentity::default();
    for _ in 0..10 {
        identity.add(of(PromptKind::Text, 7, SAME_LENGTH));
    }
    assert_eq!(identity.state(), IdentityState::Unproven);
    assert_eq!(identity.reason(), "text: 1 of 3 equal lengths");
}

#[test]
fn the_first_other_ids_are_a_mismatch_and_of_lengths_it_takes_two() {
    assert_eq!(state(&[other_ids()]), IdentityState::Mismatch);
    assert_eq!(state(&[OTHER_LENGTH]), IdentityState::Unproven);
    assert_eq!(state(&[OTHER_LENGTH, OTHER_LENGTH]), IdentityState::Mismatch);
    assert_eq!(state(&[SAME_LENGTH, SAME_LENGTH, SAME_LENGTH, other_ids()]), IdentityState::Mismatch);
}

#[test]
fn one_odd_prompt_condemns_no_worker_that_is_proven_however_often_it_comes() {
    for odd in [other_ids(), OTHER_LENGTH] {
        let mut identity = seen(&[EQUAL]);
        for _ in 0..20 {
            identity.add(of(PromptKind::Chat, 1000, odd));
        }
        assert_eq!(identity.state(), IdentityState::Proven);
        identity.add(of(PromptKind::Chat, 1001, OTHER_LENGTH));
        assert_eq!(identity.state(), IdentityState::Proven);
    }
}

#[test]
fn a_proven_worker_that_becomes_another_one_is_found_out() {
    assert_eq!(state(&[EQUAL, other_ids(), other_ids()]), IdentityState::Mismatch);
    let mut findings = vec![EQUAL; 20];
    findings.extend([OTHER_LENGTH; 3]);
    assert_eq!(state(&findings), IdentityState::Proven);
    findings.push(OTHER_LENGTH);
    assert_eq!(state(&findings), IdentityState::Mismatch);
}

#[test]
fn equal_lengths_do_not_outweigh_ids_that_differed() {
    let mut findings = vec![other_ids()];
    findings.extend([SAME_LENGTH; 50]);
    assert_eq!(state(&findings), IdentityState::Mismatch);
    let mut identity = seen(&[EQUAL, other_ids()]);
    identity.add(of(PromptKind::Chat, 1, SAME_LENGTH));
    identity.add(of(PromptKind::Chat, 2, other_ids()));
    assert_eq!(identity.state(), IdentityState::Mismatch, "the length of a prompt replaced its ids");
}

#[test]
fn lengths_neither_take_back_a_mismatch_of_ids_nor_replace_it() {
    let mut findings = vec![other_ids(), OTHER_LENGTH];
    findings.extend([SAME_LENGTH; 10]);
    assert_eq!(state(&findings), IdentityState::Mismatch);
}

#[test]
fn a_prompt_whose_ids_were_compared_speaks_once_and_not_by_its_length_too() {
    for [first, second] in [[other_ids(), OTHER_LENGTH], [OTHER_LENGTH, other_ids()]] {
        let mut identity = seen(&[EQUAL]);
        for (prompt, finding) in [(100, first), (100, second), (101, OTHER_LENGTH)] {
            identity.add(of(PromptKind::Chat, prompt, finding));
        }
        assert_eq!(identity.state(), IdentityState::Proven, "{first:?}");
    }
}

#[test]
fn three_equal_prompts_are_too_few_to_take_a_mismatch_back() {
    assert_eq!(state(&[other_ids(), EQUAL, EQUAL, EQUAL]), IdentityState::Mismatch);
    assert_eq!(state(&[other_ids(), EQUAL, EQUAL, EQUAL, EQUAL]), IdentityState::Proven);
}

#[test]
fn a_mismatch_is_taken_back_by_equal_prompts_in_a_row_of_what_differed() {
    let then = |first: Finding, next: Finding, times: usize| {
        let mut findings = vec![first, first];
        findings.extend(vec![next; times]);
        state(&findings)
    };
    assert_eq!(then(other_ids(), EQUAL, CLEARING - 1), IdentityState::Mismatch);
    assert_eq!(then(other_ids(), EQUAL, CLEARING), IdentityState::Proven);
    assert_eq!(then(OTHER_LENGTH, SAME_LENGTH, CLEARING - 1), IdentityState::Mismatch);
    assert_eq!(then(OTHER_LENGTH, SAME_LENGTH, CLEARING), IdentityState::Proven);

    let mut findings = vec![other_ids(), other_ids()];
    findings.extend([EQUAL; CLEARING]);
    findings.push(other_ids());
    assert_eq!(state(&findings), IdentityState::Proven, "what is over speaks against nothing new");
}

#[test]
fn a_kind_is_judged_by_itself_and_one_mismatch_is_the_workers() {
    let mut identity = WorkerIdentity::default();
    identity.add(of(PromptKind::Text, 1, EQUAL));
    identity.add(of(PromptKind::Chat, 2, EQUAL));
    identity.add(of(PromptKind::Tools, 3, other_ids()));
    assert!(identity.verdict(PromptKind::Text).is_proven() && identity.verdict(PromptKind::Chat).is_proven());
    assert_eq!(identity.state(), IdentityState::Mismatch);
    let reason = "text: equal ids; chat: equal ids; chat with tools: other ids from position 1";
    assert_eq!(identity.reason(), reason);
}

#[test]
fn a_kind_that_is_known_and_one_that_is_not_yet_are_unproven_together() {
    let mut identity = WorkerIdentity::default();
    identity.add(of(PromptKind::Text, 1, EQUAL));
    identity.add(of(PromptKind::Chat, 2, SAME_LENGTH));
    assert_eq!(identity.state(), IdentityState::Unproven);
}

#[test]
fn an_engine_that_reuses_what_nobody_indexed_is_not_proven_whatever_its_ids_say() {
    use std::time::Duration;

    use crate::identity::reuse::Reuse;

    let [input, predicted, reused, noticeable] = [1000, 0, 900, 32].map(Tokens::new);
    let mut identity = seen(&[EQUAL]);
    for second in 0..20 {
        identity.reuse().add(Reuse { input, predicted, reused, noticeable }, Duration::from_secs(second));
    }
    assert_eq!(identity.state(), IdentityState::Unproven);
    assert!(identity.reason().contains("router identity mismatch"), "{}", identity.reason());
}

#[test]
fn a_worker_that_cannot_be_asked_says_why_until_something_was_compared() {
    let mut identity = WorkerIdentity::default();
    assert_eq!(identity.reason(), "nothing compared yet");
    identity.could_not_ask("no endpoint");
    assert_eq!(identity.reason(), "nothing compared yet: no endpoint");
    identity.add(of(PromptKind::Text, 1, EQUAL));
    assert_eq!(identity.reason(), "text: equal ids");
}

fn any_finding() -> impl Strategy<Value = Finding> {
    prop_oneof![Just(EQUAL), Just(SAME_LENGTH), Just(OTHER_LENGTH), Just(other_ids())]
}

fn history() -> impl Strategy<Value = Vec<(u64, Finding)>> {
    prop::collection::vec((0..20_u64, any_finding()), 0..60)
}

fn after(history: &[(u64, Finding)]) -> WorkerIdentity {
    let mut identity = WorkerIdentity::default();
    for (prompt, finding) in history {
        identity.add(of(PromptKind::Chat, *prompt, *finding));
    }
    identity
}

proptest! {
    #[test]
    fn whatever_was_before_ten_differing_prompts_are_a_mismatch(
        history in history(), odd in prop_oneof![Just(OTHER_LENGTH), Just(other_ids())],
    ) {
        let mut identity = after(&history);
        for prompt in 100..110 {
            identity.add(of(PromptKind::Chat, prompt, odd));
        }
        prop_assert_eq!(identity.state(), IdentityState::Mismatch);
    }

    #[test]
    fn whatever_was_before_equal_ids_prove_in_the_end(history in history()) {
        let mut identity = after(&history);
        for prompt in 100..100 + CLEARING as u64 {
            identity.add(of(PromptKind::Chat, prompt, EQUAL));
        }
        prop_assert_eq!(identity.state(), IdentityState::Proven);
    }

    #[test]
    fn nothing_that_differs_no_mismatch(history in history()) {
        let equal: Vec<_> = history.into_iter().filter(|(_, finding)| finding.is_equal()).collect();
        prop_assert_ne!(after(&equal).state(), IdentityState::Mismatch);
    }

    #[test]
    fn one_odd_prompt_condemns_nobody_who_is_proven(
        history in history(), odd in prop_oneof![Just(OTHER_LENGTH), Just(other_ids())],
    ) {
        let mut identity = seen(&[EQUAL]);
        for (prompt, finding) in history {
            let evidence = if finding.is_equal() { of(PromptKind::Chat, prompt, finding) } else { of(PromptKind::Chat, 500, odd) };
            identity.add(evidence);
            prop_assert_eq!(identity.state(), IdentityState::Proven);
        }
    }

    #[test]
    fn the_windows_never_grow(history in history()) {
        let identity = after(&history);
        for kind in &identity.kinds {
            prop_assert!(kind.ids.len() <= WINDOW && kind.lengths.len() <= WINDOW);
        }
    }
}
