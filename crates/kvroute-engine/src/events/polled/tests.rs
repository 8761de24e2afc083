use kvroute_core::EngineHash;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const START: Duration = Duration::ZERO;

#[derive(Debug, PartialEq)]
enum Did {
    Clear,
    /// Hashes of one batch: stored ones as they are, removed ones negative.
    Apply(Vec<i64>),
    Count(SourceIncident),
}

fn new() -> PolledSource {
    PolledSource::new(DpRank::new(0), START)
}

fn stored(id: u64, hash: u64) -> Value {
    json!({"event_id": id, "data": {"type": "stored", "parent_hash": null, "blocks": [{"block_hash": hash, "tokens": [hash]}]}})
}

fn removed(id: u64, hash: u64) -> Value {
    json!({"event_id": id, "data": {"type": "removed", "block_hashes": [hash]}})
}

fn created(id: u64) -> Value {
    json!({"event_id": id, "data": {"type": "created", "num_blocks_per_cache_level": [9, 0]}})
}

fn did(actions: Vec<SourceAction>) -> Vec<Did> {
    let hash = |hash: &EngineHash| match hash {
        EngineHash::Int(hash) => hash.cast_signed(),
        EngineHash::Digest(_) => panic!("{hash:?}"),
    };
    let of_event = |event: &KvEvent| match event {
        KvEvent::Stored(stored) => hash(&stored.hashes[0]),
        KvEvent::Removed { hashes, .. } => -hash(&hashes[0]),
        other => panic!("{other:?}"),
    };
    let short = actions.into_iter().map(|action| match action {
        SourceAction::Clear => Did::Clear,
        SourceAction::Apply { batch, position: None } => {
            Did::Apply(batch.events.iter().map(of_event).collect())
        }
        SourceAction::Count(incident) => Did::Count(incident),
        other => panic!("{other:?}"),
    });
    short.collect()
}

fn answer(source: &mut PolledSource, events: &[Value]) -> Vec<Did> {
    let mut actions = Vec::new();
    let has_events = source.answered(json!(events).to_string().as_bytes(), &mut actions);
    assert_eq!(has_events, Some(!events.is_empty()));
    did(actions)
}

fn reason(source: &PolledSource) -> Option<SourceReason> {
    source.status(START).reason
}

#[test]
fn a_list_from_its_creation_on_is_exact() {
    let mut source = new();
    assert_eq!(reason(&source), Some(SourceReason::NotPolled));
    assert_eq!(answer(&mut source, &[]), []);
    assert_eq!(reason(&source), Some(SourceReason::NothingPolled));
    assert_eq!(answer(&mut source, &[created(0), stored(1, 5), removed(2, 5)]), [Did::Apply(vec![5, -5])]);
    assert_eq!(source.status(START), SourceStatus::EXACT);
    assert_eq!(answer(&mut source, &[]), []);
    assert_eq!(answer(&mut source, &[stored(3, 6)]), [Did::Apply(vec![6])]);
    assert_eq!(source.status(START), SourceStatus::EXACT);
}

#[test]
fn a_first_number_beyond_0_is_a_late_join() {
    let mut source = new();
    assert_eq!(answer(&mut source, &[stored(7, 5)]), [Did::Apply(vec![5])]);
    assert_eq!(reason(&source), Some(SourceReason::EventsTaken));
}

#[test]
fn a_jump_clears_and_degrades_until_a_cache_is_created() {
    let mut source = new();
    let events = [created(0), stored(1, 5), stored(4, 6), stored(5, 7)];
    let expected = [
        Did::Apply(vec![5]),
        Did::Count(SourceIncident::Gap),
        Did::Count(SourceIncident::Missed(2)),
        Did::Clear,
        Did::Apply(vec![6, 7]),
    ];
    assert_eq!(answer(&mut source, &events), expected);
    assert_eq!(reason(&source), Some(SourceReason::EventsTaken));
    answer(&mut source, &[stored(6, 8)]);
    assert_eq!(reason(&source), Some(SourceReason::EventsTaken));
    assert_eq!(answer(&mut source, &[created(7), stored(8, 9)]), [Did::Clear, Did::Apply(vec![9])]);
    assert_eq!(source.status(START), SourceStatus::EXACT);
}

#[test]
fn a_number_not_above_the_last_one_is_a_restart() {
    for (id, is_exact) in [(0, true), (2, false), (1, false)] {
        let mut source = new();
        answer(&mut source, &[created(0), stored(1, 5), stored(2, 6)]);
        let restart = [Did::Count(SourceIncident::Restart), Did::Clear, Did::Apply(vec![7])];
        assert_eq!(answer(&mut source, &[stored(id, 7)]), restart);
        assert_eq!(source.status(START) == SourceStatus::EXACT, is_exact, "{id}");
    }
}

