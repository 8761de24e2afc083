//! Requests that no worker ever gets.

use std::time::Duration;

use kvroute_core::Tokens;
use kvroute_router::config::{BusyThreshold, QueueConfig};
use kvroute_server::ServeConfig;
use kvroute_sim::SimConfig;
use kvroute_testkit::Fleet;
use serde_json::{Value, json};

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

fn busy_at_once(queue: QueueConfig) -> impl FnOnce(&mut ServeConfig) {
    move |config| {
        config.router.pools[0].queue =
            QueueConfig { threshold: BusyThreshold::Tokens(Tokens::ZERO), ..queue };
    }
}

/// About 1,500 tokens, which is a second of work.
fn question(number: usize) -> Value {
    streamed(&format!("{number} is the number of this question ").repeat(150))
}

/// Waits until so many requests stand in line.
async fn until_pending(fleet: &Fleet, waiting: u64) {
    let pending = "dynamo_frontend_router_queue_pending_requests{model=\"sim\",worker_type=\"decode\"}";
    let line = format!("{pending} {waiting}\n");
    fleet.client.until(&fleet.admin("/metrics"), |answer| answer.text().contains(&line)).await;
}

#[tokio::test]
async fn those_who_find_the_queue_full_or_wait_too_long_have_their_lines() {
    let slow = SimConfig { prefill_tps: 1500, ..SimConfig::default() };
    let queue = QueueConfig { limit: 1, timeout: Duration::from_millis(300), ..QueueConfig::default() };
    let watched = Watched::start_with("queue", vec![slow], busy_at_once(queue)).await;
    let in_line = async {
        let started = "requests_started_total 1\n";
        let metrics = watched.fleet.admin("/metrics");
        watched.fleet.client.until(&metrics, |answer| answer.text().contains(started)).await;
        let one_more = async {
            until_pending(&watched.fleet, 1).await;
            watched.ask("full", CHAT, &question(2)).await
        };
        let second = question(1);
        tokio::join!(watched.ask("late", CHAT, &second), one_more)
    };
    let first = question(0);
    let (served, (late, full)) = tokio::join!(watched.ask("served", CHAT, &first), in_line);
    assert_eq!([served.status, late.status, full.status].map(|status| status.as_u16()), [200, 503, 429]);

    let line = watched.line("full").await;
    let rejected = [("outcome", "rejected"), ("model", "sim"), ("stream", "true"), ("attempts", "0")];
    let refused = [("status", "429"), ("error", "queue_full")];
    assert_says(&line, &[&rejected[..], &refused].concat(), &absent(&["queue_seconds"]));
    let line = watched.line("late").await;
    assert_says(
        &line,
        &[&rejected[..], &[("status", "503"), ("error", "queue_timeout")]].concat(),
        &absent(&[]),
    );
    assert!((0.3..=seconds(&line, "seconds")).contains(&seconds(&line, "queue_seconds")), "{line:?}");
    assert_says(&watched.line("served").await, &[("outcome", "completed")], &["queue_seconds"]);
    watched.agrees().await;
    watched.stop().await;
}

#[tokio::test]
async fn those_who_waited_and_were_served_tell_how_long() {
    let slow = SimConfig { prefill_tps: 3000, ..SimConfig::default() };
    let watched = Watched::start_with("waited", vec![slow], busy_at_once(QueueConfig::default())).await;
    let (first, second) = (question(0), question(1));
    tokio::join!(watched.ask("one", CHAT, &first), watched.ask("two", CHAT, &second));
    let lines = [watched.line("one").await, watched.line("two").await];
    let waited: Vec<_> = lines.iter().filter(|line| line.fields.contains_key("queue_seconds")).collect();
    let [waited] = waited.as_slice() else { panic!("{lines:#?}") };
    assert_says(waited, &[("outcome", "completed"), ("attempts", "1")], &[]);
    assert!(
        (0.0..=seconds(waited, "ttft_seconds")).contains(&seconds(waited, "queue_seconds")),
        "{waited:?}"
    );
    assert_eq!(watched.fleet.at_rest().await.count("kvroute_queue_wait_seconds_count", &[]), 1);
    watched.agrees().await;
    watched.stop().await;
}

#[tokio::test]
async fn a_request_for_a_worker_that_never_comes_has_waited() {
    let down = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = |config: &mut ServeConfig| {
        config.router.pools[0].workers =
            vec![kvroute_router::config::WorkerConfig::at(format!("http://{down}"))];
        config.router.pools[0].queue.timeout = Duration::from_millis(200);
    };
    let watched = Watched::start_with("nobody", Vec::new(), nobody).await;
    let (_, line) = watched.told("one", CHAT, &chat("hello")).await;
    let expected = [("status", "503"), ("error", "not_ready"), ("model", "sim"), ("outcome", "rejected")];
    assert_says(&line, &expected, &absent(&[]));
    assert!(seconds(&line, "queue_seconds") >= 0.2, "{line:?}");
    watched.agrees().await;
    watched.stop().await;
}
