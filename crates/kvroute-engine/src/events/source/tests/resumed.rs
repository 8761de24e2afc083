//! A source that starts from a snapshot: what it says is kept only where the engine proves that it is the same process.

use super::*;

/// The last message that the snapshot knows, with its number as content.
fn snapshot(sequence: u64) -> LastMessage {
    LastMessage { sequence, content: xxh3_64(&payload(sequence, false)) }
}

fn resumed(has_replay: bool) -> (Driver, Vec<Did>) {
    let source = Source::resumed(has_replay, START, snapshot(3));
    let mut driver = Driver { source, incidents: Vec::new() };
    assert_eq!(driver.reason(), Some(SourceReason::NotConnected));
    let did = driver.connect();
    (driver, did)
}

#[test]
fn the_last_message_again_proves_the_process() {
    let (mut driver, did) = resumed(true);
    assert_eq!(did, [Did::Ask(3)]);
    assert_eq!(driver.reason(), Some(SourceReason::CatchingUp));
    assert_eq!(
        [driver.replayed(3), driver.replayed(4), driver.ended()],
        [vec![], vec![Did::Apply(4)], vec![]]
    );
    assert!(driver.is_exact());
    assert_eq!(driver.live(5), [Did::Apply(5)]);
}

#[test]
fn another_message_with_its_number_clears_and_starts_from_0() {
    let (mut driver, _) = resumed(true);
    assert_eq!(driver.replayed_as(3, 103), [Did::Clear, Did::Ask(0)]);
    assert_eq!(driver.replayed_as(0, 100), [Did::Apply(100)]);
    driver.ended();
    assert!(driver.is_exact());
}

#[test]
fn an_engine_that_has_published_less_clears() {
    let (mut driver, _) = resumed(true);
    assert_eq!(driver.ended(), [Did::Clear, Did::Ask(0)]);
    assert_eq!(driver.ended(), []);
    assert!(driver.is_exact());
}

#[test]
fn an_engine_that_no_longer_keeps_it_clears() {
    let (mut driver, _) = resumed(true);
    assert_eq!(driver.replayed(9), [Did::Clear, Did::Apply(9)]);
    driver.ended();
    assert_eq!(driver.reason(), Some(SourceReason::ReplayTooShort));
}

#[test]
fn without_an_answer_it_is_kept_in_doubt_and_cleared_when_the_next_message_finds_none_either() {
    let (mut driver, _) = resumed(true);
    assert_eq!(driver.failed(), []);
    assert_eq!(driver.reason(), Some(SourceReason::Restored));
    assert_eq!(driver.live(9), [Did::Ask(3)]);
    assert_eq!(driver.failed(), [Did::Clear, Did::Apply(9)]);
    assert_eq!(driver.reason(), Some(SourceReason::ReplayFailed));
}

#[test]
fn without_a_replay_socket_nothing_is_proved_and_it_clears() {
    let (mut driver, did) = resumed(false);
    assert_eq!(did, [Did::Clear]);
    assert_eq!(driver.live(4), [Did::Apply(4)]);
    assert_eq!(driver.reason(), Some(SourceReason::JoinedLate));
}

#[test]
fn a_live_number_not_above_it_is_a_restart() {
    let (mut driver, _) = resumed(true);
    assert_eq!(driver.live_as(2, 102), [Did::Clear, Did::Ask(0)]);
}

fn positions(
    driver: &mut Driver,
    input: impl FnOnce(&mut Source, &mut Vec<SourceAction>),
) -> Vec<Option<u64>> {
    let mut actions = Vec::new();
    input(&mut driver.source, &mut actions);
    let positions = actions.into_iter().filter_map(|action| match action {
        SourceAction::Apply { position, .. } => Some(position.map(|last| last.sequence)),
        _ => None,
    });
    positions.collect()
}

#[test]
fn a_position_is_given_where_a_snapshot_can_be_resumed() {
    let mut whole = at(3);
    let live = |sequence| {
        move |source: &mut Source, actions: &mut Vec<_>| {
            source.live(sequence, payload(sequence, false), actions);
        }
    };
    assert_eq!(positions(&mut whole, live(4)), [Some(4)]);

    let (mut without_replay, _) = Driver::connected(false);
    assert_eq!(positions(&mut without_replay, live(0)), [None]);

    let mut lossy = at(3);
    lossy.live(6);
    lossy.failed();
    assert_eq!(positions(&mut lossy, live(7)), [None]);
}

#[test]
fn a_position_names_the_message_by_number_and_content() {
    let mut driver = at(3);
    let mut actions = Vec::new();
    driver.source.live(4, payload(4, false), &mut actions);
    let [SourceAction::Apply { position, .. }] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(*position, Some(snapshot(4)));
}

/// A batch that stores a block of a cache group of this kind.
fn group(kind: &str) -> Bytes {
    let mut out = Vec::new();
    rmp::encode::write_array_len(&mut out, 2).unwrap();
    rmp::encode::write_f64(&mut out, 1.0).unwrap();
    rmp::encode::write_array_len(&mut out, 1).unwrap();
    rmp::encode::write_map_len(&mut out, 6).unwrap();
    for (name, text) in [("type", "BlockStored"), ("kv_cache_spec_kind", kind)] {
        rmp::encode::write_str(&mut out, name).unwrap();
        rmp::encode::write_str(&mut out, text).unwrap();
    }
    for (name, number) in [("group_idx", 0), ("block_size", 1)] {
        rmp::encode::write_str(&mut out, name).unwrap();
        rmp::encode::write_uint(&mut out, number).unwrap();
    }
    for name in ["block_hashes", "token_ids"] {
        rmp::encode::write_str(&mut out, name).unwrap();
        rmp::encode::write_array_len(&mut out, 1).unwrap();
        rmp::encode::write_uint(&mut out, 7).unwrap();
    }
    out.into()
}

#[test]
fn no_position_is_given_where_removals_need_what_the_decoder_has_learned() {
    for (kind, is_given) in [("full_attention", true), ("sliding_window", false)] {
        let mut driver = at(3);
        let given = positions(&mut driver, |source, actions| source.live(4, group(kind), actions));
        assert_eq!(given, [is_given.then_some(4)], "{kind}");
    }
}
