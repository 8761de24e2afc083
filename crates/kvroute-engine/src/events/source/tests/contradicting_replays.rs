//! A replay socket that says something else about the same messages each time.

use super::*;

impl Driver {
    /// Answers with the messages from a number on, of contents that never came before.
    fn lie(&mut self, from: u64, content: &mut u64) -> Vec<Did> {
        let mut did = Vec::new();
        for sequence in from..from + 3 {
            *content += 1;
            did.extend(self.replayed_as(sequence, *content));
            if !self.source.is_catching_up() || did.last() == Some(&Did::Ask(0)) {
                return did;
            }
        }
        did.extend(self.ended());
        did
    }

    /// Lies for as long as it is asked, and counts the questions.
    fn lie_while_asked(&mut self, mut did: Vec<Did>, content: &mut u64) -> usize {
        let mut questions = 0;
        while let Some(Did::Ask(from)) = did.last() {
            questions += 1;
            assert!(questions < 100, "asked for ever");
            did = self.lie(*from, content);
        }
        questions
    }

    fn wait_for_question(&mut self, now: &mut u64) -> Vec<Did> {
        loop {
            *now += 1;
            assert!(*now < 100_000, "never asked again");
            let did = self.run(|source, actions| source.tick(Duration::from_secs(*now), actions));
            if !did.is_empty() {
                return did;
            }
        }
    }
}

/// A source that has met such a socket at a gap.
fn deceived(content: &mut u64) -> Driver {
    let mut driver = at(3);
    driver.incidents.clear();
    let did = driver.live(50);
    assert!(driver.lie_while_asked(did, content) < 10);
    driver
}

#[test]
fn it_is_given_up_with_its_reason_and_the_live_messages_count() {
    let mut driver = deceived(&mut 1000);
    assert_eq!(driver.reason(), Some(SourceReason::ReplayContradictsItself));
    let restarts = driver.incidents.iter().filter(|incident| **incident == SourceIncident::Restart);
    assert_eq!(restarts.count(), 2);
    let failed = SourceIncident::ReplayEnded(ReplayOutcome::Failed);
    assert_eq!(driver.incidents.iter().filter(|incident| **incident == failed).count(), 1);
    assert_eq!(driver.live(51), [Did::Apply(51)]);
    assert_eq!(driver.live(60), [Did::Clear, Did::Apply(60)]);
    assert_eq!(driver.reason(), Some(SourceReason::ReplayContradictsItself));
    assert_eq!(driver.source.position(), None);
}

#[test]
fn it_is_asked_ever_more_rarely() {
    let mut content = 1000;
    let mut driver = deceived(&mut content);
    let (mut now, mut waits) = (0, Vec::new());
    for _ in 0..9 {
        driver.live(driver.source.last_live.unwrap() + 10);
        let start = now;
        let did = driver.wait_for_question(&mut now);
        waits.push(now - start);
        assert!(driver.lie_while_asked(did, &mut content) <= 2);
        assert_eq!(driver.reason(), Some(SourceReason::ReplayContradictsItself));
    }
    assert!(waits.windows(2).all(|pair| pair[0] <= pair[1]), "{waits:?}");
    assert!(waits[8] >= 600, "{waits:?}");
}

#[test]
fn honest_answers_in_between_do_not_make_it_faster() {
    let mut content = 1000;
    let mut driver = deceived(&mut content);
    let (mut now, mut waits) = (0, Vec::new());
    for _ in 0..8 {
        let start = now;
        assert_eq!(driver.wait_for_question(&mut now), [Did::Ask(0)]);
        waits.push(now - start);
        let last = driver.source.last_live.unwrap();
        (0..=last).for_each(|sequence| drop(driver.replayed(sequence)));
        driver.ended();
        assert!(driver.is_exact());
        assert_eq!(driver.live(last + 2), [Did::Ask(last)]);
        content += 1;
        driver.replayed_as(last, content);
    }
    assert!(waits[1..].windows(2).all(|pair| pair[0] < pair[1] || pair[1] >= 600), "{waits:?}");
    assert!(waits[7] >= 600, "{waits:?}");
}

#[test]
fn what_it_brought_goes_though_no_live_message_waits() {
    let mut driver = deceived(&mut 1000);
    assert_eq!(driver.wait_for_question(&mut 0), [Did::Ask(0)]);
    assert_eq!(driver.replayed_as(0, 5000), [Did::Clear, Did::Apply(5000)]);
    assert_eq!(driver.ended(), [Did::Clear]);
    assert_eq!(driver.reason(), Some(SourceReason::ReplayContradictsItself));
}

#[test]
fn a_new_connection_and_an_honest_answer_to_everything_restore_trust() {
    let mut content = 1000;
    let mut reconnected = deceived(&mut content);
    reconnected.source.disconnected(START);
    assert_eq!(reconnected.connect(), [Did::Ask(50)]);
    assert_eq!(reconnected.replayed_as(50, 5000), [Did::Clear, Did::Ask(0)]);
    assert_eq!(reconnected.replayed_as(0, 5001), [Did::Apply(5001)]);
    assert_eq!(reconnected.ended(), []);
    assert_eq!(reconnected.live(60), [Did::Ask(0)]);

    let mut confirmed = deceived(&mut content);
    confirmed.source.disconnected(START);
    confirmed.connect();
    assert_eq!([confirmed.replayed(50), confirmed.ended()], [[], []]);
    assert_eq!(confirmed.live(60), [Did::Ask(50)]);

    let mut rebuilt = deceived(&mut content);
    assert_eq!(rebuilt.wait_for_question(&mut 0), [Did::Ask(0)]);
    assert_eq!(rebuilt.replayed(0), [Did::Clear, Did::Apply(0)]);
    (1..=50).for_each(|sequence| assert_eq!(rebuilt.replayed(sequence), [Did::Apply(sequence)]));
    assert_eq!(rebuilt.ended(), []);
    assert!(rebuilt.is_exact());
    assert_eq!(rebuilt.live(52), [Did::Ask(50)]);
}

#[test]
fn two_restarts_that_something_in_between_hides_are_still_believed() {
    let mut driver = at(3);
    for process in [100, 200] {
        driver.live(driver.source.last_live.unwrap() + 2);
        assert_eq!(
            driver.replayed_as(driver.source.last_sequence().unwrap(), process)[..],
            [Did::Clear, Did::Ask(0)]
        );
        let until = driver.source.last_live.unwrap();
        (0..until).for_each(|sequence| drop(driver.replayed_as(sequence, process + sequence)));
        assert_eq!(driver.ended(), [Did::Apply(until)]);
        assert!(driver.is_exact());
    }
}
