//! A Prometheus of its own: on a free port, with a folder of its own, gone when the test ends, however it ends.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use kvroute_metrics::{Row, rows};
use kvroute_monitoring::AlertGroup;
use kvroute_testkit::{Answer, Client, RunningProcess};
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpStream;

use super::world::World;

/// A running Prometheus that scrapes one router.
pub(crate) struct Database {
    process: RunningProcess,
    url: String,
    client: Client,
    _folder: TempDir,
}

/// Looks until it answers; only a machine that stands still needs as many.
const LOOKS: usize = 3_000;
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// Whether both programs are there; says so if not.
pub(crate) fn is_there() -> bool {
    for variable in ["KVROUTE_PROMETHEUS", "KVROUTE_PROMTOOL"] {
        if std::env::var_os(variable).is_none() {
            assert!(std::env::var_os("KVROUTE_REQUIRE_PEERS").is_none(), "{variable} is not set");
            eprintln!("skipped: set {variable} (`cargo xtask peers` fetches Prometheus and promtool)");
            return false;
        }
    }
    true
}

// === impl Database ===

impl Database {
    /// Scrapes a router several times a second, and evaluates rules.
    pub(crate) async fn start(router: &str, rules: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        std::fs::write(path("rules.yml"), rules).unwrap();
        let config = format!(
            "global:\n  scrape_interval: 200ms\n  evaluation_interval: 1s\nrule_files: [rules.yml]\n\
             scrape_configs:\n  - job_name: kvroute\n    static_configs:\n      - targets: [\"{router}\"]\n"
        );
        std::fs::write(path("prometheus.yml"), config).unwrap();
        let program = std::env::var_os("KVROUTE_PROMETHEUS").unwrap();
        let address = free_address();
        let arguments = [
            format!("--config.file={}", path("prometheus.yml")),
            format!("--storage.tsdb.path={}", path("data")),
            format!("--web.listen-address={address}"),
            "--log.level=warn".to_owned(),
        ];
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let process = RunningProcess::start(program.to_str().unwrap(), &arguments);
        let database =
            Self { process, url: format!("http://{address}"), client: Client::default(), _folder: folder };
        database.listens_at(&address).await;
        database.client.until(&format!("{}/-/ready", database.url), |answer| answer.status == 200).await;
        database
    }

    async fn listens_at(&self, address: &str) {
        for _ in 0..LOOKS {
            if TcpStream::connect(address).await.is_ok() {
                return;
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
        panic!("prometheus does not listen at {address}: {}", self.process.log());
    }

    /// The only sample of a query; NaN where there is none.
    pub(crate) async fn value(&self, query: &str) -> f64 {
        only_value(&self.ask(query).await)
    }

    /// Whether a query has a sample that is a number.
    pub(crate) async fn has_data(&self, query: &str) -> bool {
        let result = self.ask(query).await;
        result.as_array().unwrap().iter().any(|sample| !number(&sample["value"][1]).is_nan())
    }

    /// Asks again until the only sample of a query satisfies a condition.
    pub(crate) async fn until(&self, query: &str, holds: impl Fn(f64) -> bool) {
        let holds = |answer: &Answer| holds(only_value(&result_of(answer, query)));
        self.client.until(&self.query_url(query), holds).await;
    }

    /// Waits until it has scraped what the router counts now. Nothing must be going on.
    pub(crate) async fn shows_what(&self, world: &World) {
        let scrape = world.at_rest().await;
        for row in [rows::ATTEMPTS, rows::REQUESTS, rows::WORKER_REUSED, rows::REUSE_LOST] {
            let name = row.exposed_name(world.prefix());
            let counted = scrape.sum(&name, &[]).unwrap();
            self.until(&format!("sum({name})"), |value| value == counted).await;
        }
    }

    /// The largest value that the series of a family ever had together; of a histogram the number of samples.
    pub(crate) async fn largest(&self, row: &Row, prefix: &str) -> f64 {
        let part = if row.buckets.is_empty() { "" } else { "_count" };
        let name = row.exposed_name(prefix);
        self.value(&format!("max(max_over_time({name}{part}[1h]))")).await
    }

    /// Values of a label among the series of a query.
    pub(crate) async fn label_values(&self, query: &str, label: &str) -> Vec<String> {
        let result = self.ask(query).await;
        let labels = result.as_array().unwrap().iter().filter_map(|sample| sample["metric"][label].as_str());
        labels.map(str::to_owned).collect()
    }

    /// Type and help of a family, as it read them.
    pub(crate) async fn metadata(&self, name: &str) -> (String, String) {
        let answer = self.client.get(&format!("{}/api/v1/metadata?metric={name}", self.url)).await.json();
        let entry = &answer["data"][name][0];
        let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        (text("type"), text("help"))
    }

    /// Every rule was evaluated without an error.
    pub(crate) async fn evaluates_every_rule(&self, groups: &[AlertGroup]) {
        let rules = |answer: &Answer| {
            let groups = answer.json()["data"]["groups"].as_array().cloned().unwrap_or_default();
            groups
                .iter()
                .flat_map(|group| group["rules"].as_array().cloned().unwrap_or_default())
                .collect::<Vec<_>>()
        };
        let expected: usize = groups.iter().map(|group| group.alerts().len()).sum();
        let url = format!("{}/api/v1/rules", self.url);
        let is_done = |answer: &Answer| rules(answer).iter().all(|rule| rule["health"] != "unknown");
        let answer = self.client.until(&url, is_done).await;
        assert_eq!(rules(&answer).len(), expected);
        for rule in rules(&answer) {
            assert_eq!(rule["health"], "ok", "{rule}");
        }
    }

    async fn ask(&self, query: &str) -> Value {
        result_of(&self.client.get(&self.query_url(query)).await, query)
    }

    fn query_url(&self, query: &str) -> String {
        format!("{}/api/v1/query?query={}", self.url, encoded(query))
    }
}

/// A port that was free a moment ago.
fn free_address() -> String {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().to_string()
}

fn result_of(answer: &Answer, query: &str) -> Value {
    let json = answer.json();
    assert_eq!(json["status"], "success", "{query}: {json}");
    json["data"]["result"].clone()
}

fn only_value(result: &Value) -> f64 {
    match result.as_array().map(Vec::as_slice) {
        Some([sample]) => number(&sample["value"][1]),
        Some([]) => f64::NAN,
        _ => panic!("not one sample: {result}"),
    }
}

fn number(text: &Value) -> f64 {
    text.as_str().unwrap().parse().unwrap()
}

/// Every character but letters and digits, as in a URL.
fn encoded(text: &str) -> String {
    text.bytes()
        .map(
            |byte| {
                if byte.is_ascii_alphanumeric() {
                    char::from(byte).to_string()
                } else {
                    format!("%{byte:02X}")
                }
            },
        )
        .collect()
}
