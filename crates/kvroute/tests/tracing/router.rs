//! The real binary as a router that exports.

use std::process::{Command, ExitStatus};

use kvroute_testkit::{Answer, Client, RunningProcess};
use serde_json::{Value, json};

pub(crate) const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
pub(crate) const CLIENT: &str = "00f067aa0ba902b7";

/// What a client's tracing sends whose trace is kept.
pub(crate) fn sampled() -> String {
    format!("00-{TRACE}-{CLIENT}-01")
}

pub(crate) struct Router {
    process: RunningProcess,
    client: Client,
    url: String,
}

// === impl Router ===

impl Router {
    /// A router in front of workers, with commas between them, once all have joined; `settings` are `KEY=VALUE`, or `NAME=value` of the environment.
    pub(crate) async fn start(workers: &str, settings: &[&str]) -> Self {
        let (environment, keys): (Vec<_>, Vec<_>) =
            settings.iter().partition(|setting| setting.starts_with(|first: char| first.is_uppercase()));
        let mut words = vec!["-u", "RUST_LOG", "-u", "OTEL_EXPORTER_OTLP_ENDPOINT"];
        words.extend(environment);
        words.extend([env!("CARGO_BIN_EXE_kvroute"), "serve"]);
        words.extend(workers.split(',').flat_map(|worker| ["--worker", worker]));
        words.extend(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
        for key in keys {
            words.extend(["--set", key]);
        }
        let mut process = RunningProcess::start("env", &words);
        let url = format!("http://{}", process.announced("listen").await);
        let client = Client::default();
        let admin = format!("http://{}/api/workers", process.announced("admin").await);
        let is_ready = |worker: &Value| worker["state"] == "ready" && worker["ranks"][0].is_object();
        let are_ready = |list: &Value| list.as_array().unwrap().iter().all(is_ready);
        client.until(&admin, |answer| are_ready(&answer.json())).await;
        Self { process, client, url }
    }

    /// A completion to its end; a client without tracing sends no `traceparent`.
    pub(crate) async fn ask(&self, model: &str, prompt: &str, traceparent: Option<&str>) -> Answer {
        let body = json!({"model": model, "prompt": prompt, "max_tokens": 3, "stream": true});
        self.ask_for(&body, traceparent).await
    }

    pub(crate) async fn ask_for(&self, body: &Value, traceparent: Option<&str>) -> Answer {
        let header = traceparent.map(|value| ("traceparent", value));
        let url = format!("{}/v1/completions", self.url);
        self.client.post_with(&url, header.as_slice(), body).await
    }

    /// Lines of its log that contain a text.
    pub(crate) fn lines_with(&self, text: &str) -> Vec<String> {
        self.process.log().lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
    }

    /// Waits until its log has so many lines with a text.
    pub(crate) async fn until_lines_with(&self, text: &str, count: usize) -> Vec<String> {
        let are_there = async {
            while self.lines_with(text).len() < count {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        let waited = tokio::time::timeout(std::time::Duration::from_secs(60), are_there).await;
        waited.unwrap_or_else(|_| panic!("no {count} lines with {text:?}: {}", self.process.log()));
        self.lines_with(text)
    }

    /// Tells it to stop and waits until it has; gives its whole log.
    pub(crate) async fn stop(mut self) -> (ExitStatus, String) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        drop(self.client);
        let status = self.process.ended().await;
        (status, self.process.log())
    }
}
