//! Answers of which a part is lost on the way.

use super::*;

const FAILED: SourceIncident = SourceIncident::ReplayEnded(ReplayOutcome::Failed);

impl Driver {
    fn broke_off(&mut self) -> Vec<Did> {
        self.run(Source::replay_broke_off)
    }
}

#[test]
fn a_gap_within_an_answer_is_asked_for_again_and_what_came_before_it_stays() {
    let (mut driver, _) = Driver::connected(true);
    assert_eq!([driver.replayed(0), driver.replayed(1)], [[Did::Apply(0)], [Did::Apply(1)]]);
    assert_eq!(driver.replayed(5), [Did::Ask(1)]);
    assert_eq!(driver.reason(), Some(SourceReason::CatchingUp));
    assert_eq!(driver.replayed(1), []);
    (2..=5).for_each(|sequence| assert_eq!(driver.replayed(sequence), [Did::Apply(sequence)]));
    assert_eq!(driver.ended(), []);
    assert!(driver.is_exact());
    let complete = SourceIncident::ReplayEnded(ReplayOutcome::Complete);
    assert_eq!(driver.incidents, [FAILED, complete]);
}

#[test]
fn live_messages_wait_while_the_rest_is_asked_for() {
    let mut driver = at(3);
    assert_eq!(driver.live(9), [Did::Ask(3)]);
    assert_eq!([driver.replayed(3), driver.replayed(4)], [vec![], vec![Did::Apply(4)]]);
    assert_eq!(driver.replayed(7), [Did::Ask(4)]);
    (5..=8).for_each(|sequence| assert_eq!(driver.replayed(sequence), [Did::Apply(sequence)]));
    assert_eq!(driver.ended(), [Did::Apply(9)]);
    assert!(driver.is_exact());
}

#[test]
fn an_answer_that_breaks_off_is_asked_for_its_rest_if_it_brought_anything() {
    let (mut driver, _) = Driver::connected(true);
    driver.replayed(0);
    assert_eq!(driver.broke_off(), [Did::Ask(0)]);
    driver.replayed(0);
    assert_eq!(driver.broke_off(), []);
    assert_eq!(driver.reason(), Some(SourceReason::ReplayFailed));
    assert_eq!(driver.live(1), [Did::Apply(1)]);
    assert!(driver.is_exact());
}

#[test]
fn a_gap_that_is_there_each_time_is_given_up_by_its_own_name_and_tried_again_later() {
    let (mut driver, _) = Driver::connected(true);
    driver.replayed(0);
    for _ in 0..2 {
        assert_eq!(driver.replayed(2), [Did::Ask(0)]);
        driver.replayed(0);
    }
    assert_eq!(driver.replayed(2), [Did::Ask(0)]);
    driver.replayed(0);
    assert_eq!(driver.replayed(2), []);
    assert_eq!(driver.reason(), Some(SourceReason::ReplayLossy));
    driver.run(|source, actions| source.tick(Duration::from_secs(100), actions));
    let asked = driver.run(|source, actions| source.tick(Duration::from_secs(200), actions));
    assert_eq!(asked, [Did::Ask(0)]);

    let mut gap = at(0);
    gap.live(9);
    for _ in 0..2 {
        gap.replayed(0);
        assert_eq!(gap.replayed(2), [Did::Ask(0)]);
    }
    gap.replayed(0);
    assert_eq!(gap.replayed(2), [Did::Clear, Did::Apply(9)]);
    assert_eq!(gap.reason(), Some(SourceReason::ReplayLossy));
}

#[test]
fn answers_that_bring_next_to_nothing_are_not_asked_for_without_end() {
    for (brings, is_endless) in [(1, false), (100, true)] {
        let (mut driver, _) = Driver::connected(true);
        let (mut next, mut questions) = (0, 0);
        while driver.source.is_catching_up() && questions < 200 {
            for sequence in next..next + brings {
                driver.replayed(sequence);
            }
            next += brings;
            driver.replayed(next + 5);
            questions += 1;
        }
        assert_eq!(questions == 200, is_endless, "{questions} questions");
    }
}

#[test]
fn a_number_far_away_earns_no_further_question() {
    let (mut driver, _) = Driver::connected(true);
    driver.replayed(1 << 60);
    let mut questions = 0;
    let mut next = (1 << 60) + 1;
    while driver.source.is_catching_up() && questions < 200 {
        driver.replayed(next);
        driver.replayed(next + 5);
        next += 1;
        questions += 1;
    }
    assert!(questions < 20, "{questions} questions");
}

#[test]
fn an_engine_that_forgot_is_still_named_when_a_part_is_lost_too() {
    let mut driver = at(3);
    driver.live(20);
    assert_eq!(driver.replayed(10), [Did::Clear, Did::Apply(10)]);
    assert_eq!(driver.replayed(15), [Did::Ask(10)]);
    (11..20).for_each(|sequence| drop(driver.replayed(sequence)));
    driver.incidents.clear();
    assert_eq!(driver.ended(), [Did::Apply(20)]);
    assert_eq!(driver.incidents, [SourceIncident::ReplayEnded(ReplayOutcome::Short)]);
    assert_eq!(driver.reason(), Some(SourceReason::ReplayTooShort));
}

#[test]
fn an_attempt_to_rebuild_outlives_the_loss_of_a_part() {
    let mut driver = at(3);
    driver.live(5);
    driver.failed();
    driver.run(|source, actions| source.tick(Duration::from_secs(100), actions));
    driver.run(|source, actions| source.tick(Duration::from_secs(200), actions));
    assert_eq!(driver.replayed(0), [Did::Clear, Did::Apply(0)]);
    assert_eq!(driver.replayed(3), [Did::Ask(0)]);
    (1..=4).for_each(|sequence| drop(driver.replayed(sequence)));
    // Message 5 was known before: an answer without it is another process's.
    assert_eq!(driver.ended(), [Did::Clear, Did::Ask(0)]);
}
