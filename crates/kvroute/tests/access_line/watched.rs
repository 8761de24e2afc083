//! A fleet whose lines in the log are read.

use std::time::Duration;

use kvroute_core::Tokens;
use kvroute_router::config::{BusyThreshold, QueueConfig};
use kvroute_server::ServeConfig;
use kvroute_sim::SimConfig;
use kvroute_testkit::{Answer, CapturedLog, Exposition, Fault, FaultyProxy, Fleet, LogEntry, server_config};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

pub(crate) const CHAT: &str = "/v1/chat/completions";

const ATTEMPTS: &str = "kvroute_attempts_total";

/// Nothing takes longer unless it hangs.
const HANGS_AFTER: Duration = Duration::from_secs(60);

/// Everything that a line can tell beside how the request ended.
pub(crate) const OF_AN_ATTEMPT: [&str; 10] = [
    "worker",
    "dp_rank",
    "policy",
    "reason",
    "input_tokens",
    "best_cached_tokens",
    "best_eligible_cached_tokens",
    "selected_cached_tokens",
    "reused_tokens",
    "report",
];

/// A fleet, and the part of the log that is about its requests: tests of one process share the log.
pub(crate) struct Watched {
    pub(crate) fleet: Fleet,
    log: CapturedLog,
    test: &'static str,
}

// === impl Watched ===

impl Watched {
    /// Engines behind a router with policy `kv`; the ids of all requests must begin with the name of the test.
    pub(crate) async fn start(test: &'static str, engines: Vec<SimConfig>) -> Self {
        Self::start_with(test, engines, |_| {}).await
    }

    /// The same, with a configuration that `change` has the last word on.
    pub(crate) async fn start_with(
        test: &'static str,
        engines: Vec<SimConfig>,
        change: impl FnOnce(&mut ServeConfig),
    ) -> Self {
        let log = CapturedLog::start();
        let configured = |urls: &[String]| {
            let mut config = server_config(urls, "kv");
            change(&mut config);
            config
        };
        Self { fleet: Fleet::start_with(engines, configured).await, log, test }
    }

    /// One engine whose answers come when the test lets them, and which is busy with a single prompt until then.
    pub(crate) async fn start_held(test: &'static str, queue: QueueConfig) -> (Self, FaultyProxy) {
        let log = CapturedLog::start();
        let busy_at_once = |urls: &[String]| {
            let mut config = server_config(urls, "kv");
            let threshold = BusyThreshold::Tokens(Tokens::ZERO);
            config.router.pools[0].queue = QueueConfig { threshold, ..queue };
            config
        };
        let engine = vec![SimConfig::default()];
        let (fleet, mut proxies) = Fleet::start_behind(engine, Fault::Hold, busy_at_once).await;
        (Self { fleet, log, test }, proxies.remove(0))
    }

    /// The id of one of the test's requests.
    pub(crate) fn id(&self, request: &str) -> String {
        format!("{}/{request}", self.test)
    }

    /// Sends a request to its end.
    pub(crate) async fn ask(&self, request: &str, path: &str, body: &Value) -> Answer {
        let id = self.id(request);
        self.fleet.client.post_with(&self.fleet.data(path), &[("x-request-id", &id)], body).await
    }

    /// The same, and the line that it left.
    pub(crate) async fn told(&self, request: &str, path: &str, body: &Value) -> (Answer, LogEntry) {
        let answer = self.ask(request, path, body).await;
        (answer, self.line(request).await)
    }

    /// The line of a request, as soon as it is there.
    pub(crate) async fn line(&self, request: &str) -> LogEntry {
        let id = self.id(request);
        let found = async {
            loop {
                match self.lines(|line| line.field("request_id") == id).as_slice() {
                    [] => sleep(Duration::from_millis(5)).await,
                    [line] => return line.clone(),
                    lines => panic!("{} lines of {id}: {lines:#?}", lines.len()),
                }
            }
        };
        timeout(HANGS_AFTER, found).await.unwrap_or_else(|_| panic!("{id} leaves no line"))
    }

