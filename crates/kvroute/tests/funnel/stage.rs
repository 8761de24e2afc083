//! Two engines with a pool to themselves, where one request after the other is placed as a test wants it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kvroute_server::ServeConfig;
use kvroute_sim::{Faults, SimConfig, SimEngine};
use kvroute_testkit::{Client, Exposition, Fleet, server_config};
use serde_json::{Value, json};
use tokio::task::JoinSet;

pub(crate) const COMPLETIONS: &str = "/v1/completions";
pub(crate) const LOST: &str = "kvroute_router_reuse_lost_tokens_total";

/// Tokens of a block.
pub(crate) const BLOCK: usize = 16;

/// The pool of one model, which nobody else asks.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    pub(crate) client: Client,
    pub(crate) model: String,
    /// Names of its workers.
    pub(crate) workers: Vec<String>,
    data: String,
    admin: String,
}

/// Where a request goes and what it asks of the selection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ask<'a> {
    pub(crate) pin: Option<&'a str>,
    pub(crate) weights: &'a str,
    pub(crate) session: Option<&'a str>,
}

/// A request that is somewhere on its way; dropping it, its client leaves.
#[derive(Debug)]
pub(crate) struct Underway {
    pub(crate) decision: Value,
    answer: JoinSet<u16>,
}

/// A fleet of one pool that trusts this test.
pub(crate) async fn fleet(engines: Vec<SimConfig>, change: impl FnOnce(&mut ServeConfig)) -> Fleet {
    Fleet::start_with(engines, |urls| {
        let mut config = server_config(urls, "kv");
        config.trusted = vec!["127.0.0.0/8".parse().unwrap()];
        change(&mut config);
        config
    })
    .await
}

/// Two engines without delays under policy `kv`.
pub(crate) async fn pair() -> Fleet {
    fleet(vec![SimConfig::default(); 2], |_| {}).await
}

/// The worker's name of an engine.
pub(crate) fn name(engine: &SimEngine) -> String {
    engine.address().to_string()
}

/// Token ids that share no block with those of another seed.
pub(crate) fn ids(seed: u32, count: usize) -> Vec<u32> {
    let word = |position: u32| 300 + (seed.wrapping_mul(7919) ^ position.wrapping_mul(104_729)) % 1_700;
    [300 + seed % 1_700].into_iter().chain((1..).map(word)).take(count).collect()
}

/// Tokens that were lost for a reason, of all models.
pub(crate) fn lost(scrape: &Exposition, stage: &str, reason: &str) -> u64 {
    scrape.count(LOST, &[("stage", stage), ("reason", reason)])
}

// === impl Stage ===

impl Stage {
    pub(crate) fn of(fleet: &Fleet) -> Self {
        let workers = fleet.engines.iter().map(name).collect();
        Self::new(&fleet.client, (&fleet.data(""), &fleet.admin("")), "sim", workers)
    }

    pub(crate) fn new(
        client: &Client,
        (data, admin): (&str, &str),
        model: &str,
        workers: Vec<String>,
    ) -> Self {
        Self {
            client: client.clone(),
            model: model.to_owned(),
            workers,
            data: data.to_owned(),
            admin: admin.to_owned(),
        }
    }

    /// The same workers by another name of what they serve.
    pub(crate) fn asked_as(&self, model: &str) -> Self {
        Self { model: model.to_owned(), ..self.clone() }
    }

    /// Where prompts are sent.
    pub(crate) fn url(&self) -> String {
        format!("{}{COMPLETIONS}", self.data)
    }

    pub(crate) fn worker(&self, number: usize) -> &str {
        &self.workers[number]
    }

    /// Serves a prompt on one worker and waits until the index knows its complete blocks there.
    pub(crate) async fn warm(&self, worker: usize, prompt: &[u32]) {
        let ask = Ask { pin: Some(self.worker(worker)), ..Ask::default() };
        self.served(ask, prompt).await;
        self.until_cached(worker, prompt, (prompt.len() / BLOCK * BLOCK) as u64).await;
    }

    /// Serves a prompt to its end and gives its decision.
    pub(crate) async fn served(&self, ask: Ask<'_>, prompt: &[u32]) -> Value {
        let mut underway = self.sent(ask, prompt).await;
        let status = underway.answer.join_next().await.unwrap().unwrap();
        assert_eq!(status, 200, "{:#}", underway.decision);
        underway.decision
    }

