//! Simulated engines and a router in front of them, in this process, on real sockets.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kvroute_metrics::MetricsOptions;
use kvroute_router::config::{PoolConfig, RouterConfig, TokenizerSource, WorkerConfig};
use kvroute_server::{ServeConfig, Server};
use kvroute_sim::{SimConfig, SimEngine, TokenizerEncoder};

use crate::{Client, Exposition};

/// A router and its engines.
#[derive(Debug)]
pub struct Fleet {
    /// The engines, in the order of their configuration.
    pub engines: Vec<SimEngine>,
    /// The router.
    pub server: Server,
    /// A client for both.
    pub client: Client,
}

/// The project's own small model folder.
pub fn demo_tokenizer_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/demo-tokenizer")
}

/// Starts one engine with the demo model's tokenizer.
pub async fn engine(config: SimConfig) -> SimEngine {
    let encoder = TokenizerEncoder::load(&demo_tokenizer_folder()).expect("the demo tokenizer loads");
    SimEngine::start(config, Arc::new(encoder)).await.expect("the simulated engine starts")
}

/// A router's configuration on free ports for workers at these addresses, with the demo model's tokenizer.
pub fn server_config(urls: &[String], policy: &str) -> ServeConfig {
    let free_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut pool = PoolConfig::of_workers(urls.iter().map(WorkerConfig::at).collect());
    pool.policy = policy.to_owned();
    pool.tokenizer = TokenizerSource::Path(demo_tokenizer_folder());
    ServeConfig {
        listen: free_port,
        admin_listen: free_port,
        max_body: 1 << 20,
        drain: Duration::from_secs(5),
        metrics: MetricsOptions::default(),
        router: RouterConfig { pools: vec![pool], seed: 7 },
    }
}

// === impl Fleet ===

impl Fleet {
    /// Starts engines and a router that knows their addresses only, and waits until it is ready.
    pub async fn start(engines: Vec<SimConfig>, policy: &str) -> Self {
        Self::start_with(engines, |urls| server_config(urls, policy)).await
    }

    /// The same, with a configuration made from the engines' addresses.
    pub async fn start_with(configs: Vec<SimConfig>, router: impl FnOnce(&[String]) -> ServeConfig) -> Self {
        let mut engines = Vec::with_capacity(configs.len());
        for config in configs {
            engines.push(engine(config).await);
        }
        let urls: Vec<_> = engines.iter().map(SimEngine::url).collect();
        let server = Server::start(router(&urls)).await.expect("the router starts");
        let fleet = Self { engines, server, client: Client::default() };
        fleet.all_joined(urls.len()).await;
        fleet
    }

    /// Address of a path of the data plane.
    pub fn data(&self, path: &str) -> String {
        format!("http://{}{path}", self.server.data_address())
    }

    /// Address of a path of the admin plane.
    pub fn admin(&self, path: &str) -> String {
        format!("http://{}{path}", self.server.admin_address())
    }

    /// The router's metrics.
    pub async fn scrape(&self) -> Exposition {
        self.client.scrape(&self.admin("")).await
    }

    /// Waits until as many attempts were closed as were started, then scrapes.
    pub async fn at_rest(&self) -> Exposition {
        let settled = |text: &str| {
            let scrape = Exposition::parse(text);
            let started = scrape.count("dynamo_component_router_requests_started_total", &[]);
            started == scrape.count("kvroute_attempts_total", &[])
        };
        let answer = self.client.until(&self.admin("/metrics"), |answer| settled(&answer.text())).await;
        Exposition::parse(&answer.text())
    }

    /// Ends router and engines.
    pub async fn stop(self) {
        self.server.stop().await;
        for engine in self.engines {
            engine.stop().await;
        }
    }

    async fn all_joined(&self, workers: usize) {
        let joined = |list: serde_json::Value| {
            let ready = |worker: &&serde_json::Value| {
                let ranks = worker["ranks"].as_array().map(Vec::as_slice).unwrap_or_default();
                let follows = |rank: &serde_json::Value| {
                    rank["source_state"].is_null() || rank["source_state"] == "exact"
                };
                worker["state"] == "ready" && !ranks.is_empty() && ranks.iter().all(follows)
            };
            list.as_array().map_or(0, |list| list.iter().filter(ready).count())
        };
        self.client.until(&self.admin("/api/workers"), |answer| joined(answer.json()) == workers).await;
    }
}
