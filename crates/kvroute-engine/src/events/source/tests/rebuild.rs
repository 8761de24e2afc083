//! Losses that were not the engine's: everything is asked for once more.

use super::*;

impl Driver {
    fn tick(&mut self, seconds: u64) -> Vec<Did> {
        self.run(|source, actions| source.tick(Duration::from_secs(seconds), actions))
    }
}

/// Messages 0 to 3 were applied, 4 was lost and could not be fetched, 5 is applied; told of the time at 100 s.
fn lossy() -> Driver {
    let mut driver = at(3);
    driver.live(5);
    assert_eq!(driver.failed(), [Did::Clear, Did::Apply(5)]);
    assert_eq!(driver.tick(100), []);
    driver
}

#[test]
fn ten_seconds_after_a_failed_replay_everything_is_asked_for_and_replaces_what_is_known() {
    let mut driver = lossy();
    assert_eq!(driver.tick(109), []);
    assert_eq!(driver.tick(110), [Did::Ask(0)]);
    assert_eq!(driver.reason(), Some(SourceReason::CatchingUp));
    assert_eq!(driver.live(6), []);
    assert_eq!(driver.replayed(0), [Did::Clear, Did::Apply(0)]);
    (1..=5).for_each(|sequence| assert_eq!(driver.replayed(sequence), [Did::Apply(sequence)]));
    assert_eq!(driver.ended(), [Did::Apply(6)]);
    assert!(driver.is_exact());
    assert_eq!(driver.tick(100_000), []);
}

#[test]
fn an_answer_without_the_first_message_takes_nothing_away_and_is_the_last() {
    let mut driver = lossy();
    driver.tick(110);
    assert_eq!(
        [driver.replayed(2), driver.replayed(5), driver.replayed(6)],
        [vec![], vec![], vec![Did::Apply(6)]]
    );
    assert_eq!(driver.ended(), []);
    assert_eq!(driver.reason(), Some(SourceReason::ReplayTooShort));
    assert_eq!([driver.tick(1_000), driver.tick(100_000)], [[], []]);

    let mut driver = lossy();
    driver.tick(110);
    assert_eq!(driver.ended(), []);
    assert_eq!([driver.tick(1_000), driver.tick(100_000)], [[], []]);
}

#[test]
fn each_failure_doubles_the_wait_up_to_ten_minutes() {
    let mut driver = lossy();
    let (mut now, mut waits) = (100, Vec::new());
    for _ in 0..8 {
        driver.tick(now);
        let start = now;
        while driver.tick(now) != [Did::Ask(0)] {
            now += 1;
        }
        waits.push(now - start);
        assert_eq!(driver.failed(), []);
    }
    assert_eq!(waits, [10, 20, 40, 80, 160, 320, 600, 600]);
}

#[test]
fn a_clear_or_a_restart_makes_it_needless() {
    let mut cleared = lossy();
    cleared.run(|source, actions| source.live(6, payload(6, true), actions));
    assert!(cleared.is_exact());
    let mut restarted = lossy();
    restarted.live_as(0, 100);
    assert!(restarted.is_exact());
    for mut driver in [cleared, restarted] {
        assert_eq!([driver.tick(1_000), driver.tick(100_000)], [[], []]);
    }
}

#[test]
fn it_waits_for_a_connection_and_for_another_replay() {
    let mut driver = lossy();
    driver.source.disconnected(START);
    assert_eq!(driver.tick(1_000), []);
    assert_eq!(driver.connect(), [Did::Ask(5)]);
    assert_eq!(driver.tick(2_000), []);
    driver.replayed(5);
    driver.ended();
    assert_eq!(driver.tick(3_000), [Did::Ask(0)]);
}

#[test]
fn a_flood_is_made_up_for_too() {
    let mut driver = at(0);
    driver.live(2);
    (3..20_000).for_each(|sequence| drop(driver.live(sequence)));
    assert_eq!(driver.reason(), Some(SourceReason::Flooded));
    driver.tick(100);
    assert_eq!(driver.tick(200), [Did::Ask(0)]);
}

#[test]
fn what_the_engine_lost_is_not_asked_for_again() {
    let mut driver = at(3);
    driver.live(9);
    (6..9).for_each(|sequence| drop(driver.replayed(sequence)));
    driver.ended();
    assert_eq!(driver.reason(), Some(SourceReason::ReplayTooShort));
    assert_eq!([driver.tick(100), driver.tick(100_000)], [[], []]);
}
