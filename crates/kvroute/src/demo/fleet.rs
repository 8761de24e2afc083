//! Cold engines and a router in front of them, in this process, on loopback sockets.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kvroute_core::ModelName;
use kvroute_metrics::MetricsOptions;
use kvroute_router::config::{ClusterConfig, HistoryConfig, ReadyWhen, TokenizerSource, WorkerConfig};
use kvroute_router::{PoolConfig, RouterConfig};
use kvroute_server::{Security, ServeConfig, Server};
use kvroute_sim::{PromptEncoder, SimConfig, SimEngine};
use serde::Deserialize;
use tokio::time::Instant;

use super::client::Client;
use super::plan::Plan;
use super::scrape::Scrape;
use crate::failure::Failure;

/// The model that every engine of the demo serves.
pub(crate) const MODEL: &str = "demo";

/// A free port of the loopback address.
const FREE_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

const MAX_BODY: usize = 32 << 20;
const DRAIN: Duration = Duration::from_secs(5);

/// How long engines and router may take to find each other, or to come to rest.
const PATIENCE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);

/// One run's engines and router.
#[derive(Debug)]
pub(crate) struct Fleet {
    engines: Vec<SimEngine>,
    server: Server,
    client: Client,
}

#[derive(Deserialize)]
struct EngineStats {
    reused_tokens: u64,
}

// === impl Fleet ===

impl Fleet {
    /// Starts everything and waits until the router is ready.
    pub(crate) async fn start(
        plan: &Plan,
        policy: &str,
        tokenizer: &Path,
        encoder: &Arc<dyn PromptEncoder>,
    ) -> Result<Self, Failure> {
        let mut engines = Vec::new();
        for _ in 0..plan.workers {
            engines.push(SimEngine::start(engine_config(plan), Arc::clone(encoder)).await?);
        }
        let urls = engines.iter().map(SimEngine::url);
        let server = Server::start(router_config(plan, policy, tokenizer, urls)).await?;
        let fleet = Self { engines, server, client: Client::new() };
        match fleet.wait_until_ready().await {
            Ok(()) => Ok(fleet),
            Err(failure) => {
                fleet.stop().await;
                Err(failure)
            }
        }
    }

    /// Base address of the router's data plane.
    pub(crate) fn data_url(&self) -> String {
        format!("http://{}", self.server.data_address())
    }

    /// Base address of the router's admin plane.
    pub(crate) fn admin_url(&self) -> String {
        format!("http://{}", self.server.admin_address())
    }

    /// The router's metrics now.
    pub(crate) async fn scrape(&self) -> Result<Scrape, Failure> {
        let url = format!("{}/metrics", self.admin_url());
        let body =
            self.client.get(&url).await.map_err(|error| Failure::while_doing("cannot scrape", error))?;
        Ok(Scrape::new(String::from_utf8_lossy(&body).into_owned()))
    }

    /// The router's metrics once every attempt is closed, which a stream's end tells its client a moment before, and
    /// every loss has its reason, which is found a moment after.
    pub(crate) async fn scrape_at_rest(&self) -> Result<Scrape, Failure> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let scrape = self.scrape().await?;
            if scrape.is_at_rest() {
                return Ok(scrape);
            }
            if Instant::now() >= deadline {
                return Err(Failure::Failed(format!(
                    "attempts are still open, or losses without a reason, {PATIENCE:?} after the last answer"
                )));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// What the engines say themselves about the tokens they reused.
    pub(crate) async fn engine_reused_tokens(&self) -> Result<u64, Failure> {
        let mut reused = 0;
        for engine in &self.engines {
            let stats = self.client.get_json::<EngineStats>(&format!("{}/stats", engine.url())).await;
            reused += stats
                .map_err(|error| Failure::while_doing("cannot read an engine's stats", error))?
                .reused_tokens;
        }
        Ok(reused)
    }

    /// Stops the router, then the engines.
    pub(crate) async fn stop(self) {
        self.server.stop().await;
        for engine in self.engines {
            engine.stop().await;
        }
    }

    async fn wait_until_ready(&self) -> Result<(), Failure> {
        let deadline = Instant::now() + PATIENCE;
        let url = format!("{}/ready", self.data_url());
        while let Err(reason) = self.client.get(&url).await {
            if Instant::now() >= deadline {
                return Err(Failure::while_doing("the router did not find its engines", reason));
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }
}

fn engine_config(plan: &Plan) -> SimConfig {
    SimConfig {
        listen: FREE_PORT,
        model: MODEL.to_owned(),
        kv_blocks: plan.kv_blocks,
        block_size: plan.block_size,
        max_model_len: plan.max_model_len,
        prefill_tps: plan.prefill_tps,
        decode_tps: plan.decode_tps,
        seed: plan.seed,
        ..SimConfig::default()
    }
}

/// `observe` is on, so that policies without an index show what was there to be reused, and so is the history, which tells
/// what was there before.
fn router_config(
    plan: &Plan,
    policy: &str,
    tokenizer: &Path,
    urls: impl Iterator<Item = String>,
) -> ServeConfig {
    let pool = PoolConfig {
        model: Some(ModelName::new(MODEL)),
        tokenizer: TokenizerSource::Path(tokenizer.to_owned()),
        policy: policy.to_owned(),
        observe: true,
        history: HistoryConfig { enabled: true, ..HistoryConfig::default() },
        ..PoolConfig::of_workers(urls.map(WorkerConfig::at).collect())
    };
    ServeConfig {
        listen: FREE_PORT,
        admin_listen: FREE_PORT,
        api_keys: None,
        trusted: Vec::new(),
        max_body: MAX_BODY,
        ready: ReadyWhen::default(),
        drain: DRAIN,
        metrics: MetricsOptions::default(),
        router: RouterConfig {
            pools: vec![pool],
            seed: plan.seed,
            trace_sample: 1.0,
            cluster: ClusterConfig::default(),
        },
        security: Security::default(),
    }
}
