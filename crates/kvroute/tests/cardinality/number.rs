//! The number of series that the log tells at the start.

use std::time::Duration;

use kvroute_core::ModelName;
use kvroute_router::config::{CountMode, EventEndpoint, IndexSource};
use kvroute_server::ServeConfig;
use kvroute_sim::SimConfig;
use kvroute_testkit::{CapturedLog, Fleet, LogEntry, server_config};

use super::exposition::series_of;

type Change = fn(&mut ServeConfig);

/// What the log told of the numbers of series, since a time.
fn told(log: &CapturedLog, after: usize) -> Vec<LogEntry> {
    let of_series = |entry: &LogEntry| entry.message.starts_with("metric series ");
    log.entries(of_series).split_off(after)
}

fn expected(entry: &LogEntry) -> usize {
    entry.field("expected").parse().unwrap()
}

/// Starts a fleet of so many engines, and gives what was told at the start, what was told when all had joined, and what
/// there is at the end.
async fn numbers(log: &CapturedLog, models: &[&str], policy: &str, change: Change) -> [usize; 3] {
    let before = told(log, 0).len();
    let engine = |model: &&str| SimConfig { model: (*model).to_owned(), ..SimConfig::default() };
    let configured = |urls: &[String]| {
        let mut config = server_config(urls, policy);
        change(&mut config);
        config
    };
    let fleet = Fleet::start_with(models.iter().map(engine).collect(), configured).await;
    let body = serde_json::json!({"model": models[0], "prompt": "one request makes what only requests make", "max_tokens": 2});
    assert_eq!(fleet.client.post(&fleet.data("/v1/completions"), &body).await.status, 200);
    fleet.at_rest().await;
    let entries = told(log, before);
    let [first, .., last] = entries.as_slice() else { panic!("{entries:?}") };
    assert_eq!(
        (first.message.as_str(), last.message.as_str()),
        ("metric series at the start", "metric series with all workers")
    );
    assert!(first.field("series").parse::<usize>().unwrap() <= expected(first), "{first:?}");
    let there = series_of(&fleet).await.len();
    let numbers = [expected(first), expected(last), there];
    fleet.stop().await;
    numbers
}

#[tokio::test]
async fn the_number_of_series_is_known_at_the_start() {
    let log = CapturedLog::start();
    let usual: Change = |_| {};
    let named: Change = |config| config.router.pools[0].model = Some(ModelName::new("sim"));
    let remembered: Change = |config| config.router.pools[0].index.source = IndexSource::Remembered;
    let eventless: Change = |config| {
        config.router.pools[0].workers.iter_mut().for_each(|worker| worker.kv_events = EventEndpoint::None);
    };
    let invisible: Change = |config| {
        config.router.pools[0].index.source = IndexSource::Reported;
        config.router.pools[0].workers[0].kv_events = EventEndpoint::None;
    };
    let uncounted: Change = |config| config.router.pools[0].count = CountMode::Off;
    let observed: Change = |config| config.router.pools[0].observe = true;
    let shadowed: Change = |config| {
        config.router.pools[0].shadow = ["kv", "random"].map(str::to_owned).to_vec();
        config.metrics.const_labels = [("router_id".to_owned(), "7".to_owned())].into();
    };
    let two_pools: Change = |config| {
        let mut second = config.router.pools[0].clone();
        second.workers = config.router.pools[0].workers.split_off(1);
        second.policy = "least-loaded".to_owned();
        config.router.pools.push(second);
    };
    for (name, models, policy, change) in [
        ("usual", ["sim"; 2].as_slice(), "kv", usual),
        ("named", ["sim"; 3].as_slice(), "kv", named),
        ("remembered", &["sim"; 2], "kv", remembered),
        ("eventless", &["sim"; 2], "kv", eventless),
        ("invisible", &["sim"; 2], "kv", invisible),
        ("uncounted", &["sim"; 2], "random", uncounted),
        ("followed and not asked", &["sim"; 2], "round-robin", usual),
        ("observed", &["sim"; 2], "round-robin", observed),
        ("shadowed", &["sim"; 2], "sticky", shadowed),
        ("two pools", &["sim", "other"], "kv", two_pools),
    ] {
        let [at_the_start, all_joined, there] = numbers(&log, models, policy, change).await;
        assert_eq!([at_the_start, all_joined], [there; 2], "{name}");
    }
}

#[tokio::test]
async fn what_only_the_workers_can_tell_is_known_once_they_have_joined() {
    let log = CapturedLog::start();
    let two_ranks: Change = |config| config.router.pools[0].workers[0].dp_ranks = Some(2);
    let [at_the_start, all_joined, there] = numbers(&log, &["sim"], "kv", two_ranks).await;
    assert_eq!(all_joined, there);
    assert_ne!(at_the_start, there, "the engine publishes no events of a second rank");
    let two_models: Change = |_| {};
    let [at_the_start, all_joined, there] = numbers(&log, &["sim", "other"], "kv", two_models).await;
    assert_eq!(all_joined, there);
    assert!(at_the_start < there, "one pool was expected, and there are two");
}

/// The age of what it knows is told with the next refresh behind the first lesson.
#[tokio::test]
async fn a_history_has_its_series_counted() {
    let log = CapturedLog::start();
    let before = told(&log, 0).len();
    let remembering = |urls: &[String]| {
        let mut config = server_config(urls, "kv");
        config.router.pools[0].history.enabled = true;
        config
    };
    let fleet = Fleet::start_with(vec![SimConfig::default()], remembering).await;
    let body =
        serde_json::json!({"model": "sim", "prompt": (300..400).collect::<Vec<u32>>(), "max_tokens": 2});
    assert_eq!(fleet.client.post(&fleet.data("/v1/completions"), &body).await.status, 200);
    let has_age = |text: &str| text.contains("kvroute_history_oldest_entry_age_seconds{");
    fleet.client.until(&fleet.admin("/metrics"), |answer| has_age(&answer.text())).await;
    fleet.at_rest().await;
    let (entries, there) = (told(&log, before), series_of(&fleet).await.len());
    assert_eq!(entries.iter().map(expected).collect::<Vec<_>>(), vec![there; entries.len()]);
    fleet.stop().await;
}

#[tokio::test]
async fn engines_that_are_asked_for_their_load_have_their_series_counted() {
    let log = CapturedLog::start();
    let before = told(&log, 0).len();
    let asking = |urls: &[String]| {
        let mut config = server_config(urls, "kv");
        config.router.pools[0].engine_load = Some(Duration::from_millis(100));
        config
    };
    let fleet = Fleet::start_with(vec![SimConfig::default()], asking).await;
    let has_answered = |text: &str| text.contains("kvroute_worker_engine_requests{");
    fleet.client.until(&fleet.admin("/metrics"), |answer| has_answered(&answer.text())).await;
    let entries = told(&log, before);
    assert_eq!(expected(&entries[0]), series_of(&fleet).await.len());
    fleet.stop().await;
}
