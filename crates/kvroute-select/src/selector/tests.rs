mod hung;

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use kvroute_core::{Blocks, Namespace};
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::AffinityKey;
use crate::policy::{NAMES, PolicyOptions, by_name};

const RANKS: u32 = 5;

fn selector(live: &str, shadows: &[&str]) -> Selector {
    let named = |name: &&str| by_name(name, &PolicyOptions::default()).unwrap();
    Selector::new(named(&live), shadows.iter().map(named).collect())
}

fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

fn ranks() -> Vec<RankView> {
    let rank = |slot: u32| RankView {
        slot: RankSlot::new(slot),
        key: RankKey::new(u64::from(slot).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        block_size: BlockSize::DEFAULT,
        has_credit: true,
        foreign: ForeignLoad::default(),
        excluded: None,
    };
    (0..RANKS).map(rank).collect()
}

/// What of the index a simulated fleet is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lookup {
    Never,
    Always,
}

/// Requests of a few conversations on a fleet whose caches are what the decisions made of them. Answers a digest of
/// the ranks that were picked.
fn digest(live: &str, shadows: &[&str], lookup: Lookup) -> u64 {
    let mut selector = selector(live, shadows);
    let (mut live_random, mut shadow_random, mut traffic) = (rng(1), rng(2), rng(3));
    let ranks = ranks();
    let mut cached_by = vec![[false; 40]; RANKS as usize];
    let mut digest = DefaultHasher::new();
    let mut running = std::collections::VecDeque::new();
    for step in 0..2000 {
        let conversation = traffic.random_range(0..40u32);
        let tokens: Vec<u32> = (0..400).map(|token| conversation * 1000 + token).collect();
        let hashed = HashedPrompts::new(&[tokens], &[BlockSize::DEFAULT], Namespace::DEFAULT, || ());
        let cached: Vec<_> = cached_by
            .iter()
            .map(|conversations| match conversations[conversation as usize] {
                true => CachedTokens { device: Tokens::new(384), ..CachedTokens::NONE },
                false => CachedTokens::NONE,
            })
            .collect();
        let nothing = HashedPrompts::default();
        let question = Question {
            ranks: &ranks,
            cached: (lookup == Lookup::Always).then_some(&cached[..]),
            hashed: if lookup == Lookup::Always { &hashed } else { &nothing },
            prompt_lengths: &[Tokens::new(400)],
            choices: 1,
            shows_first_token: step % 3 > 0,
            takes_over: false,
            weights: CostWeights::default(),
            affinity: Affinity { session: Some(AffinityKey::new(conversation.into())), head: None },
            is_pinned: false,
            now: Duration::from_millis(20 * step),
        };
        let decided = selector.decide(&question, &mut live_random, &mut shadow_random).unwrap();
        decided.position.hash(&mut digest);
        cached_by[decided.position][conversation as usize] = true;
        running.push_back(decided.attempt);
        if step % 7 > 2 {
            let done = running.pop_front().unwrap();
            selector.book_mut().first_token(done, question.now);
            selector.book_mut().output(done, 0, Tokens::new(40), question.now);
            selector.book_mut().release(done, question.now);
        }
    }
    digest.finish()
}

/// Every policy that places requests whose caller names no worker.
fn free_policies() -> impl Iterator<Item = &'static str> {
    NAMES.iter().copied().filter(|name| *name != "direct")
}

#[test]
fn shadows_never_change_a_decision() {
    let shadows: Vec<_> = free_policies().collect();
    for live in free_policies() {
        let lookup = if live == "kv" { Lookup::Always } else { Lookup::Never };
        assert_eq!(digest(live, &shadows, Lookup::Always), digest(live, &[], lookup), "{live}");
    }
}

#[test]
fn looking_the_index_up_changes_no_decision_of_a_policy_that_does_not_use_it() {
    for live in free_policies().filter(|name| *name != "kv") {
        assert_eq!(digest(live, &[], Lookup::Always), digest(live, &[], Lookup::Never), "{live}");
    }
}

/// The control: the digest tells decisions apart.
#[test]
fn what_a_policy_does_use_changes_its_decisions() {
    assert_ne!(digest("kv", &[], Lookup::Always), digest("kv", &[], Lookup::Never));
    let different: std::collections::BTreeSet<_> =
        free_policies().map(|live| digest(live, &[], Lookup::Always)).collect();
    assert_eq!(different.len(), free_policies().count());
}

fn cold<'a>(ranks: &'a [RankView], hashed: &'a HashedPrompts, now: Duration) -> Question<'a> {
    Question {
        ranks,
        cached: None,
        hashed,
        prompt_lengths: &[const { Tokens::new(400) }],
        choices: 1,
        shows_first_token: true,
        takes_over: false,
        weights: CostWeights::default(),
        affinity: Affinity::default(),
        is_pinned: false,
        now,
    }
}

