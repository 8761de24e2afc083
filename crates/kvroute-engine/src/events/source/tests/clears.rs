//! Clears, what they mend, and what is counted.

use super::*;

#[test]
fn a_clear_that_the_engine_did_not_announce_mends_no_loss() {
    let (mut driver, _) = Driver::connected(false);
    let mut actions = Vec::new();
    driver.source.live(280, storing(&[3], 3), &mut actions);
    driver.source.live(281, storing(&[4], 4), &mut actions);
    let cleared = actions.iter().any(
        |action| matches!(action, SourceAction::Apply { batch, .. } if batch.events[0] == KvEvent::Cleared),
    );
    assert!(cleared, "{actions:?}");
    assert_eq!(driver.reason(), Some(SourceReason::JoinedLate));
}

#[test]
fn thousands_of_clears_are_one_message_each_and_change_no_state() {
    let mut driver = at(0);
    for sequence in 1..5000 {
        let did = driver.run(|source, actions| source.live(sequence, payload(sequence, true), actions));
        assert_eq!(did, [Did::Apply(sequence)]);
        assert!(driver.is_exact());
    }
    assert_eq!(driver.incidents, [SourceIncident::ReplayEnded(ReplayOutcome::Complete)]);
}

#[test]
fn what_happens_is_counted_once() {
    let (complete, short) = (ReplayOutcome::Complete, ReplayOutcome::Short);
    let mut driver = at(3);
    driver.incidents.clear();
    driver.live(6);
    (3..6).for_each(|sequence| drop(driver.replayed(sequence)));
    driver.ended();
    assert_eq!(driver.incidents, [SourceIncident::Gap, SourceIncident::ReplayEnded(complete)]);

    driver.incidents.clear();
    driver.live(10);
    driver.live(12);
    driver.replayed(9);
    driver.replayed(10);
    driver.replayed(11);
    driver.ended();
    let counted = [SourceIncident::Gap, SourceIncident::Gap, SourceIncident::Missed(2)];
    assert_eq!(driver.incidents, [&counted[..], &[SourceIncident::ReplayEnded(short)]].concat());

    driver.incidents.clear();
    driver.live(20);
    driver.failed();
    let failed = SourceIncident::ReplayEnded(ReplayOutcome::Failed);
    assert_eq!(driver.incidents, [SourceIncident::Gap, failed, SourceIncident::Missed(7)]);

    driver.incidents.clear();
    driver.live_as(0, 100);
    driver.source.disconnected(START);
    driver.connect();
    driver.replayed_as(0, 200);
    assert_eq!(driver.incidents, [SourceIncident::Restart, SourceIncident::Restart]);
}

#[test]
fn every_reason_names_what_helps() {
    let with_flag = [
        SourceReason::NothingReceived,
        SourceReason::JoinedLate,
        SourceReason::EventsLost,
        SourceReason::ReplayTooShort,
        SourceReason::ReplayFailed,
        SourceReason::NotConnected,
        SourceReason::Unanswered,
        SourceReason::Restored,
        SourceReason::Silent,
        SourceReason::Contradicted,
        SourceReason::ReplayContradictsItself,
        SourceReason::ReplayOfAnother,
    ];
    for reason in with_flag {
        assert!(reason.to_string().contains("--kv-events-config"), "{reason}");
    }
    for reason in [SourceReason::NothingPolled, SourceReason::EventsTaken, SourceReason::Silent] {
        let text = reason.to_string();
        assert!(text.contains("event_buffer_max_size") && text.contains("kv_cache_config"), "{text}");
    }
}
