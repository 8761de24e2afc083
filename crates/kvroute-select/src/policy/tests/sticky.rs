use std::collections::BTreeSet;

use kvroute_core::AttemptId;

use super::*;
use crate::{BookedPrompt, Booking, LoadBook};

const HOUR: Duration = Duration::from_secs(3600);

/// A policy and the decisions that it took one after the other.
struct Desk {
    policy: Box<dyn Policy>,
}

impl Desk {
    fn new(hard_sessions: bool) -> Self {
        Self { policy: by_name("sticky", &PolicyOptions { session_ttl: HOUR, hard_sessions }).unwrap() }
    }

    /// Picks and places. Answers the key of the rank and the reason.
    fn place(&mut self, request: &RequestShape, candidates: &[Candidate]) -> Option<(u64, PickReason)> {
        let mut left = candidates.to_vec();
        self.policy.restrict(request, &mut left);
        let pick = self.policy.pick(request, &left, &mut Vec::new(), &mut rng(1)).ok()?;
        self.policy.placed(request, &left[pick.candidate]);
        Some((left[pick.candidate].key.get(), pick.reason))
    }
}

fn at(seconds: u64, session: u64) -> RequestShape {
    RequestShape { now: Duration::from_secs(seconds), ..of_session(session) }
}

#[test]
fn a_session_begins_where_the_load_is_least_and_stays_whatever_the_load() {
    let mut desk = Desk::new(false);
    assert_eq!(desk.place(&at(0, 7), &[loaded(0, 2), loaded(1, 1)]), Some((1, PickReason::NewSession)));
    let mut busy = loaded(1, 1_000_000);
    busy.recent = Tokens::new(1_000_000);
    assert_eq!(desk.place(&at(1, 7), &[idle(0), busy]), Some((1, PickReason::Home)));
    assert_eq!(desk.place(&at(1, 8), &[idle(0), busy]), Some((0, PickReason::NewSession)));
}

#[test]
fn a_request_without_a_session_is_placed_by_load_and_leaves_nothing_behind() {
    let mut desk = Desk::new(true);
    for _ in 0..2 {
        let placed = desk.place(&request(0.0), &[loaded(0, 2), loaded(1, 1)]);
        assert_eq!(placed, Some((1, PickReason::NewSession)));
    }
    assert_eq!(desk.place(&request(0.0), &[idle(0), loaded(1, 1)]), Some((0, PickReason::NewSession)));
}

#[test]
fn a_pick_that_is_only_advice_begins_no_session() {
    let policy = fresh("sticky").unwrap();
    for slot in [0, 1] {
        let pick =
            policy.pick(&at(0, 7), &[loaded(0, slot), loaded(1, 1 - slot)], &mut Vec::new(), &mut rng(1));
        assert_eq!(pick.unwrap(), Pick { candidate: slot as usize, reason: PickReason::NewSession });
    }
}

#[test]
fn a_session_ends_when_it_was_silent_for_its_time() {
    let (first, second) = ([idle(0), loaded(1, 1)], [loaded(0, 1), idle(1)]);
    let mut desk = Desk::new(false);
    desk.place(&at(0, 7), &first);
    assert_eq!(desk.place(&at(3599, 7), &second), Some((0, PickReason::Home)));
    assert_eq!(desk.place(&at(3599 + 3599, 7), &second), Some((0, PickReason::Home)));
    assert_eq!(desk.place(&at(3599 + 3599 + 3600, 7), &second), Some((1, PickReason::NewSession)));
}

#[test]
fn a_soft_session_moves_when_its_rank_cannot_be_used_and_stays_there() {
    let mut desk = Desk::new(false);
    let all = [idle(0), loaded(1, 1), loaded(2, 2)];
    desk.place(&at(0, 7), &all);
    let mut without = all;
    without[0].exclude(Exclusion::Unhealthy);
    assert_eq!(desk.place(&at(1, 7), &without), Some((1, PickReason::Moved)));
    assert_eq!(desk.place(&at(2, 7), &all), Some((1, PickReason::Home)));
    assert_eq!(desk.place(&at(3, 7), &all[2..]), Some((2, PickReason::OnlyCandidate)));
}

