//! Requests that no worker ever gets.

use std::time::Duration;

use kvroute_router::config::{QueueConfig, WorkerConfig};
use kvroute_server::ServeConfig;
use kvroute_sim::SimConfig;
use kvroute_testkit::{Fault, Fleet, LogEntry, kept_address};
use serde_json::json;

use super::watched::{CHAT, OF_AN_ATTEMPT, Watched, assert_says, chat, seconds, streamed};

/// What is absent of a request that never had a worker.
const NEVER: [&str; 2] = ["ttft_seconds", "output_tokens"];

fn absent(more: &[&'static str]) -> Vec<&'static str> {
    [&OF_AN_ATTEMPT[..], &NEVER, more].concat()
}

#[tokio::test]
async fn what_cannot_be_served_has_its_line_too() {
    let watched = Watched::start("refusals", vec![SimConfig::default()]).await;
    let rejected = [("outcome", "rejected"), ("attempts", "0"), ("endpoint", "/v1/chat/completions")];

    let (_, line) = watched.told("json", CHAT, &json!("no object")).await;
    let unknown = absent(&["model", "stream", "queue_seconds"]);
    assert_says(&line, &[&rejected[..], &[("status", "400"), ("error", "bad_request")]].concat(), &unknown);

    let mut other = streamed("hello");
    other["model"] = json!("gpt-9");
    let (_, line) = watched.told("model", CHAT, &other).await;
    let asked = [("status", "404"), ("error", "model_not_found"), ("model", "gpt-9"), ("stream", "true")];
    assert_says(&line, &[&rejected[..], &asked].concat(), &absent(&["queue_seconds"]));

    let too_long = json!({"model": "sim", "prompt": [1, 4_000_000]});
    let (_, line) = watched.told("ids", "/v1/completions", &too_long).await;
    assert_says(&line, &[("status", "400"), ("model", "sim"), ("outcome", "rejected")], &absent(&[]));

    let (_, line) = watched.told("large", CHAT, &chat(&"long ".repeat(300_000))).await;
    assert_says(
        &line,
        &[&rejected[..], &[("status", "413"), ("error", "body_too_large")]].concat(),
        &unknown,
    );

    let (answer, line) = watched.told("path", "/v2/chat", &chat("hello")).await;
    assert_eq!(answer.header("x-request-id"), Some("refusals/path"));
    let nowhere = [("endpoint", "unmatched"), ("status", "404"), ("error", "path_not_found")];
    assert_says(&line, &nowhere, &unknown);
    let (_, line) = watched.told("method", "/v1/models", &json!({})).await;
    let otherwise = [("endpoint", "unmatched"), ("status", "405"), ("error", "method_not_allowed")];
    assert_says(&line, &otherwise, &unknown);

    watched.ask("served", CHAT, &chat("hello")).await;
    watched.agrees().await;
    watched.stop().await;
}

#[tokio::test]
async fn a_clients_own_words_are_bounded() {
    let watched = Watched::start("junk", vec![SimConfig::default()]).await;
    let mut body = chat("hello");
    body["model"] = json!("m".repeat(100_000));
    let (_, line) = watched.told("model", CHAT, &body).await;
    assert_eq!(line.field("model").chars().count(), 129);
    let id = "i".repeat(10_000);
    let url = watched.fleet.data(CHAT);
    let answer = watched.fleet.client.post_with(&url, &[("x-request-id", &id)], &chat("hello")).await;
    let own = answer.header("x-request-id").unwrap();
    assert!(own.starts_with("req-") && own.len() < 40, "{own}");
    watched.stop().await;
}

/// Waits until so many requests stand in line.
async fn until_pending(fleet: &Fleet, waiting: u64) {
    let pending = "dynamo_frontend_router_queue_pending_requests{model=\"sim\",worker_type=\"decode\"}";
    let line = format!("{pending} {waiting}\n");
    fleet.client.until(&fleet.admin("/metrics"), |answer| answer.text().contains(&line)).await;
}

/// Waits until so many requests were given to workers.
async fn until_started(fleet: &Fleet, started: u64) {
    let line = format!("requests_started_total {started}\n");
    fleet.client.until(&fleet.admin("/metrics"), |answer| answer.text().contains(&line)).await;
}

const REJECTED: [(&str, &str); 4] =
    [("outcome", "rejected"), ("model", "sim"), ("stream", "true"), ("attempts", "0")];

#[tokio::test]
async fn those_who_find_the_queue_full_have_their_line() {
    let queue = QueueConfig { limit: 1, ..QueueConfig::default() };
    let (watched, proxy) = Watched::start_held("full", queue).await;
    let refused = async {
        until_started(&watched.fleet, 1).await;
        let full = async {
            until_pending(&watched.fleet, 1).await;
            let full = watched.ask("full", CHAT, &streamed("no room")).await;
            proxy.set(Fault::None);
            full
        };
        let waiting = streamed("patience");
        tokio::join!(watched.ask("waited", CHAT, &waiting), full)
    };
    let first = streamed("first");
    let (served, (waited, full)) = tokio::join!(watched.ask("served", CHAT, &first), refused);
    assert_eq!([served.status, waited.status, full.status].map(|status| status.as_u16()), [200, 200, 429]);
    let line = watched.line("full").await;
    let refused = [("status", "429"), ("error", "queue_full")];
    assert_says(&line, &[&REJECTED[..], &refused].concat(), &absent(&["queue_seconds"]));
    assert_says(&watched.line("served").await, &[("outcome", "completed")], &["queue_seconds"]);
    watched.agrees().await;
    watched.stop().await;
}

#[tokio::test]
async fn those_who_wait_too_long_have_their_line() {
    let queue = QueueConfig { timeout: Duration::from_millis(200), ..QueueConfig::default() };
    let (watched, proxy) = Watched::start_held("late", queue).await;
    let late = async {
        until_started(&watched.fleet, 1).await;
        let late = watched.ask("late", CHAT, &streamed("patience")).await;
        proxy.set(Fault::None);
        late
    };
    let first = streamed("first");
    let (served, late) = tokio::join!(watched.ask("served", CHAT, &first), late);
    assert_eq!([served.status, late.status].map(|status| status.as_u16()), [200, 503]);
    let line = watched.line("late").await;
    let timed_out = [("status", "503"), ("error", "queue_timeout")];
    assert_says(&line, &[&REJECTED[..], &timed_out].concat(), &absent(&[]));
    assert_waited(&line, "seconds");
    watched.agrees().await;
    watched.stop().await;
}

/// It stood in line for a part of the time that another field tells.
fn assert_waited(line: &LogEntry, whole: &str) {
    assert!((0.0..=seconds(line, whole)).contains(&seconds(line, "queue_seconds")), "{line:?}");
}

#[tokio::test]
async fn those_who_waited_and_were_served_tell_how_long() {
    let (watched, proxy) = Watched::start_held("waited", QueueConfig::default()).await;
    let (first, second) = (streamed("one"), streamed("two"));
    let release = async {
        until_pending(&watched.fleet, 1).await;
        proxy.set(Fault::None);
    };
    tokio::join!(watched.ask("one", CHAT, &first), watched.ask("two", CHAT, &second), release);
    let lines = [watched.line("one").await, watched.line("two").await];
    let waited: Vec<_> = lines.iter().filter(|line| line.fields.contains_key("queue_seconds")).collect();
    let [waited] = waited.as_slice() else { panic!("{lines:#?}") };
    assert_says(waited, &[("outcome", "completed"), ("attempts", "1")], &[]);
    assert_waited(waited, "ttft_seconds");
    assert_eq!(watched.fleet.at_rest().await.count("kvroute_queue_wait_seconds_count", &[]), 1);
    watched.agrees().await;
    watched.stop().await;
}

#[tokio::test]
async fn a_request_for_a_worker_that_never_comes_has_waited() {
    let down = kept_address();
    let nobody = |config: &mut ServeConfig| {
        config.router.pools[0].workers = vec![WorkerConfig::at(format!("http://{down}"))];
        config.router.pools[0].queue.timeout = Duration::from_millis(200);
    };
    let watched = Watched::start_with("nobody", Vec::new(), nobody).await;
    let (_, line) = watched.told("one", CHAT, &chat("hello")).await;
    let expected = [("status", "503"), ("error", "not_ready"), ("model", "sim"), ("outcome", "rejected")];
    assert_says(&line, &expected, &absent(&[]));
    assert_waited(&line, "seconds");
    watched.agrees().await;
    watched.stop().await;
}
