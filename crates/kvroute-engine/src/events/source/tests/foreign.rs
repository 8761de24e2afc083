//! A replay socket that is another engine's.

use proptest::prelude::*;

use super::*;

const OTHER: u64 = 1_000_000;

/// A source that took messages 0 to `last` from another engine's replay.
fn deceived(last: u64) -> Driver {
    let (mut driver, _) = Driver::connected(true);
    for sequence in 0..=last {
        assert_eq!(driver.replayed_as(sequence, OTHER + sequence), [Did::Apply(OTHER + sequence)]);
    }
    driver.ended();
    assert!(driver.is_exact());
    driver
}

#[test]
fn a_live_message_of_other_content_proves_it_and_live_messages_alone_count() {
    let mut driver = deceived(999);
    assert_eq!(driver.live(0), [Did::Clear, Did::Apply(0)]);
    assert!(driver.is_exact() && driver.source.has_foreign_replay());
    assert_eq!(driver.live(1), [Did::Apply(1)]);
    assert_eq!(driver.live(5), [Did::Clear, Did::Apply(5)]);
    assert_eq!(driver.reason(), Some(SourceReason::ReplayOfAnother));
    for seconds in [100, 10_000] {
        assert_eq!(driver.run(|source, actions| source.tick(Duration::from_secs(seconds), actions)), []);
    }

    let mut late = deceived(999);
    assert_eq!(late.live(700), [Did::Clear, Did::Apply(700)]);
    assert_eq!(late.reason(), Some(SourceReason::ReplayOfAnother));
    let text = SourceReason::ReplayOfAnother.to_string();
    assert!(text.contains("kv_replay") && text.contains("replay_endpoint"), "{text}");
}

#[test]
fn messages_that_waited_prove_it_at_the_end_of_the_answer() {
    let (mut driver, _) = Driver::connected(true);
    (0..3).for_each(|sequence| assert_eq!(driver.live(sequence), []));
    (0..9).for_each(|sequence| drop(driver.replayed_as(sequence, OTHER + sequence)));
    assert_eq!(driver.ended(), [Did::Clear, Did::Apply(0), Did::Apply(1), Did::Apply(2)]);
    assert_eq!(driver.live(3), [Did::Apply(3)]);
}

#[test]
fn a_gap_among_what_waited_is_not_asked_for_where_the_answer_was_another_engines() {
    let (mut driver, _) = Driver::connected(true);
    [3, 4, 9].into_iter().for_each(|sequence| assert_eq!(driver.live(sequence), []));
    (0..6).for_each(|sequence| drop(driver.replayed_as(sequence, OTHER + sequence)));
    let until_gap = [Did::Clear, Did::Apply(3), Did::Apply(4)];
    let behind_it = [Did::Clear, Did::Apply(9)];
    assert_eq!(driver.ended(), until_gap.into_iter().chain(behind_it).collect::<Vec<_>>());
    assert_eq!(driver.reason(), Some(SourceReason::ReplayOfAnother));
}

#[test]
fn it_is_not_asked_for_everything_whatever_else_is_lost() {
    let mut driver = deceived(9);
    (0..5).for_each(|sequence| drop(driver.live(sequence)));
    driver.source.disconnected(START);
    driver.connect();
    driver.failed();
    assert_eq!(driver.live(9), [Did::Ask(4)]);
    assert_eq!(driver.failed(), [Did::Clear, Did::Apply(9)]);
    let size = |tokens| kvroute_core::BlockSize::new(tokens).unwrap();
    let overruled = SourceReason::BlockSizeOverruled { before: size(16), now: size(32) };
    assert!(at(3).source.rebuild_after(overruled).is_some());
    assert_eq!(driver.source.rebuild_after(overruled), None);
    for seconds in [100, 10_000] {
        assert_eq!(driver.run(|source, actions| source.tick(Duration::from_secs(seconds), actions)), []);
    }
}