#[test]
fn a_new_process_may_have_smaller_blocks() {
    let mut source = new();
    let long = json!({"event_id": 1, "data": {"type": "stored", "blocks": [{"block_hash": 1, "tokens": [1, 2, 3]}]}});
    answer(&mut source, &[created(0), long]);
    let expected = [Did::Count(SourceIncident::Restart), Did::Clear, Did::Apply(vec![7])];
    assert_eq!(answer(&mut source, &[created(0), stored(1, 7)]), expected);
}

#[test]
fn an_event_that_cannot_be_read_costs_itself_only() {
    let mut source = new();
    let unnumbered = [json!(17), json!(null), json!({"event_id": "x", "data": {}})];
    let numbered = json!({"event_id": 4, "data": {"type": "stored", "blocks": "text"}});
    let mut events = vec![created(0)];
    events.extend(unnumbered);
    events.extend([numbered, stored(5, 9)]);
    assert_eq!(answer(&mut source, &events), [Did::Apply(vec![9])]);
    assert_eq!(source.status(START), SourceStatus::EXACT);

    let mut actions = Vec::new();
    source.answered(
        json!([{"event_id": 6, "data": 3}, {"event_id": 7, "data": {"type": "new"}}]).to_string().as_bytes(),
        &mut actions,
    );
    let [SourceAction::Apply { batch, .. }] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!((batch.undecodable, batch.ignored, batch.events.len()), (1, 1, 0));
}

#[test]
fn events_of_another_rank_are_left_out_with_their_numbers() {
    let mut source = new();
    let of = |rank: u32, mut event: Value| {
        event["attention_dp_rank"] = json!(rank);
        event
    };
    let events =
        [of(0, created(0)), of(1, created(0)), of(1, stored(1, 5)), of(0, stored(1, 6)), of(1, stored(9, 7))];
    assert!(!source.has_other_ranks());
    assert_eq!(answer(&mut source, &events), [Did::Apply(vec![6])]);
    assert!(source.has_other_ranks());
    assert_eq!(source.status(START), SourceStatus::EXACT);
}

#[test]
fn no_answer_for_15_seconds_is_blind_and_is_counted_once() {
    let mut source = new();
    answer(&mut source, &[created(0)]);
    let mut actions = Vec::new();
    source.failed(Duration::from_secs(100), &mut actions);
    source.failed(Duration::from_secs(114), &mut actions);
    assert_eq!(did(actions), [Did::Count(SourceIncident::Disconnected)]);
    let status = |seconds| source.status(Duration::from_secs(seconds));
    assert_eq!(status(114), SourceStatus::degraded(SourceReason::NotPolled));
    assert_eq!(status(115), SourceStatus::blind(SourceReason::NotPolled));
    assert_eq!(answer(&mut source, &[stored(1, 5)]), [Did::Apply(vec![5])]);
    assert_eq!(source.status(START), SourceStatus::EXACT);
}

/// A store of two blocks of this many tokens.
fn pages(id: u64, size: usize) -> Value {
    let block = |hash: u64| json!({"block_hash": hash, "tokens": vec![1; size]});
    json!({"event_id": id, "data": {"type": "stored", "blocks": [block(2 * id), block(2 * id + 1)]}})
}

fn refused(expected: u32, seen: u32) -> SourceReason {
    let size = |tokens| kvroute_core::BlockSize::new(tokens).unwrap();
    SourceReason::BlockSize { expected: size(expected), seen: size(seen) }
}

fn rejected(source: &mut PolledSource, events: &[Value]) -> u64 {
    let mut actions = Vec::new();
    source.answered(json!(events).to_string().as_bytes(), &mut actions);
    let of = |action: &SourceAction| match action {
        SourceAction::Apply { batch, .. } => batch.rejected,
        _ => 0,
    };
    actions.iter().map(of).sum()
}

#[test]
fn one_store_of_another_size_is_refused_and_named_until_the_right_one_has_come_again() {
    let mut source = new();
    answer(&mut source, &[created(0), pages(1, 2)]);
    assert_eq!(rejected(&mut source, &[pages(2, 4)]), 1);
    assert_eq!(source.status(START), SourceStatus::degraded(refused(2, 4)));
    (3..11).for_each(|id| drop(answer(&mut source, &[pages(id, 2)])));
    assert_eq!(source.status(START), SourceStatus::EXACT);
}