#[test]
fn another_rank_in_the_slot_of_an_old_one_is_not_its_home() {
    let rank = |slot, key, blocks| Candidate {
        slot: RankSlot::new(slot),
        key: RankKey::new(key),
        ..loaded(slot, blocks)
    };
    for is_hard in [false, true] {
        let mut desk = Desk::new(is_hard);
        desk.place(&at(0, 7), &[rank(0, 5, 0), rank(1, 6, 1)]);
        let slots_given_anew = [rank(0, 9, 0), rank(3, 6, 1)];
        assert_eq!(desk.place(&at(1, 7), &slots_given_anew), Some((9, PickReason::Moved)));
        let under_another_slot = [rank(9, 6, 0), rank(8, 9, 1)];
        assert_eq!(desk.place(&at(2, 7), &under_another_slot), Some((9, PickReason::Home)));
    }
}

#[test]
fn a_hard_session_waits_for_its_rank_and_says_so() {
    let mut desk = Desk::new(true);
    let all = [idle(0), loaded(1, 1), loaded(2, 2)];
    desk.place(&at(0, 7), &all);
    assert_eq!(desk.place(&at(1, 7), &all), Some((0, PickReason::Home)));
    let mut away = all;
    away[0].exclude(Exclusion::Unhealthy);
    away[2].exclude(Exclusion::Pinned);
    assert_eq!(desk.place(&at(2, 7), &away), None);
    desk.policy.restrict(&at(2, 7), &mut away);
    let exclusions = away.map(|candidate| candidate.excluded.unwrap());
    assert_eq!(exclusions, [Exclusion::Unhealthy, Exclusion::Affinity, Exclusion::Pinned]);
    assert!(desk.policy.why_none(&at(2, 7), &away).unwrap().may_pass);
    assert_eq!(desk.place(&at(3, 8), &all), Some((0, PickReason::NewSession)));
    assert_eq!(desk.place(&at(4, 7), &all), Some((0, PickReason::Home)));
}

#[test]
fn a_hard_session_does_not_wait_for_a_rank_that_left_the_pool() {
    let mut desk = Desk::new(true);
    desk.place(&at(0, 7), &[idle(0), loaded(1, 1)]);
    let rest = [loaded(1, 1), loaded(2, 2)];
    assert_eq!(desk.place(&at(1, 7), &rest), Some((1, PickReason::Moved)));
    let unhealthy = [excluded(2)];
    assert_eq!(desk.policy.why_none(&at(2, 7), &unhealthy), None);
}

#[test]
fn a_caller_that_names_a_rank_is_obeyed_and_moves_no_session() {
    let mut desk = Desk::new(true);
    let named = |slot| {
        [0, 1]
            .map(|other| Candidate { excluded: (other != slot).then_some(Exclusion::Pinned), ..idle(other) })
    };
    let pinned = |seconds| RequestShape { is_pinned: true, ..at(seconds, 7) };
    assert_eq!(desk.place(&pinned(0), &named(1)).map(|(rank, _)| rank), Some(1));
    assert_eq!(desk.place(&at(1, 7), &[idle(0), idle(1)]), Some((1, PickReason::Home)));
    assert_eq!(desk.place(&pinned(2), &named(0)).map(|(rank, _)| rank), Some(0));
    assert_eq!(desk.place(&at(3, 7), &[idle(0), idle(1)]), Some((1, PickReason::Home)));
}

/// Every turn is over before the next request comes, so that no rank is ever busy at a decision.
#[test]
fn sessions_that_come_one_by_one_begin_on_different_ranks() {
    let mut desk = Desk::new(false);
    let mut book = LoadBook::new();
    let mut homes = Vec::new();
    for number in 0..24u64 {
        let now = Duration::from_secs(2 * number);
        let recents = (0..8).map(|slot| book.recent(now).of(RankSlot::new(slot)));
        let candidates: Vec<_> =
            (0..8).zip(recents).map(|(slot, recent)| Candidate { recent, ..idle(slot) }).collect();
        let (rank, _) = desk.place(&at(2 * number, number), &candidates).unwrap();
        let tokens = Tokens::new(1000);
        let booking = Booking {
            prefill: tokens,
            block_size: BlockSize::DEFAULT,
            prompts: &[BookedPrompt { tokens, hashes: &[] }],
            choices: 1,
            shows_first_token: true,
            now,
        };
        book.book(AttemptId::new(number), RankSlot::new(rank as u32), &booking);
        book.first_token(AttemptId::new(number), now);
        book.release(AttemptId::new(number), now + Duration::from_secs(1));
        homes.push(rank);
    }
    for round in homes.chunks(8) {
        assert_eq!(round.iter().collect::<BTreeSet<_>>().len(), 8, "{homes:?}");
    }
}
