//! How often a replay that leaves a gap is asked for again.

use super::*;

#[test]
fn a_replay_that_never_closes_the_gap_is_given_up() {
    let mut driver = at(3);
    assert_eq!(driver.live(5), [Did::Ask(3)]);
    assert_eq!(driver.ended(), [Did::Ask(3)]);
    assert_eq!(driver.ended(), [Did::Ask(3)]);
    assert_eq!(driver.ended(), [Did::Clear, Did::Apply(5)]);
    assert_eq!(driver.reason(), Some(SourceReason::ReplayTooShort));
}

#[test]
fn each_replay_that_brings_something_leaves_room_for_the_next_gap() {
    let mut driver = at(0);
    assert_eq!(driver.live(2), [Did::Ask(0)]);
    for gap in 1..20 {
        assert_eq!(driver.live(2 * gap + 2), []);
        assert_eq!(driver.replayed(2 * gap - 1), [Did::Apply(2 * gap - 1)]);
        assert_eq!(driver.ended(), [Did::Apply(2 * gap), Did::Ask(2 * gap)]);
    }
    assert_eq!(driver.replayed(39), [Did::Apply(39)]);
    assert_eq!(driver.ended(), [Did::Apply(40)]);
    assert!(driver.is_exact());
}

#[test]
fn a_last_attempt_that_brings_something_is_not_the_last() {
    let mut driver = at(0);
    driver.live(2);
    driver.live(4);
    assert_eq!([driver.ended(), driver.ended()], [[Did::Ask(0)], [Did::Ask(0)]]);
    assert_eq!(driver.replayed(1), [Did::Apply(1)]);
    assert_eq!(driver.ended(), [Did::Apply(2), Did::Ask(2)]);
    assert_eq!([driver.replayed(3), driver.ended()], [[Did::Apply(3)], [Did::Apply(4)]]);
    assert!(driver.is_exact());
}

#[test]
fn a_new_process_is_asked_as_often_as_any() {
    let mut driver = at(3);
    driver.live(6);
    assert_eq!([driver.ended(), driver.ended()], [[Did::Ask(3)], [Did::Ask(3)]]);
    assert_eq!(driver.replayed_as(3, 103), [Did::Clear, Did::Ask(0)]);
    assert_eq!([driver.ended(), driver.ended()], [[Did::Ask(0)], [Did::Ask(0)]]);
    assert_eq!(driver.ended(), [Did::Apply(6)]);
}
