//! A pool whose prompts are computed by some engines and answered by others.

use kvroute_core::WorkerRole;
use kvroute_router::PoolConfig;
use kvroute_router::config::WorkerConfig;
use kvroute_sim::{Faults, Flavour, SimConfig, SimEngine};
use kvroute_testkit::{Answer, Exposition, Fleet, Ledger, server_config};
use serde_json::{Value, json};

pub(crate) const MODEL: &str = "sim";
pub(crate) const COMPLETIONS: &str = "/v1/completions";
pub(crate) const CHAT: &str = "/v1/chat/completions";

/// The engines that hand over, each in its own way.
pub(crate) const FLAVOURS: [Flavour; 3] = [Flavour::Vllm, Flavour::Sglang, Flavour::TrtLlm];

/// Tokens of a prompt: 20 blocks and a bit.
pub(crate) const PROMPT: usize = 330;

/// A router in front of two prefill and two decode engines.
pub(crate) struct Split {
    pub(crate) fleet: Fleet,
}

const ROLES: [WorkerRole; 4] =
    [WorkerRole::Prefill, WorkerRole::Prefill, WorkerRole::Decode, WorkerRole::Decode];

// === impl Split ===

impl Split {
    pub(crate) async fn start(flavour: Flavour) -> Self {
        Self::start_with(flavour, |_| {}, |_| {}).await
    }

    pub(crate) async fn start_with(
        flavour: Flavour,
        engine: impl Fn(&mut SimConfig),
        pool: impl FnOnce(&mut PoolConfig),
    ) -> Self {
        Self::start_each([flavour; 2], engine, pool).await
    }

    /// Of each role one engine of either kind.
    pub(crate) async fn start_mixed(flavours: [Flavour; 2]) -> Self {
        Self::start_each(flavours, |_| {}, |_| {}).await
    }

    async fn start_each(
        flavours: [Flavour; 2],
        engine: impl Fn(&mut SimConfig),
        pool: impl FnOnce(&mut PoolConfig),
    ) -> Self {
        let config = |(number, role): (usize, WorkerRole)| {
            let mut config = SimConfig { flavour: flavours[number % 2], role, ..SimConfig::default() };
            engine(&mut config);
            config
        };
        let configs = ROLES.into_iter().enumerate().map(config).collect();
        let fleet = Fleet::start_unfollowed(configs, |urls| {
            let mut config = server_config(&[], "kv");
            config.trusted = vec!["127.0.0.0/8".parse().unwrap()];
            let worker = |(url, role): (&String, WorkerRole)| WorkerConfig { role, ..WorkerConfig::at(url) };
            config.router.pools[0].workers = urls.iter().zip(ROLES).map(worker).collect();
            pool(&mut config.router.pools[0]);
            config
        });
        Self { fleet: fleet.await }
    }

    pub(crate) fn prefills(&self) -> &[SimEngine] {
        &self.fleet.engines[..2]
    }

    pub(crate) fn decodes(&self) -> &[SimEngine] {
        &self.fleet.engines[2..]
    }

    pub(crate) async fn ask(&self, path: &str, body: &Value) -> Answer {
        self.fleet.client.post(&self.fleet.data(path), body).await
    }

    /// Until the events of a prompt that was computed have been applied; some engines are asked for theirs only now and then.
    pub(crate) async fn until_known(&self) {
        let blocks = (PROMPT / 16) as u64;
        let knows = |worker: &Value| {
            let mut ranks = worker["ranks"].as_array().into_iter().flatten();
            worker["role"] == "prefill" && ranks.any(|rank| rank["blocks"].as_u64() >= Some(blocks))
        };
        let workers = self.fleet.admin("/api/workers");
        self.fleet.client.until(&workers, |answer| answer.json().as_array().unwrap().iter().any(knows)).await;
    }

    /// The books, once nothing is in flight; they close.
    pub(crate) async fn books(&self) -> Books {
        let scrape = self.fleet.at_rest().await;
        Ledger::after_departures(&scrape).assert_closes();
        Books(scrape)
    }

    pub(crate) async fn all_behave(engines: &[SimEngine], faults: Faults) {
        for engine in engines {
            engine.set_faults(faults.clone()).await.unwrap();
        }
    }
}

/// What was counted.
pub(crate) struct Books(pub(crate) Exposition);

// === impl Books ===

impl Books {
    pub(crate) fn attempts(&self, phase: &str, outcome: &str) -> u64 {
        self.0.count("kvroute_attempts_total", &[("phase", phase), ("outcome", outcome)])
    }

    pub(crate) fn requests(&self, outcome: &str) -> u64 {
        self.0.count("kvroute_requests_total", &[("outcome", outcome)])
    }

    pub(crate) fn reused(&self, phase: &str) -> u64 {
        self.0.count("dynamo_component_router_kv_worker_reused_tokens_total", &[("phase", phase)])
    }

    pub(crate) fn selected(&self) -> u64 {
        let name = "dynamo_component_router_kv_selected_cached_prefix_tokens_total";
        self.0.count(name, &[("phase", "prefill")])
    }

    pub(crate) fn reports(&self, phase: &str, outcome: &str) -> u64 {
        self.0.count("kvroute_router_reuse_reports_total", &[("phase", phase), ("outcome", outcome)])
    }

    pub(crate) fn fallbacks(&self, reason: &str) -> u64 {
        self.0.count("kvroute_prefill_fallbacks_total", &[("reason", reason)])
    }

    pub(crate) fn stranded(&self) -> u64 {
        self.0.count("kvroute_stranded_prefill_tokens_total", &[])
    }
}

/// A prompt of its own for every seed, long enough for blocks.
pub(crate) fn completion(seed: u32, members: &Value) -> Value {
    let ids: Vec<_> = (0..PROMPT as u32).map(|position| (seed * 7919 + position * 31) % 500 + 3).collect();
    with(json!({"model": MODEL, "prompt": ids, "max_tokens": 8}), members)
}

pub(crate) fn chat(seed: u32, members: &Value) -> Value {
    let text = format!("{seed} {}", "Tell me more about the weather in the mountains. ".repeat(20));
    with(json!({"model": MODEL, "messages": [{"role": "user", "content": text}], "max_tokens": 8}), members)
}

fn with(mut body: Value, members: &Value) -> Value {
    for (name, value) in members.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

/// The usage that a client was told.
pub(crate) fn usage(answer: &Answer) -> Value {
    if answer.header("content-type").is_some_and(|kind| kind.starts_with("application/json")) {
        return answer.json()["usage"].clone();
    }
    let text = answer.text();
    let events = text.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    let mut usages = events.map(|data| serde_json::from_str::<Value>(data).unwrap()["usage"].clone());
    usages.rfind(|usage| !usage.is_null()).unwrap_or_default()
}
