//! One llama.cpp server with one router in front of it, both as the programs that users start.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::{Method, Request, StatusCode, body::Bytes};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kvroute_testkit::Exposition;
use serde_json::Value;

use crate::process::{Process, free_port};

/// The name under which the engine serves its model.
pub(crate) const MODEL: &str = "tiny-demo";

/// How often something is asked for before the test gives up, a twentieth of a second apart.
const TRIES: usize = 600;

pub(crate) struct Fleet {
    engine: Process,
    router: Process,
    engine_url: String,
    url: String,
    admin_url: String,
    client: Client<HttpConnector, Full<Bytes>>,
}

// === impl Fleet ===

impl Fleet {
    /// Starts both and waits until the router is ready. `None`, said aloud, without a llama.cpp server.
    pub(crate) async fn start() -> Option<Self> {
        let Some(program) = std::env::var_os("KVROUTE_LLAMA_SERVER") else {
            assert!(std::env::var_os("KVROUTE_REQUIRE_PEERS").is_none(), "KVROUTE_LLAMA_SERVER is not set");
            eprintln!("skipped: set KVROUTE_LLAMA_SERVER to a llama-server (`cargo xtask test` builds one)");
            return None;
        };
        let [engine_port, port, admin_port] = [free_port(), free_port(), free_port()];
        let engine_url = format!("http://127.0.0.1:{engine_port}");
        let mut fleet = Self {
            engine: Process::start(&mut engine(Path::new(&program), engine_port)),
            router: Process::start(&mut router(&engine_url, port, admin_port)),
            engine_url,
            url: format!("http://127.0.0.1:{port}"),
            admin_url: format!("http://127.0.0.1:{admin_port}"),
            client: Client::builder(TokioExecutor::new()).build_http(),
        };
        fleet.wait_until_ready().await;
        Some(fleet)
    }

    /// The body of the router's answer to a chat.
    pub(crate) async fn chat(&self, body: &Value) -> String {
        self.ask("/v1/chat/completions", body).await
    }

    /// The body of the router's answer to any request that is served.
    pub(crate) async fn ask(&self, path: &str, body: &Value) -> String {
        let request = Request::post(format!("{}{path}", self.url))
            .header("content-type", "application/json")
            .body(Full::from(body.to_string()))
            .unwrap();
        let response = self.client.request(request).await.unwrap();
        let status = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        assert_eq!(status, StatusCode::OK, "{text}");
        text
    }

    pub(crate) async fn engine_metrics(&self) -> Exposition {
        let metrics = self.get(&self.engine_url, "/metrics").await;
        Exposition::parse(&metrics.expect("the engine shows its metrics"))
    }

    /// The router's metrics once `holds` is true of them: an attempt is closed shortly after its answer ended.
    pub(crate) async fn router_metrics_when(&self, holds: impl Fn(&Exposition) -> bool) -> Exposition {
        let mut metrics = String::new();
        for _ in 0..TRIES {
            metrics = self.get(&self.admin_url, "/metrics").await.expect("the router shows its metrics");
            let exposition = Exposition::parse(&metrics);
            if holds(&exposition) {
                return exposition;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the router's metrics never became what was waited for:\n{metrics}");
    }

    async fn wait_until_ready(&mut self) {
        for _ in 0..TRIES {
            self.engine.check_alive();
            self.router.check_alive();
            if self.get(&self.url, "/ready").await.is_some() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the router did not become ready");
    }

    /// The body, if the server is there and answers with success.
    async fn get(&self, server: &str, path: &str) -> Option<String> {
        let request = Request::builder().method(Method::GET).uri(format!("{server}{path}"));
        let response = self.client.request(request.body(Full::default()).unwrap()).await.ok()?;
        let is_success = response.status().is_success();
        let bytes = response.into_body().collect().await.ok()?.to_bytes();
        is_success.then(|| String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn engine(program: &Path, port: u16) -> Command {
    let mut command = Command::new(program);
    command.arg("--model").arg(assets().join("llama/tiny-demo.gguf")).args(["--alias", MODEL]);
    command.args(["--host", "127.0.0.1", "--port", &port.to_string()]);
    command.args(["--ctx-size", "4096", "--parallel", "2", "--threads", "1", "--threads-http", "2"]);
    command.args(["--jinja", "--metrics", "--slots", "--no-warmup", "--no-ui", "--log-disable"]);
    command
}

fn router(worker: &str, port: u16, admin_port: u16) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kvroute"));
    command.args(["serve", "--policy", "least-loaded", "--worker", worker]);
    command.arg("--tokenizer").arg(assets().join("demo-tokenizer"));
    command.args([
        "--listen",
        &format!("127.0.0.1:{port}"),
        "--admin-listen",
        &format!("127.0.0.1:{admin_port}"),
    ]);
    command
}

fn assets() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets")
}
