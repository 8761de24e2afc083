use super::clock::SteppingClock;
use super::contestant::Answer;
use super::*;

fn args() -> TelemetryArgs {
    TelemetryArgs {
        threads: vec![1, 2],
        models: vec![1, 3],
        other_work: vec![0, 2],
        chunks: 5,
        requests: 50,
        entries: 2000,
        prompts: vec![10],
        reps: 1,
        seed: 1,
        json: None,
    }
}

#[test]
fn both_tell_the_same_and_every_part_is_measured() {
    run(&args()).unwrap();
}

#[test]
fn a_difference_is_named() {
    let stories = Story::several(4, 1);
    let whole = told::<Plain>(&stories);
    agreement::compare(&told::<Kvroute>(&stories), &whole).unwrap();
    let error = agreement::compare(&told::<Kvroute>(&stories[1..]), &whole).unwrap_err().to_string();
    assert!(error.contains("in one"), "{error}");
}

fn told<T: Telemetry>(stories: &[Story]) -> String {
    let telemetry = T::new(1).unwrap();
    let mut clock = SteppingClock::default();
    stories.iter().for_each(|story| telemetry.request(0, story, Answer::Stream(2), &mut clock));
    telemetry.exposition().unwrap()
}

#[test]
fn every_request_is_counted_whoever_tells_it() {
    let stories = Story::several(8, 1);
    let telemetry = Kvroute::new(2).unwrap();
    let cell = Cell { threads: 2, models: 2, other_work: Duration::ZERO };
    let cost = measure::cost(&telemetry, cell, Task::Request(Answer::Whole), &stories, 30);
    let told = 2 * (30 + stories.len()) * cost.all;
    let bookings = kvroute_metrics::rows::BOOKINGS.name;
    assert!(told > 0 && telemetry.exposition().unwrap().contains(&format!("{bookings} {told}\n")));
}