#[test]
fn an_advice_is_what_would_be_decided_and_leaves_no_trace() {
    let (ranks, hashed) = (ranks(), HashedPrompts::default());
    for live in free_policies() {
        let (mut asked, mut other) = (selector(live, &[]), selector(live, &[]));
        let mut random = [rng(1), rng(1)];
        for step in 0..50 {
            let question = cold(&ranks, &hashed, Duration::from_secs(step));
            let advised = asked.advise(&question, &mut random[0].clone(), &mut rng(9)).unwrap();
            asked.advise(&question, &mut rng(step), &mut rng(9)).unwrap();
            let decided = asked.decide(&question, &mut random[0], &mut rng(9)).unwrap();
            assert_eq!((advised.candidate, advised.reason), (decided.position, decided.reason), "{live}");
            let unasked = other.decide(&question, &mut random[1], &mut rng(9)).unwrap();
            assert_eq!(unasked, decided, "{live}");
        }
    }
}

#[test]
fn what_the_engine_says_of_others_counts_where_it_is_more_than_what_is_booked() {
    let (mut ranks, hashed) = (ranks(), HashedPrompts::default());
    for rank in &mut ranks[1..] {
        rank.foreign = ForeignLoad { requests: 3, blocks: Blocks::new(500) };
    }
    let mut selector = selector("least-loaded", &[]);
    for _ in 0..4 {
        let weights = CostWeights { decode: 1.0, ..CostWeights::default() };
        let question = Question { weights, ..cold(&ranks, &hashed, Duration::ZERO) };
        let decided = selector.decide(&question, &mut rng(1), &mut rng(2));
        assert_eq!(decided.unwrap().position, 0);
    }
    assert_eq!(selector.candidates()[1].load.active_requests, 3);
}

#[test]
fn a_rank_that_joins_starts_with_what_the_others_were_given() {
    let (all, hashed) = (ranks(), HashedPrompts::default());
    let mut selector = selector("kv", &[]);
    for step in 0..40 {
        let question = cold(&all[1..], &hashed, Duration::from_secs(step));
        let decided = selector.decide(&question, &mut rng(step), &mut rng(2)).unwrap();
        selector.book_mut().first_token(decided.attempt, question.now);
        selector.book_mut().release(decided.attempt, question.now);
    }
    let question = cold(&all, &hashed, Duration::from_secs(40));
    selector.advise(&question, &mut rng(1), &mut rng(2)).unwrap();
    let given = |selector: &Selector| selector.candidates()[0].recent.get();
    let others: u64 = selector.candidates()[1..].iter().map(|candidate| candidate.recent.get()).sum();
    assert_eq!(given(&selector), others / 4);
    let decided = selector.decide(&question, &mut rng(1), &mut rng(2)).unwrap();
    selector.book_mut().release(decided.attempt, question.now);
    selector.book_mut().remove_slot(RankSlot::new(4));
    selector.advise(&question, &mut rng(1), &mut rng(2)).unwrap();
    let fair = others / 4..=others / 4 + 400;
    assert!(fair.contains(&given(&selector)), "{} of {fair:?}", given(&selector));
}

#[test]
fn where_the_caller_chose_shadows_are_not_compared() {
    let (mut ranks, hashed) = (ranks(), HashedPrompts::default());
    for rank in &mut ranks[1..] {
        rank.excluded = Some(Exclusion::Pinned);
    }
    let mut selector = selector("direct", &["kv"]);
    let question = Question { is_pinned: true, ..cold(&ranks, &hashed, Duration::ZERO) };
    assert_eq!(selector.decide(&question, &mut rng(1), &mut rng(2)).unwrap().reason, PickReason::Pinned);
    assert_eq!(selector.shadow_picks().collect::<Vec<_>>(), [("kv", None)]);
}

#[derive(Clone, Debug)]
enum Step {
    Decide { excluded: u32, streams: bool },
    FirstToken { nth: usize },
    Output { nth: usize, tokens: u64 },
    End { nth: usize },
    Leave { slot: u32 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..1u32 << RANKS, any::<bool>()).prop_map(|(excluded, streams)| Step::Decide { excluded, streams }),
        3 => (0..40usize).prop_map(|nth| Step::FirstToken { nth }),
        3 => (0..40usize, 0..100u64).prop_map(|(nth, tokens)| Step::Output { nth, tokens }),
        4 => (0..40usize).prop_map(|nth| Step::End { nth }),
        1 => (0..RANKS).prop_map(|slot| Step::Leave { slot }),
    ]
}

