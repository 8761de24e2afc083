//! A router with pools of every kind, and the engines behind it.

use std::path::Path;
use std::time::Duration;

use kvroute_core::{BlockSize, Tokens, WorkerRole};
use kvroute_metrics::{Row, rows};
use kvroute_router::PoolConfig;
use kvroute_router::config::{
    BusyThreshold, CountMode, DiscoveryConfig, DiscoveryKind, HistoryOutputs, IndexSource, QueueConfig,
    WorkerConfig,
};
use kvroute_server::ServeConfig;
use kvroute_sim::{EventEndpoint, SimConfig, SimEngine};
use kvroute_testkit::{Answer, Exposition, Fleet, PlainAnswer, PlainWorker, server_config};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::replica::Nats;

/// Two engines with events, routed by cache.
pub(crate) const KV: &str = "sim";
/// Two engines without events, in turn; the index is only looked up.
pub(crate) const MUTE: &str = "mute";
/// One engine that is busy with a single prompt; one more may wait.
pub(crate) const BUSY: &str = "busy";
/// One engine that caches more than its pool's index may know.
pub(crate) const LARGE: &str = "large";
/// One engine whose prompts are not counted.
pub(crate) const UNCOUNTED: &str = "uncounted";

/// One engine that computes prompts, and one that goes on from there.
pub(crate) const SPLIT: &str = "split";

/// One worker of which only the OpenAI interface is known.
pub(crate) const PLAIN: &str = "plain";

/// The engines, in the order of [`World::engine`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    First,
    Second,
    Busy,
    Large,
    Uncounted,
    Prefill,
    Decode,
    Mute,
    /// The last one, so that it can be taken away.
    Mortal,
}

/// Everything that runs.
pub(crate) struct World {
    prefix: String,
    pub(crate) fleet: Fleet,
    /// What replicas share their histories over; `None` where no pool has a history.
    pub(crate) nats: Option<Nats>,
    _plain: PlainWorker,
    _snapshots: TempDir,
}

// === impl World ===

impl World {
    /// Starts engines and the router, and waits until all have joined.
    pub(crate) async fn start(prefix: &str, nats: Option<Nats>) -> Self {
        let plain = PlainWorker::start(PLAIN, PlainAnswer::text(Value::Null)).await;
        let url = plain.url();
        let snapshots = tempfile::tempdir().unwrap();
        let fleet = Fleet::start_with(engines(), |urls| {
            let mut config = config(urls, &url, prefix);
            if let Some(nats) = &nats {
                remember(&mut config, nats, snapshots.path());
            }
            config
        });
        let fleet = fleet.await;
        let world = Self { prefix: prefix.to_owned(), fleet, nats, _plain: plain, _snapshots: snapshots };
        let joined = |answer: &Answer| {
            let workers = answer.json();
            let ready = workers.as_array().unwrap().iter().filter(|worker| worker["state"] == "ready");
            ready.count() == world.fleet.engines.len() + 1
        };
        world.fleet.client.until(&world.fleet.admin("/api/workers"), joined).await;
        world
    }