    /// Waits until nothing goes on and every request has its line; each line then agrees with what was counted.
    pub(crate) async fn agrees(&self) {
        let mut scrape = self.fleet.scrape().await;
        if scrape.sum(ATTEMPTS, &[]).is_some() {
            scrape = self.fleet.at_rest().await;
        }
        let are_written = async {
            while self.lines(|_| true).len() as u64 != requests(&scrape, "") {
                sleep(Duration::from_millis(5)).await;
                scrape = self.fleet.scrape().await;
            }
        };
        timeout(HANGS_AFTER, are_written).await.unwrap_or_else(|_| panic!("{:#?}", self.lines(|_| true)));
        for outcome in ["completed", "failed", "cancelled", "rejected"] {
            let lines = self.lines(|line| line.field("outcome") == outcome);
            assert_eq!(lines.len() as u64, requests(&scrape, outcome), "{outcome}: {lines:#?}");
        }
        for (field, total) in [
            ("attempts", ATTEMPTS),
            ("input_tokens", "dynamo_component_router_input_sequence_tokens_sum"),
            ("history_cached_tokens", "kvroute_router_history_cached_tokens_total"),
            ("best_cached_tokens", "kvroute_router_best_cached_prefix_tokens_total"),
            (
                "best_eligible_cached_tokens",
                "dynamo_component_router_kv_best_eligible_cached_prefix_tokens_total",
            ),
            ("selected_cached_tokens", "dynamo_component_router_kv_selected_cached_prefix_tokens_total"),
            ("reused_tokens", "dynamo_component_router_kv_worker_reused_tokens_total"),
            ("output_tokens", "dynamo_component_router_output_sequence_tokens_sum"),
        ] {
            let told: u64 = self.lines(|_| true).iter().filter_map(|line| number(line, field)).sum();
            assert_eq!(told, scrape.sum(total, &[]).unwrap_or_default() as u64, "{field}");
        }
        for (field, count) in [
            ("ttft_seconds", "dynamo_component_router_time_to_first_token_seconds_count"),
            ("output_tokens", "dynamo_component_router_output_sequence_tokens_count"),
            ("report", "kvroute_router_reuse_reports_total"),
        ] {
            let told = self.lines(|line| line.fields.contains_key(field)).len() as u64;
            assert_eq!(told, scrape.sum(count, &[]).unwrap_or_default() as u64, "{field}");
        }
    }

    pub(crate) async fn stop(self) {
        self.fleet.stop().await;
    }

    fn lines(&self, condition: impl Fn(&LogEntry) -> bool) -> Vec<LogEntry> {
        let is_ours = |line: &LogEntry| {
            let id = line.field("request_id").strip_prefix(self.test);
            line.message == "request" && id.is_some_and(|rest| rest.starts_with('/'))
        };
        self.log.entries(|line| is_ours(line) && condition(line))
    }
}

fn requests(scrape: &Exposition, outcome: &str) -> u64 {
    let labels: &[_] = if outcome.is_empty() { &[] } else { &[("outcome", outcome)] };
    scrape.count("kvroute_requests_total", labels)
}

/// A field that is a count.
pub(crate) fn number(line: &LogEntry, field: &str) -> Option<u64> {
    line.fields.get(field).map(|text| text.parse().unwrap_or_else(|_| panic!("{field} is {text}")))
}

/// A field that is a time.
pub(crate) fn seconds(line: &LogEntry, field: &str) -> f64 {
    line.field(field).parse().unwrap_or_else(|_| panic!("no {field} in {line:?}"))
}

/// A line says these things and not those.
pub(crate) fn assert_says(line: &LogEntry, expected: &[(&str, &str)], absent: &[&str]) {
    for (field, value) in expected {
        assert_eq!(line.field(field), *value, "{field} in {line:#?}");
    }
    for field in absent {
        assert!(!line.fields.contains_key(*field), "{field} in {line:#?}");
    }
    assert!(seconds(line, "seconds") > 0.0, "{line:?}");
    assert_eq!(line.field("trace_id").len(), 32, "{line:?}");
}

/// The body of a chat.
pub(crate) fn chat(text: &str) -> Value {
    json!({"model": "sim", "messages": [{"role": "user", "content": text}], "max_tokens": 4})
}

/// The same, with a stream as its answer.
pub(crate) fn streamed(text: &str) -> Value {
    let mut body = chat(text);
    body["stream"] = json!(true);
    body
}

/// An engine that does something wrong.
pub(crate) fn faulty(faults: kvroute_sim::Faults) -> Vec<SimConfig> {
    vec![SimConfig { faults, ..SimConfig::default() }]
}