proptest! {
    /// Completions, cancellations, attempts that are tried anew and ranks that leave, in any order: an end is an end.
    #[test]
    fn at_rest_every_load_is_zero(
        steps in prop::collection::vec(step(), 1..120),
        policy in 0..NAMES.len(),
        ends in any::<u64>(),
    ) {
        let mut selector = selector(NAMES[policy], &["kv"]);
        let tokens: Vec<u32> = (0..400).collect();
        let hashed = HashedPrompts::new(&[tokens], &[BlockSize::DEFAULT], Namespace::DEFAULT, || ());
        let (mut random, mut shadow_random) = (rng(1), rng(2));
        let mut attempts = Vec::new();
        let mut now = Duration::ZERO;
        for step in steps {
            now += Duration::from_millis(300);
            let nth = |nth: usize| attempts.get(nth % attempts.len().max(1)).copied();
            match step {
                Step::Decide { excluded, streams } => {
                    let mut ranks = ranks();
                    for rank in &mut ranks {
                        rank.excluded = (excluded >> rank.slot.get() & 1 == 1).then_some(Exclusion::Unhealthy);
                    }
                    let question = Question { shows_first_token: streams, ..cold(&ranks, &hashed, now) };
                    attempts.extend(selector.decide(&question, &mut random, &mut shadow_random).map(|it| it.attempt));
                }
                Step::FirstToken { nth: n } => nth(n).into_iter().for_each(|id| selector.book_mut().first_token(id, now)),
                Step::Output { nth: n, tokens } => {
                    nth(n).into_iter().for_each(|id| selector.book_mut().output(id, 0, Tokens::new(tokens), now));
                }
                Step::End { nth: n } => nth(n).into_iter().for_each(|id| selector.book_mut().release(id, now)),
                Step::Leave { slot } => selector.book_mut().remove_slot(RankSlot::new(slot)),
            }
        }
        let mut order = rng(ends);
        while !attempts.is_empty() {
            let id = attempts.swap_remove(order.random_range(0..attempts.len()));
            selector.book_mut().release(id, now);
        }
        for slot in (0..RANKS).map(RankSlot::new) {
            prop_assert_eq!(selector.load(slot), WorkerLoad::default());
        }
    }
}

/// Decides with the longest cached prefix on the first rank, which has that much to compute already, and tells where the
/// request went and what the prefix was given up for.
fn given_up(live: &str, backlog: u64, excluded: Option<Exclusion>) -> (usize, Option<PlacementReason>) {
    let mut selector = selector(live, &[]);
    let mut ranks = ranks();
    ranks[0].excluded = excluded;
    let (first, nothing) = (ranks[0].slot, HashedPrompts::default());
    let mut cached = vec![CachedTokens::NONE; RANKS as usize];
    cached[0].device = Tokens::new(320);
    let (prompts, now) = ([BookedPrompt { tokens: Tokens::new(backlog), hashes: &[] }], Duration::ZERO);
    let booking = Booking {
        prefill: Tokens::new(backlog),
        block_size: BlockSize::DEFAULT,
        prompts: &prompts,
        choices: 1,
        shows_first_token: true,
        now,
    };
    selector.book_mut().book(AttemptId::new(1000), first, &booking);
    let question = Question {
        ranks: &ranks,
        cached: Some(&cached),
        hashed: &nothing,
        prompt_lengths: &[Tokens::new(400)],
        choices: 1,
        shows_first_token: true,
        takes_over: false,
        weights: CostWeights { recent: 0.0, ..CostWeights::default() },
        affinity: Affinity::default(),
        is_pinned: false,
        now,
    };
    let position = selector.decide(&question, &mut rng(5), &mut rng(6)).unwrap().position;
    (position, selector.given_up_for(&cached, position))
}

#[test]
fn a_longer_prefix_is_given_up_for_what_outweighs_it() {
    assert_eq!(given_up("kv", 0, None), (0, None));
    let (position, reason) = given_up("kv", 4000, None);
    assert!(position != 0 && reason == Some(PlacementReason::Load), "{reason:?} at {position}");
    let (position, reason) = given_up("least-loaded", 4000, None);
    assert!(position != 0 && reason == Some(PlacementReason::Policy), "{reason:?} at {position}");
}

#[test]
fn a_prefix_that_could_not_be_picked_is_not_given_up_by_the_placement() {
    let (position, reason) = given_up("kv", 0, Some(Exclusion::Unhealthy));
    assert!(position != 0 && reason.is_none(), "{reason:?} at {position}");
}

#[test]
fn a_computed_prompt_goes_where_least_runs_and_books_no_prefill() {
    let (ranks, hashed) = (ranks(), HashedPrompts::default());
    for live in free_policies() {
        let mut selector = selector(live, &["random"]);
        let mut random = [rng(1), rng(2)];
        let mut taken = std::collections::BTreeSet::new();
        for _ in 0..RANKS {
            let question = Question { takes_over: true, ..cold(&ranks, &hashed, Duration::ZERO) };
            let [live_random, shadow_random] = &mut random;
            taken.insert(selector.decide(&question, live_random, shadow_random).unwrap().position);
            assert_eq!(selector.shadow_picks().filter_map(|(_, picked)| picked).count(), 0, "{live}");
        }
        assert_eq!(taken.len(), RANKS as usize, "{live}: one a rank");
        let prefill: Tokens = ranks.iter().map(|rank| selector.load(rank.slot).prefill_tokens).sum();
        assert_eq!(prefill, Tokens::ZERO, "{live}");
    }
}
