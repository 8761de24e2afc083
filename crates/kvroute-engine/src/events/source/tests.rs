use kvroute_core::{EngineHash, KvEvent, ReplayOutcome, SourceState};

use super::*;

mod attempts;
mod clears;
mod contradicting_replays;
mod foreign;
mod incomplete;
mod rebuild;
mod resumed;
mod sizes;
mod started;
mod world;

const START: Duration = Duration::ZERO;

/// A batch that removes one block; its number tells messages apart.
fn payload(mark: u64, clears: bool) -> Bytes {
    let mut out = Vec::new();
    rmp::encode::write_array_len(&mut out, 2).unwrap();
    rmp::encode::write_f64(&mut out, mark as f64).unwrap();
    rmp::encode::write_array_len(&mut out, 1 + u32::from(clears)).unwrap();
    if clears {
        rmp::encode::write_array_len(&mut out, 1).unwrap();
        rmp::encode::write_str(&mut out, "AllBlocksCleared").unwrap();
    }
    rmp::encode::write_array_len(&mut out, 2).unwrap();
    rmp::encode::write_str(&mut out, "BlockRemoved").unwrap();
    rmp::encode::write_array_len(&mut out, 1).unwrap();
    rmp::encode::write_uint(&mut out, mark).unwrap();
    out.into()
}

/// A batch that stores these blocks of this many tokens, the first one at the root.
fn storing(names: &[u64], size: u32) -> Bytes {
    let tokens = names.len() as u32 * size;
    let mut out = Vec::new();
    rmp::encode::write_array_len(&mut out, 2).unwrap();
    rmp::encode::write_f64(&mut out, 1.0).unwrap();
    rmp::encode::write_array_len(&mut out, 1).unwrap();
    rmp::encode::write_array_len(&mut out, 5).unwrap();
    rmp::encode::write_str(&mut out, "BlockStored").unwrap();
    rmp::encode::write_array_len(&mut out, names.len() as u32).unwrap();
    for name in names {
        rmp::encode::write_uint(&mut out, *name).unwrap();
    }
    rmp::encode::write_nil(&mut out).unwrap();
    rmp::encode::write_array_len(&mut out, tokens).unwrap();
    for id in 0..tokens {
        rmp::encode::write_uint(&mut out, u64::from(id)).unwrap();
    }
    rmp::encode::write_uint(&mut out, u64::from(size)).unwrap();
    out.into()
}