    /// Sends a prompt and waits until it is placed, not until it is answered.
    pub(crate) async fn sent(&self, ask: Ask<'_>, prompt: &[u32]) -> Underway {
        let (client, url) = (self.client.clone(), self.url());
        let body = json!({"model": self.model, "prompt": prompt, "max_tokens": 2, "stream": true});
        let id = unique_id();
        let headers = ask.headers(&id);
        let mut answer = JoinSet::new();
        answer.spawn(async move {
            let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            client.post_with(&url, &headers, &body).await.status.as_u16()
        });
        let decision = format!("{}/api/decisions/{id}", self.admin);
        let decision = self.client.until(&decision, |answer| answer.status == 200).await.json();
        Underway { decision, answer }
    }

    /// Waits until the index believes so many tokens of a prompt to be cached on a worker. Asking leaves no trace.
    pub(crate) async fn until_cached(&self, worker: usize, prompt: &[u32], tokens: u64) {
        let cached = async {
            while self.cached(worker, prompt).await != Some(tokens) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(60), cached).await;
        assert!(waited.is_ok(), "{} never had {tokens} tokens cached", self.worker(worker));
    }

    /// What the index believes to be cached of a prompt on a worker; `None` while the worker cannot be asked about.
    pub(crate) async fn cached(&self, worker: usize, prompt: &[u32]) -> Option<u64> {
        let body = json!({"model": self.model, "prompt": prompt, "max_tokens": 2});
        let question = json!({"endpoint": COMPLETIONS, "body": body});
        let advice = self.client.post(&format!("{}/api/route", self.admin), &question).await.json();
        let candidates = advice["candidates"].as_array()?;
        let of_worker = candidates.iter().find(|candidate| candidate["worker_id"] == self.worker(worker))?;
        of_worker["cached_tokens"].as_u64()
    }

    /// Waits until a worker is in a state.
    pub(crate) async fn until_state(&self, worker: usize, holds: impl Fn(&Value) -> bool) {
        let is_there = |status: &Value| status["id"] == self.worker(worker) && holds(status);
        let workers = format!("{}/api/workers", self.admin);
        self.client.until(&workers, |answer| answer.json().as_array().unwrap().iter().any(is_there)).await;
    }

    /// Every decision that was kept for the pool.
    pub(crate) async fn decisions(&self) -> Vec<Value> {
        let list = self.client.get(&format!("{}/api/decisions?limit=4096", self.admin)).await.json();
        let is_own = |decision: &&Value| decision["model"] == self.model.as_str();
        list.as_array().unwrap().iter().filter(is_own).cloned().collect()
    }

    /// The stages before delivery, as the decisions tell them, must be what the metrics say.
    pub(crate) async fn assert_decisions_are_the_ledger(&self, scrape: &Exposition) {
        let decisions = self.decisions().await;
        let amount = |decision: &Value, name: &str| decision[name].as_u64().unwrap();
        for (stage, reason, more, less) in [
            ("eligibility", "eligibility_reason", "best_cached_tokens", "best_eligible_cached_tokens"),
            ("placement", "placement_reason", "best_eligible_cached_tokens", "selected_cached_tokens"),
        ] {
            for (labels, tokens) in scrape.family(LOST) {
                if labels["stage"] != stage || labels["model"] != self.model {
                    continue;
                }
                let of_reason =
                    decisions.iter().filter(|decision| decision[reason] == labels["reason"].as_str());
                let told: u64 =
                    of_reason.map(|decision| amount(decision, more) - amount(decision, less)).sum();
                assert_eq!(told, tokens as u64, "{labels:?}");
            }
        }
    }
}

/// No other request of this test has it.
pub(crate) fn unique_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("funnel-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

// === impl Ask ===

impl Ask<'_> {
    pub(crate) fn headers(&self, id: &str) -> Vec<(&'static str, String)> {
        let mut headers = vec![("x-request-id", id.to_owned())];
        headers.extend(self.pin.map(|worker| ("x-kvroute-worker", worker.to_owned())));
        headers.extend(self.session.map(|session| ("x-session-id", session.to_owned())));
        if !self.weights.is_empty() {
            headers.push(("x-kvroute-override", self.weights.to_owned()));
        }
        headers
    }
}

/// From now on an engine takes requests and never answers.
pub(crate) async fn hang(engine: &SimEngine) {
    engine.set_faults(Faults { hang: true, ..Faults::default() }).await.unwrap();
}

/// It behaves again, towards new requests.
pub(crate) async fn behave(engine: &SimEngine) {
    engine.set_faults(Faults::default()).await.unwrap();
}
