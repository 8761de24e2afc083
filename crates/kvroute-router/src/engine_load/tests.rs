//! What is believed of an engine's word over time, and what is said while it does not answer.

mod asking;

use proptest::prelude::*;

use super::*;

const INTERVAL: Duration = Duration::from_secs(2);

fn told(capacity: Option<u64>) -> ToldLoad {
    ToldLoad::new(INTERVAL, capacity.map(Blocks::new))
}

fn load(running: u64, waiting: u64, kv_usage: Option<f64>) -> EngineLoad {
    EngineLoad { running, waiting, kv_usage }
}

fn foreign(requests: u64, blocks: u64) -> ForeignLoad {
    ForeignLoad { requests, blocks: Blocks::new(blocks) }
}

#[test]
fn before_the_first_word_there_is_no_load_and_its_age_is_the_time_of_waiting() {
    let told = told(Some(100));
    let later = told.since + Duration::from_secs(60);
    assert_eq!(told.foreign(told.since), ForeignLoad::default());
    assert_eq!(told.foreign(later), ForeignLoad::default());
    assert_eq!([told.age(told.since), told.age(later)], [Duration::ZERO, Duration::from_secs(60)]);
}

#[test]
fn a_word_counts_for_three_intervals_and_no_longer() {
    let told = told(Some(100));
    let heard = told.since + Duration::from_secs(10);
    told.told(&load(3, 2, Some(0.5)), heard);
    for fresh in [Duration::ZERO, INTERVAL, INTERVAL * 3] {
        assert_eq!(told.foreign(heard + fresh), foreign(5, 50), "{fresh:?}");
    }
    let too_old = INTERVAL * 3 + Duration::from_nanos(1);
    assert_eq!(told.foreign(heard + too_old), ForeignLoad::default());
    assert_eq!(told.age(heard + too_old), too_old);
    told.told(&load(0, 1, Some(0.0)), heard + too_old);
    assert_eq!(told.foreign(heard + too_old), foreign(1, 0));
}

#[test]
fn a_decision_that_began_before_the_word_may_use_it() {
    let told = told(None);
    told.told(&load(1, 0, None), told.since + INTERVAL);
    assert_eq!(told.foreign(told.since), foreign(1, 0));
    assert_eq!(told.age(told.since), Duration::ZERO);
}

#[test]
fn blocks_are_the_share_of_a_known_capacity() {
    let blocks = |capacity, usage| {
        let told = told(capacity);
        told.told(&load(1, 0, usage), told.since);
        told.foreign(told.since).blocks.get()
    };
    assert_eq!(blocks(Some(1000), Some(0.0938)), 94);
    assert_eq!(blocks(Some(1000), Some(1.0)), 1000);
    assert_eq!([blocks(None, Some(0.5)), blocks(Some(1000), None)], [0, 0]);
}

#[test]
fn the_largest_load_that_is_believed_does_not_overflow() {
    let told = told(Some(u64::MAX));
    told.told(&load(u32::MAX.into(), u32::MAX.into(), Some(1.0)), told.since);
    assert_eq!(told.foreign(told.since).requests, u64::from(u32::MAX) * 2);
}

proptest! {
    /// Against the plainest model: the last word and its time.
    #[test]
    fn the_last_word_counts_while_it_is_fresh(
        steps in proptest::collection::vec((0u64..5_000, proptest::option::of((0u64..9, 0u64..9, 0u32..=100))), 1..40),
    ) {
        let told = told(Some(100));
        let (mut now, mut last) = (told.since, None);
        for (pause, word) in steps {
            now += Duration::from_millis(pause);
            if let Some((running, waiting, percent)) = word {
                told.told(&load(running, waiting, Some(f64::from(percent) / 100.0)), now);
                last = Some((now, foreign(running + waiting, percent.into())));
            }
            let fresh = last.filter(|(then, _)| now - *then <= INTERVAL * 3);
            prop_assert_eq!(told.foreign(now), fresh.map(|(_, load)| load).unwrap_or_default());
            prop_assert_eq!(told.age(now), now - last.map_or(told.since, |(then, _)| then));
        }
    }
}
