//! The engine's own word about its start, for engines whose messages cannot be asked for again.

use super::*;

impl Driver {
    fn reconnect_and_ask(&mut self) -> Vec<Did> {
        self.source.disconnected(START);
        let did = self.connect();
        self.source.await_start();
        did
    }

    fn started(&mut self, seconds: u64) -> Vec<Did> {
        self.run(|source, actions| source.started(Some(Duration::from_secs(seconds)), actions))
    }

    fn restarts(&self) -> usize {
        self.incidents.iter().filter(|incident| **incident == SourceIncident::Restart).count()
    }
}

/// Without a replay socket, messages 0 to 3 applied, start known to be at 100 s.
fn known() -> Driver {
    let (mut driver, _) = Driver::connected(false);
    driver.source.await_start();
    (0..=3).for_each(|sequence| drop(driver.live(sequence)));
    assert_eq!(driver.started(100), []);
    assert!(driver.is_exact());
    driver
}

#[test]
fn the_same_start_lets_the_next_number_continue() {
    let mut driver = known();
    assert_eq!(driver.reconnect_and_ask(), []);
    assert_eq!(driver.reason(), Some(SourceReason::Unidentified));
    assert_eq!(driver.live(4), []);
    assert_eq!(driver.started(101), [Did::Apply(4)]);
    assert!(driver.is_exact());
}

#[test]
fn another_start_is_a_restart_that_the_next_number_in_line_does_not_show() {
    let mut driver = known();
    driver.reconnect_and_ask();
    assert_eq!([driver.live_as(4, 104), driver.live_as(5, 105)], [[], []]);
    assert_eq!(driver.started(200), [Did::Clear, Did::Apply(104), Did::Apply(105)]);
    assert_eq!(driver.reason(), Some(SourceReason::JoinedLate));
    assert_eq!(driver.live_as(6, 106), [Did::Apply(106)]);
    assert_eq!(driver.restarts(), 1);
}

#[test]
fn an_idle_restarted_engine_is_cleared_at_once() {
    let mut driver = known();
    driver.reconnect_and_ask();
    assert_eq!(driver.started(200), [Did::Clear]);
    assert_eq!(driver.reason(), Some(SourceReason::NothingReceived));
    assert_eq!(driver.live_as(0, 100), [Did::Apply(100)]);
    assert!(driver.is_exact());
    assert_eq!(driver.restarts(), 1);
}

#[test]
fn a_restart_that_the_numbers_show_first_is_counted_once() {
    let mut driver = known();
    driver.reconnect_and_ask();
    assert_eq!(driver.live_as(0, 100), [Did::Clear, Did::Apply(100)]);
    assert_eq!(driver.started(200), []);
    assert!(driver.is_exact());
    assert_eq!(driver.restarts(), 1);
}

#[test]
fn an_engine_that_does_not_tell_is_followed_by_its_numbers() {
    let mut driver = known();
    driver.reconnect_and_ask();
    driver.live(4);
    assert_eq!(driver.run(|source, actions| source.started(None, actions)), [Did::Apply(4)]);
    assert!(driver.is_exact());
}

#[test]
fn a_flood_does_not_wait_for_ever() {
    let mut driver = known();
    driver.reconnect_and_ask();
    let did: Vec<_> = (4..10_010).flat_map(|sequence| driver.live(sequence)).collect();
    assert_eq!((did.first(), did.len()), (Some(&Did::Apply(4)), 10_006));
}

#[test]
fn where_the_last_message_was_proved_the_start_does_not_matter() {
    let mut driver = at(3);
    driver.started(100);
    assert_eq!(driver.reconnect_and_ask(), [Did::Ask(3)]);
    driver.replayed(3);
    driver.ended();
    assert_eq!(driver.started(200), []);
    assert!(driver.is_exact());
}

#[test]
fn where_no_replay_answers_another_start_asks_from_0() {
    let mut driver = at(3);
    driver.started(100);
    driver.reconnect_and_ask();
    driver.failed();
    assert_eq!(driver.reason(), Some(SourceReason::Unanswered));
    assert_eq!(driver.started(200), [Did::Clear, Did::Ask(0)]);
}
