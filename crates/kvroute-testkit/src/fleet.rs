//! Simulated engines and a router in front of them, in this process, on real sockets.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kvroute_metrics::MetricsOptions;
use kvroute_router::config::{
    ClusterConfig, PoolConfig, ReadyWhen, RouterConfig, TokenizerSource, WorkerConfig,
};
use kvroute_server::{Security, ServeConfig, Server};
use kvroute_sim::{SimConfig, SimEngine, TokenizerEncoder};
use serde_json::Value;

use crate::{Client, Exposition, Fault, FaultyProxy, Ledger, kept_address};

/// A router with nothing in flight gives every loss its reason within a few seconds.
const COMES_TO_REST_WITHIN: Duration = Duration::from_secs(60);

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

/// Starts one engine with the demo model's tokenizer. Where any port will do it gets one that stays its own when it has ended.
pub async fn engine(mut config: SimConfig) -> SimEngine {
    if config.listen.port() == 0 {
        config.listen = kept_address();
    }
    let encoder = TokenizerEncoder::load(&demo_tokenizer_folder()).expect("the demo tokenizer loads");
    SimEngine::start(config, Arc::new(encoder)).await.expect("the simulated engine starts")
}

async fn engines(configs: Vec<SimConfig>) -> Vec<SimEngine> {
    let mut engines = Vec::with_capacity(configs.len());
    for config in configs {
        engines.push(engine(config).await);
    }
    engines
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
        trusted: Vec::new(),
        api_keys: None,
        max_body: 1 << 20,
        ready: ReadyWhen::default(),
        drain: Duration::from_secs(5),
        metrics: MetricsOptions::default(),
        router: RouterConfig {
            pools: vec![pool],
            seed: 7,
            trace_sample: 1.0,
            cluster: ClusterConfig::default(),
        },
        security: Security::default(),
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
        let fleet = Self::start_unfollowed(configs, router).await;
        fleet.all_joined(is_followed).await;
        fleet
    }

    /// The same with a proxy in front of each engine, in their order. The router knows the proxies only, so that what befalls
    /// an answer there is what it sees of the engine.
    pub async fn start_behind(
        configs: Vec<SimConfig>,
        fault: Fault,
        router: impl FnOnce(&[String]) -> ServeConfig,
    ) -> (Self, Vec<FaultyProxy>) {
        let engines = engines(configs).await;
        let mut proxies = Vec::with_capacity(engines.len());
        for engine in &engines {
            proxies.push(FaultyProxy::start(&engine.url(), fault).await);
        }
        let urls: Vec<_> = proxies.iter().map(FaultyProxy::url).collect();
        let server = Server::start(router(&urls)).await.expect("the router starts");
        let fleet = Self { engines, server, client: Client::default() };
        fleet.all_joined(is_followed).await;
        (fleet, proxies)
    }

    /// The same, without waiting for event sources that are not exact until something is published.
    pub async fn start_unfollowed(
        configs: Vec<SimConfig>,
        router: impl FnOnce(&[String]) -> ServeConfig,
    ) -> Self {
        let engines = engines(configs).await;
        let urls: Vec<_> = engines.iter().map(SimEngine::url).collect();
        let server = Server::start(router(&urls)).await.expect("the router starts");
        let fleet = Self { engines, server, client: Client::default() };
        fleet.all_joined(|_| true).await;
        fleet
    }

    /// Ends the router and starts another one in front of the same engines; waits until they have joined, not until
    /// their sources are exact.
    pub async fn restart_router(self, config: ServeConfig) -> Self {
        let Self { engines, server, client } = self;
        server.stop().await;
        let server = Server::start(config).await.expect("the router starts again");
        let fleet = Self { engines, server, client };
        fleet.all_joined(|_| true).await;
        fleet
    }

    /// What the admin plane tells of the workers.
    pub async fn workers(&self) -> Value {
        self.client.get(&self.admin("/api/workers")).await.json()
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

    /// Waits until nothing is in flight and the books close, then gives a scrape of that rest. Fails with what does not
    /// close if that never comes; workers may have left.
    ///
    /// The first scrape that closes is not the one: families are read one after the other, so the first of them may stand
    /// from before the last attempt closed and the last from after it.
    pub async fn at_rest(&self) -> Exposition {
        let mut last = Vec::new();
        let rested = async {
            let mut was_at_rest = false;
            loop {
                let scrape = self.scrape().await;
                last = Ledger::after_departures(&scrape).faults();
                match (last.is_empty(), was_at_rest) {
                    (true, true) => return scrape,
                    (true, false) => was_at_rest = true,
                    (false, _) => {
                        was_at_rest = false;
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                }
            }
        };
        let rested = tokio::time::timeout(COMES_TO_REST_WITHIN, rested).await;
        rested.unwrap_or_else(|_| panic!("the router never comes to rest:\n{}", last.join("\n")))
    }

    /// Ends router and engines.
    pub async fn stop(self) {
        self.server.stop().await;
        for engine in self.engines {
            engine.stop().await;
        }
    }

    /// Waits until every engine is a ready worker and all its ranks satisfy a condition.
    async fn all_joined(&self, holds: fn(&Value) -> bool) {
        let has_joined = |worker: &&Value| {
            let ranks = worker["ranks"].as_array().map(Vec::as_slice).unwrap_or_default();
            worker["state"] == "ready" && !ranks.is_empty() && ranks.iter().all(holds)
        };
        let joined = |list: Value| list.as_array().map_or(0, |list| list.iter().filter(has_joined).count());
        let workers = self.admin("/api/workers");
        self.client.until(&workers, |answer| joined(answer.json()) >= self.engines.len()).await;
    }
}

/// Whether nothing is in doubt about a rank's event source, or it has none.
fn is_followed(rank: &Value) -> bool {
    let state = &rank["source_state"];
    state.is_null() || state == "exact" || state == "remembered"
}