fn mark_of(batch: &EventBatch) -> u64 {
    match batch.events.last() {
        Some(KvEvent::Removed { hashes, .. }) => match hashes[..] {
            [EngineHash::Int(mark)] => mark,
            _ => panic!("{hashes:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[derive(Debug, PartialEq)]
enum Did {
    Clear,
    Apply(u64),
    Ask(u64),
}

/// A source with short names for its inputs; every input returns what it did.
struct Driver {
    source: Source,
    incidents: Vec<SourceIncident>,
}

impl Driver {
    fn connected(has_replay: bool) -> (Self, Vec<Did>) {
        let mut driver = Self { source: Source::new(has_replay, START), incidents: Vec::new() };
        let did = driver.connect();
        (driver, did)
    }

    fn run(&mut self, input: impl FnOnce(&mut Source, &mut Vec<SourceAction>)) -> Vec<Did> {
        let mut actions = Vec::new();
        input(&mut self.source, &mut actions);
        let did = actions.into_iter().filter_map(|action| match action {
            SourceAction::Clear => Some(Did::Clear),
            SourceAction::Apply { batch, .. } => Some(Did::Apply(mark_of(&batch))),
            SourceAction::RequestReplay { from } => Some(Did::Ask(from)),
            SourceAction::Count(incident) => {
                self.incidents.push(incident);
                None
            }
        });
        did.collect()
    }

    fn connect(&mut self) -> Vec<Did> {
        self.run(Source::connected)
    }

    /// A live message whose content is its number.
    fn live(&mut self, sequence: u64) -> Vec<Did> {
        self.live_as(sequence, sequence)
    }

    fn live_as(&mut self, sequence: u64, mark: u64) -> Vec<Did> {
        self.run(|source, actions| source.live(sequence, payload(mark, false), actions))
    }

    fn replayed(&mut self, sequence: u64) -> Vec<Did> {
        self.replayed_as(sequence, sequence)
    }

    fn replayed_as(&mut self, sequence: u64, mark: u64) -> Vec<Did> {
        self.run(|source, actions| source.replayed(sequence, &payload(mark, false), actions))
    }

    fn ended(&mut self) -> Vec<Did> {
        self.run(Source::replay_ended)
    }

    fn failed(&mut self) -> Vec<Did> {
        self.run(Source::replay_failed)
    }

    fn reason(&self) -> Option<SourceReason> {
        self.source.status(START).reason
    }

    fn is_exact(&self) -> bool {
        self.source.status(START) == SourceStatus::EXACT
    }
}

/// A source that has applied messages 0 to `last`.
fn at(last: u64) -> Driver {
    let (mut driver, did) = Driver::connected(true);
    assert_eq!(did, [Did::Ask(0)]);
    assert_eq!(driver.ended(), []);
    for sequence in 0..=last {
        assert_eq!(driver.live(sequence), [Did::Apply(sequence)]);
    }
    assert!(driver.is_exact());
    driver
}

#[test]
fn a_stream_from_the_first_message_on_is_exact() {
    let (mut driver, did) = Driver::connected(false);
    assert_eq!(did, []);
    assert_eq!(driver.reason(), Some(SourceReason::NothingReceived));
    assert_eq!([driver.live(0), driver.live(1)], [[Did::Apply(0)], [Did::Apply(1)]]);
    assert!(driver.is_exact());
}

#[test]
fn a_late_join_is_filled_by_replay_from_0_while_live_messages_wait() {
    let (mut driver, _) = Driver::connected(true);
    assert_eq!(driver.live(2), []);
    assert_eq!([driver.replayed(0), driver.replayed(1)], [[Did::Apply(0)], [Did::Apply(1)]]);
    assert_eq!(driver.replayed(2), [Did::Apply(2)]);
    assert_eq!(driver.live(3), []);
    assert_eq!(driver.reason(), Some(SourceReason::CatchingUp));
    assert_eq!(driver.ended(), [Did::Apply(3)]);
    assert!(driver.is_exact());
}

#[test]
fn a_late_join_without_replay_is_degraded_until_a_clear() {
    let (mut driver, _) = Driver::connected(false);
    assert_eq!(driver.live(280), [Did::Apply(280)]);
    assert_eq!(driver.reason(), Some(SourceReason::JoinedLate));
    driver.run(|source, actions| source.live(281, payload(281, true), actions));
    assert!(driver.is_exact());
}

#[test]
fn a_gap_is_filled_by_replay() {
    let mut driver = at(3);
    assert_eq!(driver.live(6), [Did::Ask(3)]);
    assert_eq!(driver.live(7), []);
    assert_eq!(driver.replayed(3), []);
    assert_eq!([driver.replayed(4), driver.replayed(5)], [[Did::Apply(4)], [Did::Apply(5)]]);
    assert_eq!(driver.ended(), [Did::Apply(6), Did::Apply(7)]);
    assert!(driver.is_exact());
}

#[test]
fn a_gap_without_replay_clears_and_degrades() {
    let (mut driver, _) = Driver::connected(false);
    driver.live(0);
    assert_eq!(driver.live(2), [Did::Clear, Did::Apply(2)]);
    assert_eq!(driver.reason(), Some(SourceReason::EventsLost));
    assert_eq!(driver.live(3), [Did::Apply(3)]);
    assert_eq!(driver.reason(), Some(SourceReason::EventsLost));
}

#[test]
fn a_replay_that_starts_too_late_clears_and_degrades() {
    let mut driver = at(3);
    driver.live(9);
    assert_eq!(driver.replayed(6), [Did::Clear, Did::Apply(6)]);
    assert_eq!([driver.replayed(7), driver.replayed(8)], [[Did::Apply(7)], [Did::Apply(8)]]);
    assert_eq!(driver.ended(), [Did::Apply(9)]);
    assert_eq!(driver.reason(), Some(SourceReason::ReplayTooShort));
}

#[test]
fn a_replay_that_fails_clears_and_degrades() {
    let mut driver = at(3);
    driver.live(5);
    driver.replayed(3);
    assert_eq!(driver.failed(), [Did::Clear, Did::Apply(5)]);
    assert_eq!(driver.reason(), Some(SourceReason::ReplayFailed));
}

#[test]
fn a_number_that_is_not_above_the_last_live_one_is_a_restart() {
    for has_replay in [false, true] {
        for first in [0, 3] {
            let (mut driver, _) = Driver::connected(has_replay);
            driver.ended();
            (0..=3).for_each(|sequence| drop(driver.live(sequence)));
            let did = driver.live_as(first, 100 + first);
            match (first, has_replay) {
                (0, _) => assert_eq!(did, [Did::Clear, Did::Apply(100)]),
                (_, true) => assert_eq!(did, [Did::Clear, Did::Ask(0)]),
                (_, false) => assert_eq!(did, [Did::Clear, Did::Apply(103)]),
            }
            let reason = [None, Some(SourceReason::CatchingUp), Some(SourceReason::JoinedLate)];
            assert_eq!(driver.reason(), reason[if first == 0 { 0 } else { 2 - usize::from(has_replay) }]);
        }
    }
}

#[test]
fn a_restart_during_a_replay_drops_what_waited() {
    let mut driver = at(3);
    driver.live(6);
    assert_eq!(driver.live_as(0, 100), [Did::Clear, Did::Apply(100)]);
    assert_eq!((driver.replayed(4), driver.ended()), (vec![], vec![]));
    assert_eq!(driver.live_as(1, 101), [Did::Apply(101)]);
    assert!(driver.is_exact());
}

#[test]
fn a_live_message_that_a_replay_overtook_is_no_restart() {
    let (mut driver, _) = Driver::connected(true);
    (0..=5).for_each(|sequence| drop(driver.replayed(sequence)));
    driver.ended();
    assert_eq!([driver.live(4), driver.live(5)], [[], []]);
    assert_eq!(driver.live(6), [Did::Apply(6)]);
}

#[test]
fn after_a_reconnect_the_last_message_proves_the_process() {
    let mut driver = at(3);
    driver.source.disconnected(START);
    assert_eq!(driver.connect(), [Did::Ask(3)]);
    assert_eq!([driver.replayed(3), driver.ended()], [[], []]);
    assert_eq!(driver.live(4), [Did::Apply(4)]);
    assert!(driver.is_exact());
}

#[test]
fn a_restarted_engine_whose_numbers_fit_is_found_by_content() {
    let mut driver = at(3);
    driver.source.disconnected(START);
    driver.connect();
    assert_eq!(driver.live_as(4, 104), []);
    assert_eq!(driver.replayed_as(3, 103), [Did::Clear, Did::Ask(0)]);
    (0..=3).for_each(|sequence| {
        assert_eq!(driver.replayed_as(sequence, 100 + sequence), [Did::Apply(100 + sequence)]);
    });
    assert_eq!(driver.ended(), [Did::Apply(104)]);
    assert!(driver.is_exact());
}

#[test]
fn a_restart_that_a_replay_has_shown_is_counted_and_cleared_once() {
    let restarts = |driver: &Driver| {
        driver.incidents.iter().filter(|incident| **incident == SourceIncident::Restart).count()
    };
    let mut idle = at(3);
    idle.source.disconnected(START);
    idle.connect();
    assert_eq!(idle.ended(), [Did::Clear, Did::Ask(0)]);
    assert_eq!(idle.ended(), []);
    assert_eq!([idle.live_as(0, 100), idle.live_as(1, 101)], [[Did::Apply(100)], [Did::Apply(101)]]);

    let mut busy = at(3);
    busy.source.disconnected(START);
    busy.connect();
    assert_eq!(busy.live_as(5, 105), []);
    assert_eq!(busy.replayed_as(3, 103), [Did::Clear, Did::Ask(0)]);
    (0..=5).for_each(|sequence| drop(busy.replayed_as(sequence, 100 + sequence)));
    assert_eq!([busy.ended(), busy.live_as(6, 106)], [vec![], vec![Did::Apply(106)]]);

    assert_eq!([restarts(&idle), restarts(&busy)], [1, 1]);
    assert!(idle.is_exact() && busy.is_exact());
    assert_eq!(busy.live_as(2, 202), [Did::Clear, Did::Ask(0)]);
    assert_eq!(restarts(&busy), 2);
}

#[test]
fn a_restarted_engine_that_has_published_less_is_found_by_absence() {
    let mut driver = at(3);
    driver.source.disconnected(START);
    driver.connect();
    assert_eq!(driver.ended(), [Did::Clear, Did::Ask(0)]);
    assert_eq!(driver.replayed_as(0, 100), [Did::Apply(100)]);
    assert_eq!(driver.ended(), []);
    assert!(driver.is_exact());
}

#[test]
fn an_unanswered_reconnect_is_in_doubt_and_asks_again_with_the_next_message() {
    let mut driver = at(3);
    driver.source.disconnected(START);
    driver.connect();
    assert_eq!(driver.failed(), []);
    assert_eq!(driver.reason(), Some(SourceReason::Unanswered));
    assert_eq!(driver.live(4), [Did::Ask(3)]);
    assert_eq!(driver.replayed(3), []);
    assert_eq!(driver.ended(), [Did::Apply(4)]);
    assert!(driver.is_exact());
}

#[test]
fn a_reconnect_without_replay_is_in_doubt_until_the_next_message() {
    let (mut driver, _) = Driver::connected(false);
    driver.live(0);
    driver.source.disconnected(START);
    assert_eq!(driver.connect(), []);
    assert_eq!(driver.reason(), Some(SourceReason::NothingReceived));
    assert_eq!(driver.live(1), [Did::Apply(1)]);
    assert!(driver.is_exact());
}

#[test]
fn a_replay_that_is_given_up_is_no_longer_under_way() {
    let mut driver = at(3);
    driver.live(6);
    assert!(driver.source.is_catching_up());
    driver.live_as(0, 100);
    assert!(!driver.source.is_catching_up());
}

#[test]
fn a_restart_is_seen_when_only_a_replay_was_heard_before_and_none_answers_now() {
    let (mut driver, _) = Driver::connected(true);
    (0..=5).for_each(|sequence| drop(driver.replayed(sequence)));
    driver.ended();
    driver.source.disconnected(START);
    driver.connect();
    driver.failed();
    assert_eq!(driver.live_as(0, 100), [Did::Clear, Did::Apply(100)]);
}

#[test]
fn the_largest_number_is_no_overflow() {
    let (mut driver, _) = Driver::connected(false);
    driver.live(u64::MAX);
    assert_eq!(driver.live_as(u64::MAX, 1), [Did::Clear, Did::Apply(1)]);
}

#[test]
fn only_live_batches_have_an_age() {
    let (mut driver, _) = Driver::connected(true);
    let mut actions = Vec::new();
    driver.source.replayed(0, &payload(7, false), &mut actions);
    driver.source.replay_ended(&mut actions);
    driver.source.live(1, payload(8, false), &mut actions);
    let ages = actions.iter().filter_map(|action| match action {
        SourceAction::Apply { batch, .. } => Some(batch.published),
        _ => None,
    });
    assert_eq!(ages.collect::<Vec<_>>(), [None, Some(Duration::from_secs(8))]);
}

#[test]
fn a_flood_during_a_replay_is_bounded() {
    let mut driver = at(0);
    driver.live(2);
    let mut did = Vec::new();
    for sequence in 3..20_000 {
        did.extend(driver.live(sequence));
    }
    assert_eq!(did[..2], [Did::Clear, Did::Apply(2)]);
    assert_eq!(did.last(), Some(&Did::Apply(19_999)));
    assert_eq!(driver.reason(), Some(SourceReason::Flooded));
    assert_eq!(driver.replayed(1), []);
}

#[test]
fn not_connected_for_15_seconds_is_blind() {
    let mut source = Source::new(true, Duration::from_secs(100));
    let state = |source: &Source, at| source.status(Duration::from_secs(at)).state;
    assert_eq!([state(&source, 114), state(&source, 115)], [SourceState::Degraded, SourceState::Blind]);
    source.connected(&mut Vec::new());
    source.replay_ended(&mut Vec::new());
    assert_eq!(state(&source, 1000), SourceState::Exact);
    source.disconnected(Duration::from_secs(1000));
    source.disconnected(Duration::from_secs(1014));
    assert_eq!([state(&source, 1014), state(&source, 1015)], [SourceState::Degraded, SourceState::Blind]);
}
