//! Thousands of requests that name things of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use kvroute_metrics::{CATALOGUE, Values};
use kvroute_sim::SimConfig;
use kvroute_testkit::{Fleet, server_config};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::exposition::{Series, series_of};

const CHAT: &str = "/v1/chat/completions";

/// Requests of each kind.
const OF_A_KIND: usize = 300;

/// Requests that are sent at the same time.
const AT_ONCE: usize = 16;

/// A request by hand: methods and headers that no client library would send.
#[derive(Clone, Debug)]
struct Junk {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: String,
    /// Status that it gets.
    status: u16,
}

// === impl Junk ===

impl Junk {
    fn chat(body: &Value, status: u16) -> Self {
        Self::new("POST", CHAT, &body.to_string(), status)
    }

    fn new(method: &str, path: &str, body: &str, status: u16) -> Self {
        let (method, path, body) = (method.to_owned(), path.to_owned(), body.to_owned());
        Self { method, path, headers: Vec::new(), body, status }
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    async fn send(self, address: SocketAddr) {
        let Self { method, path, headers, body, status } = self;
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n{headers}\r\n{body}"
        );
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer);
        assert_eq!(answer.split(' ').nth(1), Some(status.to_string().as_str()), "{request}\n{answer}");
    }
}

fn chat() -> Value {
    json!({"model": "sim", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 2})
}

fn chat_with(field: &str, value: &str) -> Value {
    let mut body = chat();
    body[field] = json!(value);
    body
}

/// One request of each kind for the data plane, with names that no other number has.
fn for_the_data_plane(n: usize) -> Vec<Junk> {
    let served = |name: &str, value: &str| Junk::chat(&chat(), 200).with(name, value);
    vec![
        Junk::chat(&chat_with("model", &format!("model-{n}")), 404),
        Junk::chat(&chat_with("model", &format!("sim-adapter-{n}")), 404),
        Junk::chat(&chat_with("cache_salt", &format!("tenant-{n}")), 200),
        Junk::chat(&chat_with("user", &format!("user-{n}")), 200),
        Junk::new("POST", CHAT, &format!("{{\"model\": {n}"), 400),
        Junk::new("POST", &format!("/v1/{n}/completions"), "{}", 404),
        Junk::new("GET", &format!("/{n}?model={n}"), "", 404),
        Junk::new("GET", "/health", "", 400).with(&format!("no name {n}"), "value"),
        Junk::new(&format!("BREW{n}"), CHAT, "{}", 405),
        Junk::new(&format!("MIX{n}"), &format!("/{n}"), "{}", 404),
        served("x-request-id", &format!("request-{n}")),
        served("traceparent", &format!("00-{:032x}-{:016x}-01", n + 1, n + 1)),
        served("x-session-id", &format!("session-{n}")),
        served("x-kvroute-priority", &(n % 100).to_string()),
        served(&format!("x-header-{n}"), &format!("value-{n}")),
        served("x-kvroute-override", &format!("temperature=0.{n}")),
        Junk::chat(&chat(), 400).with("x-kvroute-override", &format!("weight-{n}=1")),
        Junk::chat(&chat(), 400).with("x-kvroute-worker", &format!("worker-{n}")),
    ]
}

fn for_the_admin_plane(n: usize) -> Vec<Junk> {
    let advice = json!({"endpoint": CHAT, "body": chat_with("model", &format!("model-{n}"))});
    vec![
        Junk::new("GET", &format!("/api/{n}"), "", 404),
        Junk::new("GET", &format!("/api/decisions/decision-{n}"), "", 404),
        Junk::new("GET", &format!("/api/funnel?model=model-{n}"), "", 200),
        Junk::new("GET", &format!("/api/funnel?window={n}years"), "", 400),
        Junk::new(&format!("BREW{n}"), "/metrics", "", 405),
        Junk::new("POST", "/api/route", &advice.to_string(), 404),
    ]
}