    /// Ends everything.
    pub(crate) async fn stop(self) {
        self.fleet.stop().await;
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn engine(&self, engine: Engine) -> &SimEngine {
        &self.fleet.engines[engine as usize]
    }

    /// The name of an engine as a worker.
    pub(crate) fn worker_id(&self, engine: Engine) -> String {
        self.engine(engine).address().to_string()
    }

    /// Pools whose funnel is known to its end, and their engines.
    pub(crate) fn models_with_events_or_memory(&self) -> [(&'static str, [&SimEngine; 2]); 2] {
        let both = |one, other| [self.engine(one), self.engine(other)];
        [(KV, both(Engine::First, Engine::Second)), (MUTE, both(Engine::Mute, Engine::Mortal))]
    }

    /// Host and port of the admin plane.
    pub(crate) fn admin_address(&self) -> String {
        self.fleet.server.admin_address().to_string()
    }

    pub(crate) async fn exposition(&self) -> String {
        self.fleet.client.get(&self.fleet.admin("/metrics")).await.text()
    }

    pub(crate) async fn scrape(&self) -> Exposition {
        Exposition::parse(&self.exposition().await)
    }

    /// Sum of all series of a family with these labels.
    pub(crate) async fn sum(&self, row: &Row, labels: &[(&str, &str)]) -> f64 {
        self.scrape().await.sum(&row.exposed_name(&self.prefix), labels).unwrap_or_default()
    }

    /// Waits until every attempt is closed and every token has its reason, then scrapes.
    pub(crate) async fn at_rest(&self) -> Exposition {
        let name = |row: &Row| row.exposed_name(&self.prefix);
        let is_at_rest = |text: &str| {
            let scrape = Exposition::parse(text);
            let sum = |row: &Row, labels: &[(&str, &str)]| scrape.sum(&name(row), labels).unwrap_or_default();
            let delivery = [("stage", "delivery")];
            let promised = sum(rows::COMPARED_PREDICTED, &[]) + sum(rows::REUSE_SURPLUS, &delivery);
            let delivered = sum(rows::COMPARED_REPORTED, &[]) + sum(rows::REUSE_LOST, &delivery);
            sum(rows::BOOKINGS, &[]) == sum(rows::ATTEMPTS, &[]) && promised == delivered
        };
        let answer =
            self.fleet.client.until(&self.fleet.admin("/metrics"), |answer| is_at_rest(&answer.text())).await;
        Exposition::parse(&answer.text())
    }

    /// Sends a completion, and wants it to succeed.
    pub(crate) async fn complete(&self, model: &str, prompt: &[u32], stream: bool) -> Answer {
        self.complete_at(model, prompt, stream, None).await
    }

    /// The same, at an engine that is named.
    pub(crate) async fn complete_at(
        &self,
        model: &str,
        prompt: &[u32],
        stream: bool,
        engine: Option<Engine>,
    ) -> Answer {
        let pin = engine.map(|engine| self.worker_id(engine));
        let headers: Vec<_> = pin.iter().map(|pin| ("x-kvroute-worker", pin.as_str())).collect();
        let url = self.fleet.data("/v1/completions");
        let answer = self.fleet.client.post_with(&url, &headers, &body(model, prompt, stream)).await;
        assert_eq!(answer.status, 200, "{model}: {}", answer.text());
        answer
    }

    /// Sends a completion past the router.
    pub(crate) async fn complete_unseen(&self, engine: Engine, model: &str, prompt: &[u32]) {
        let url = format!("{}/v1/completions", self.engine(engine).url());
        let answer = self.fleet.client.post(&url, &body(model, prompt, false)).await;
        assert_eq!(answer.status, 200, "{model}: {}", answer.text());
    }
}

/// A prompt of its own: no two numbers share a block.
pub(crate) fn prompt(number: u32, tokens: u32) -> Vec<u32> {
    (0..tokens).map(|position| 300 + (number * 7919 + position * (2 * number + 1)) % 1_500).collect()
}

pub(crate) fn body(model: &str, prompt: &[u32], stream: bool) -> Value {
    json!({"model": model, "prompt": prompt, "max_tokens": 4, "stream": stream})
}

/// Two pools with a history: one that learns answers too and keeps what it knows in a file, one that learns prompts only.
fn remember(config: &mut ServeConfig, nats: &Nats, snapshots: &Path) {
    config.router.cluster = nats.cluster();
    let [cached, in_turn, ..] = config.router.pools.as_mut_slice() else { panic!("two pools are there") };
    cached.history.enabled = true;
    cached.history.snapshot = Some(snapshots.join("history"));
    in_turn.history.enabled = true;
    in_turn.history.outputs = HistoryOutputs::Off;
}

/// In the order of [`Engine`].
fn engines() -> Vec<SimConfig> {
    let named = |model: &str| SimConfig { model: model.to_owned(), ..SimConfig::default() };
    let paced = SimConfig { prefill_tps: 40_000, decode_tps: 400, ..named(KV) };
    let mute = SimConfig {
        kv_events: EventEndpoint::None,
        kv_replay: EventEndpoint::None,
        kv_blocks: 64,
        ..named(MUTE)
    };
    let large = SimConfig {
        block_size: BlockSize::new(4).unwrap(),
        kv_blocks: 100_000,
        max_model_len: Some(131_072),
        ..named(LARGE)
    };
    let slow = SimConfig { decode_tps: 20, ..named(UNCOUNTED) };
    let of_role = |role| SimConfig { role, ..named(SPLIT) };
    let (prefill, decode) = (of_role(WorkerRole::Prefill), of_role(WorkerRole::Decode));
    vec![paced.clone(), paced, named(BUSY), large, slow, prefill, decode, mute.clone(), mute]
}

fn config(urls: &[String], plain: &str, prefix: &str) -> ServeConfig {
    let mut config = server_config(&[], "kv");
    config.trusted = vec!["127.0.0.0/8".parse().unwrap()];
    config.metrics.prefix = prefix.to_owned();
    let url = |engine: Engine| urls[engine as usize].as_str();
    let pool = |policy: &str, urls: &[&str]| {
        let mut pool = PoolConfig::of_workers(urls.iter().copied().map(WorkerConfig::at).collect());
        pool.policy = policy.to_owned();
        pool.tokenizer = config.router.pools[0].tokenizer.clone();
        pool
    };
    let mut cached = pool("kv", &[url(Engine::First), url(Engine::Second)]);
    cached.shadow = vec!["round-robin".to_owned(), "random".to_owned()];
    cached.decisions.sample = 0.5;
    let mut in_turn = pool("round-robin", &[url(Engine::Mute), url(Engine::Mortal)]);
    in_turn.observe = true;
    in_turn.index.source = IndexSource::Remembered;
    let mut busy = pool("kv", &[url(Engine::Busy)]);
    busy.queue =
        QueueConfig { limit: 1, threshold: BusyThreshold::Tokens(Tokens::ZERO), ..QueueConfig::default() };
    let mut large = pool("kv", &[url(Engine::Large)]);
    large.index.bytes = 1 << 20;
    // Its workers are configured; what finds further ones fails and says so.
    let kind = DiscoveryKind::File("no such file".into());
    large.discovery = Some(DiscoveryConfig { kind, refresh: Duration::from_secs(1) });
    let mut uncounted = pool("least-loaded", &[url(Engine::Uncounted)]);
    uncounted.count = CountMode::Off;
    uncounted.engine_load = Some(Duration::from_millis(200));
    let plain = pool("kv", &[plain]);
    let mut split = pool("kv", &[url(Engine::Prefill), url(Engine::Decode)]);
    for (worker, role) in split.workers.iter_mut().zip([WorkerRole::Prefill, WorkerRole::Decode]) {
        worker.role = role;
    }
    config.router.pools = vec![cached, in_turn, busy, large, uncounted, plain, split];
    config
}
