use kvroute_core::SequenceHash;

use super::*;

fn teach(history: &History, hashes: std::ops::Range<u64>) {
    history.teach(&hashes.map(SequenceHash::from_raw).collect::<Vec<_>>());
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn nothing_has_no_age() {
    let history = History::new(0, 1);
    let mut ages = Ages::default();
    assert_eq!(ages.oldest(seconds(5), &history), None);
    ages.mark(seconds(5), history.taught());
    assert_eq!(ages.oldest(seconds(9), &history), None);
    teach(&history, 0..1);
    assert_eq!(ages.oldest(seconds(9), &history), Some(seconds(4)));
}

#[test]
fn the_oldest_entry_is_as_old_as_the_marks_around_it_say() {
    let history = History::new(0, 1);
    assert_eq!(history.capacity().get(), 10);
    let mut ages = Ages::default();
    for minute in 0..10 {
        ages.mark(seconds(60 * minute), history.taught());
        teach(&history, 4 * minute..4 * minute + 4);
    }
    // Of 40 taught the 31st is the oldest: between the 28 of minute 7 and the 32 of minute 8.
    assert_eq!(ages.oldest(seconds(600), &history), Some(seconds(600 - 450)));
}

#[test]
fn a_rate_needs_two_marks_within_its_window() {
    let mut ages = Ages::default();
    assert_eq!(ages.rate(seconds(60)), None);
    ages.mark(seconds(0), 0);
    assert_eq!(ages.rate(seconds(60)), None);
    ages.mark(seconds(100), 1000);
    ages.mark(seconds(110), 1020);
    assert_eq!(ages.rate(seconds(60)), Some(2.0));
    assert_eq!(ages.rate(seconds(5)), None);
    assert_eq!(ages.rate(seconds(110)), Some(1020.0 / 110.0));
}

#[test]
fn marks_are_few_and_still_tell_the_age_of_what_is_long_ago() {
    let history = History::new(2_000_000, 1);
    let mut ages = Ages::default();
    for second in 0..100_000 {
        ages.mark(seconds(second), history.taught());
        teach(&history, second..second + 1);
        assert!(ages.marks.len() <= MOST);
    }
    assert_eq!(ages.oldest(seconds(100_000), &history), Some(seconds(100_000)));
    let last = ages.marks[ages.marks.len() - 1];
    assert_eq!((last.seconds, last.taught), (99_999.0, 99_999));
}

#[test]
fn after_a_clear_only_later_marks_count() {
    let history = History::new(0, 1);
    let mut ages = Ages::default();
    teach(&history, 0..9);
    ages.mark(seconds(10), history.taught());
    history.clear();
    ages.mark(seconds(20), history.taught());
    teach(&history, 0..2);
    assert_eq!(ages.oldest(seconds(50), &history), Some(seconds(30)));
}

#[test]
fn ages_go_on_behind_a_restart() {
    let before = History::new(0, 1);
    let mut ages = Ages::default();
    for second in 0..30 {
        ages.mark(seconds(100 + second), before.taught());
        teach(&before, second..second + 1);
    }
    assert_eq!(ages.oldest(seconds(130), &before), Some(seconds(10)));
    let saved = ages.save(seconds(130), &before);
    // Ten of thirty are left, and the process is a new one, whose clock begins at zero.
    let after = History::new(0, 2);
    teach(&after, 20..30);
    let restored = Ages::restore(&saved, seconds(1000), seconds(3), &after);
    assert_eq!(restored.oldest(seconds(3), &after), Some(seconds(1010)));
}

#[test]
fn made_up_marks_are_no_reason_to_fail() {
    let history = History::new(0, 1);
    teach(&history, 0..5);
    let mark = |age, taught_since| AgeMark { age: Duration::from_nanos(age), taught_since };
    let saved = [mark(u64::MAX, u64::MAX), mark(0, 0), mark(u64::MAX, 1), mark(5, u64::MAX)];
    let ages = Ages::restore(&saved, Duration::MAX, Duration::ZERO, &history);
    assert!(ages.oldest(Duration::ZERO, &history).is_some());
}