#[test]
fn a_size_that_the_events_never_had_is_blind_and_learned_anew_unless_it_is_required() {
    let size = kvroute_core::BlockSize::new(2).unwrap();
    for claim in [BlockSizeClaim::Told(size), BlockSizeClaim::Required(size)] {
        let mut source = new().expecting(claim);
        let events: Vec<_> = (1..20).map(|id| pages(id, 4)).collect();
        answer(&mut source, &[created(0)]);
        assert_eq!(rejected(&mut source, &events[..1]), 1);
        assert_eq!(source.status(START), SourceStatus::blind(refused(2, 4)));
        let rest = rejected(&mut source, &events[1..]);
        let overruled = matches!(reason(&source), Some(SourceReason::BlockSizeOverruled { .. }));
        let is_required = claim == BlockSizeClaim::Required(size);
        assert_eq!((rest, overruled), if is_required { (18, false) } else { (6, true) });
    }
}

#[test]
fn a_created_cache_takes_any_size() {
    let mut source = new();
    answer(&mut source, &[created(0), pages(1, 2), pages(2, 4)]);
    answer(&mut source, &[created(3), pages(4, 4)]);
    assert_eq!(source.status(START), SourceStatus::EXACT);
}

#[test]
fn after_a_lost_answer_only_the_next_number_proves_that_nothing_is_missing() {
    for (id, reason_then) in [(2, None), (3, Some(SourceReason::EventsTaken))] {
        let mut source = new();
        answer(&mut source, &[created(0), stored(1, 5)]);
        source.failed(START, &mut Vec::new());
        assert_eq!(reason(&source), Some(SourceReason::NotPolled));
        for _ in 0..3 {
            answer(&mut source, &[]);
            assert_eq!(source.status(START), SourceStatus::degraded(SourceReason::PollLost));
        }
        answer(&mut source, &[stored(id, 6)]);
        assert_eq!(reason(&source), reason_then);
    }
}

#[test]
fn what_is_no_list_changes_nothing() {
    let mut source = new();
    let mut actions = Vec::new();
    assert_eq!(source.answered(b"{\"error\":\"off\"}", &mut actions), None);
    assert_eq!((actions.len(), reason(&source)), (0, Some(SourceReason::NotPolled)));
}

#[test]
fn the_largest_number_is_no_overflow() {
    let mut source = new();
    answer(&mut source, &[stored(u64::MAX, 5)]);
    answer(&mut source, &[stored(u64::MAX, 6), stored(0, 7)]);
    assert_eq!(source.status(START), SourceStatus::EXACT);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Store(u64),
    Remove(u64),
    /// A second reader, or a buffer that is full.
    Steal,
    Restart,
    Poll,
    /// The engine gives its events away, and the answer does not arrive.
    LosePoll,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_called_exact_is_the_engines_true_state(
        steps in prop::collection::vec(prop_oneof![
            4 => (1..9_u64).prop_map(Step::Store),
            2 => (1..9_u64).prop_map(Step::Remove),
            1 => Just(Step::Steal),
            1 => Just(Step::Restart),
            4 => Just(Step::Poll),
            1 => Just(Step::LosePoll),
        ], 0..80),
    ) {
        let mut source = new();
        let (mut cache, mut held) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
        let (mut next, mut buffer) = (1, vec![created(0)]);
        let mut is_loss_unproved = false;
        for step in steps {
            match step {
                Step::Store(hash) => {
                    cache.insert(hash.cast_signed());
                    buffer.push(stored(next, hash));
                    next += 1;
                }
                Step::Remove(hash) => {
                    cache.remove(&hash.cast_signed());
                    buffer.push(removed(next, hash));
                    next += 1;
                }
                // A restart whose first events are stolen, and whose numbers then fit, is one that nobody can see.
                Step::Steal if buffer.first() == Some(&created(0)) => {}
                Step::LosePoll if buffer.first() == Some(&created(0)) => {}
                Step::Steal => buffer.clear(),
                Step::LosePoll => {
                    is_loss_unproved |= !buffer.is_empty();
                    buffer.clear();
                    source.failed(START, &mut Vec::new());
                }
                Step::Restart => {
                    cache.clear();
                    (next, buffer) = (1, vec![created(0)]);
                }
                Step::Poll => {
                    let is_new = !buffer.is_empty();
                    for did in answer(&mut source, &std::mem::take(&mut buffer)) {
                        match did {
                            Did::Clear => held.clear(),
                            Did::Count(_) => {}
                            Did::Apply(hashes) => for hash in hashes {
                                if hash > 0 { held.insert(hash); } else { held.remove(&-hash); }
                            },
                        }
                    }
                    is_loss_unproved &= !is_new;
                    prop_assert!(!is_loss_unproved || source.status(START) != SourceStatus::EXACT);
                    if is_new && source.status(START) == SourceStatus::EXACT {
                        prop_assert_eq!(&held, &cache);
                    }
                }
            }
        }
    }

    #[test]
    fn arbitrary_answers_never_panic(answer in prop::collection::vec(any::<u8>(), 0..200), text in "\\PC{0,80}") {
        let mut source = new();
        source.answered(&answer, &mut Vec::new());
        source.answered(text.as_bytes(), &mut Vec::new());
    }
}