async fn send_all(address: SocketAddr, of_number: fn(usize) -> Vec<Junk>) {
    let mut sending = JoinSet::new();
    for junk in (0..OF_A_KIND).flat_map(of_number) {
        if sending.len() == AT_ONCE {
            sending.join_next().await.unwrap().unwrap();
        }
        sending.spawn(junk.send(address));
    }
    sending.join_all().await;
}

/// The values of every label of the project's own families.
fn values(series: &BTreeSet<Series>) -> BTreeMap<(&'static str, &'static str), BTreeSet<&str>> {
    let mut values: BTreeMap<_, BTreeSet<&str>> = BTreeMap::new();
    for row in CATALOGUE {
        let is_of_row = |name: &str| {
            let rest = name.strip_prefix(row.name);
            rest.is_some_and(|rest| ["", "_bucket", "_sum", "_count"].contains(&rest))
        };
        for label in row.labels {
            let seen = series.iter().filter(|series| is_of_row(&series.name));
            let seen = seen.filter_map(|series| series.labels.get(label.name));
            values.entry((row.name, label.name)).or_default().extend(seen.map(String::as_str));
        }
    }
    values
}

#[tokio::test]
async fn nothing_that_clients_send_becomes_a_series() {
    let with_everything = |urls: &[String]| {
        let mut config = server_config(urls, "kv");
        config.trusted = vec!["127.0.0.0/8".parse().unwrap()];
        config.router.pools[0].shadow = ["sticky", "random"].map(str::to_owned).to_vec();
        config.router.pools[0].history.enabled = true;
        config
    };
    let fleet = Fleet::start_with(vec![SimConfig::default(), SimConfig::default()], with_everything).await;
    // A history that knows nothing has no oldest entry.
    let long = json!({"model": "sim", "prompt": (300..400).collect::<Vec<u32>>(), "max_tokens": 2});
    assert_eq!(fleet.client.post(&fleet.data("/v1/completions"), &long).await.status, 200);
    let has_age = |text: &str| text.contains("\nkvroute_history_oldest_entry_age_seconds{");
    fleet.client.until(&fleet.admin("/metrics"), |answer| has_age(&answer.text())).await;
    let before = series_of(&fleet).await;
    send_all(fleet.server.data_address(), for_the_data_plane).await;
    send_all(fleet.server.admin_address(), for_the_admin_plane).await;

    let scrape = fleet.at_rest().await;
    let counted = |model, outcome| {
        scrape.count("kvroute_requests_total", &[("model", model), ("outcome", outcome)]) as usize
    };
    assert_eq!(counted("sim", "completed"), 8 * OF_A_KIND + 1, "the others were served");
    assert_eq!(counted("unknown", "rejected") + counted("sim", "rejected"), 9 * OF_A_KIND);
    let after = series_of(&fleet).await;
    assert_eq!(after.difference(&before).collect::<Vec<_>>(), Vec::<&Series>::new());
    assert_eq!(after, before);

    let workers: BTreeSet<_> =
        fleet.engines.iter().map(|engine| engine.url().trim_start_matches("http://").to_owned()).collect();
    let values = values(&after);
    for row in CATALOGUE {
        for label in row.labels {
            let seen = &values[&(row.name, label.name)];
            let is_known = |value: &&str| match (label.values, label.name) {
                (Values::Of(closed), _) => closed.contains(value),
                (_, "model") => ["sim", "unknown"].contains(value),
                (_, "policy") => ["kv", "sticky", "random"].contains(value),
                (_, "worker_id") => workers.contains(*value),
                (_, "dp_rank") => *value == "0",
                (_, "pool") => *value == "0",
                (_, "version") => *value == env!("CARGO_PKG_VERSION"),
                (_, "reason") => !value.contains(|character: char| character.is_ascii_digit()),
                _ => false,
            };
            let unknown: Vec<_> = seen.iter().filter(|value| !is_known(value)).collect();
            assert!(unknown.is_empty(), "{} {}: {unknown:?}", row.name, label.name);
        }
    }
    fleet.stop().await;
}