#[test]
fn a_message_that_proves_it_during_an_answer_ends_that() {
    let (mut driver, _) = Driver::connected(true);
    (0..3).for_each(|sequence| assert_eq!(driver.live(sequence), []));
    (0..9).for_each(|sequence| drop(driver.replayed_as(sequence, OTHER + sequence)));
    let applied = [Did::Apply(0), Did::Apply(1), Did::Apply(2), Did::Apply(3)];
    let mut expected = vec![Did::Clear];
    expected.extend(applied);
    assert_eq!(driver.live(3), expected);
    assert!(!driver.source.is_catching_up());
}

#[test]
fn a_new_connection_does_not_believe_it_again() {
    let mut driver = deceived(9);
    (0..5).for_each(|sequence| drop(driver.live(sequence)));
    driver.source.disconnected(START);
    assert_eq!(driver.connect(), [Did::Ask(4)]);
    assert_eq!(driver.replayed_as(4, OTHER + 4), [Did::Clear]);
    assert_eq!(driver.reason(), Some(SourceReason::ReplayOfAnother));
    assert_eq!(driver.live(5), [Did::Apply(5)]);

    driver.source.disconnected(START);
    assert_eq!(driver.connect(), [Did::Ask(5)]);
    assert_eq!(driver.ended(), [Did::Clear]);
    assert_eq!(driver.reason(), Some(SourceReason::ReplayOfAnother));
    assert_eq!(driver.live(6), [Did::Apply(6)]);

    // The address was another one's for a while, and is the engine's own now.
    driver.source.disconnected(START);
    assert_eq!(driver.connect(), [Did::Ask(6)]);
    assert_eq!([driver.replayed(6), driver.ended()], [[], []]);
    assert!(!driver.source.has_foreign_replay());
    assert_eq!(driver.live(9), [Did::Ask(6)]);
}

#[test]
fn what_a_replay_overtook_proves_nothing_if_it_is_the_same() {
    let (mut driver, _) = Driver::connected(true);
    (0..=5).for_each(|sequence| drop(driver.replayed(sequence)));
    driver.ended();
    (0..=6).for_each(|sequence| drop(driver.live(sequence)));
    assert_eq!(driver.source.last_sequence(), Some(6));
    assert!(driver.is_exact());
}

#[test]
fn what_is_remembered_of_an_answer_is_bounded() {
    let (mut driver, _) = Driver::connected(true);
    (0..40_000).for_each(|sequence| drop(driver.replayed(sequence)));
    driver.ended();
    assert_eq!(driver.live_as(30_000, OTHER), [Did::Clear, Did::Apply(OTHER)]);

    let (mut driver, _) = Driver::connected(true);
    (0..40_000).for_each(|sequence| drop(driver.replayed(sequence)));
    driver.ended();
    assert_eq!(driver.live_as(10_000, OTHER), []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn once_a_number_has_come_both_ways_nothing_of_the_other_engine_is_known(
        replayed in 1..20_u64,
        lives in prop::collection::vec((1..4_u64, any::<bool>()), 1..20),
    ) {
        let (mut driver, _) = Driver::connected(true);
        let (mut known, mut next, mut number) = (Vec::new(), 0, 0);
        let mut is_proved = false;
        for (step, answers_first) in lives {
            number += step;
            if answers_first && next < replayed {
                take(&mut known, driver.replayed_as(next, OTHER + next));
                next += 1;
                if next == replayed {
                    take(&mut known, driver.ended());
                }
            }
            take(&mut known, driver.live(number));
            is_proved |= number < next;
        }
        while driver.source.is_catching_up() {
            let did = if next < replayed { driver.replayed_as(next, OTHER + next) } else { driver.ended() };
            take(&mut known, did);
            next += 1;
        }
        is_proved &= driver.source.has_foreign_replay();
        prop_assert!(!is_proved || known.iter().all(|mark| *mark < OTHER), "{:?}", known);
        prop_assert!(known.windows(2).all(|pair| pair[0] + 1 == pair[1] || pair[0] >= OTHER), "{:?}", known);
    }
}

fn take(known: &mut Vec<u64>, did: Vec<Did>) {
    for did in did {
        match did {
            Did::Clear => known.clear(),
            Did::Apply(mark) => known.push(mark),
            Did::Ask(_) => {}
        }
    }
}
