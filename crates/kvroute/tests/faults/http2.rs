//! Workers behind HTTP/2 over TLS, where one connection carries every request: what befalls a stream or a connection there
//! is told from an answer that is complete, and a request that nobody has looked at is sent again.

use std::time::Duration;

use kvroute_engine::UpstreamTls;
use kvroute_router::config::{PoolConfig, WorkerConfig};
use kvroute_server::Server;
use kvroute_sim::SimConfig;
use kvroute_testkit::{
    Answer, Authority, Client, Fleet, Http2Fault, Http2Front, Http2Reason, Ledger, engine, server_config,
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::site::{CHAT, COMPLETIONS};

/// A router whose workers can be reached by HTTP/2 only.
struct World {
    fleet: Fleet,
    fronts: Vec<Http2Front>,
}

// === impl World ===

impl World {
    /// With so many engines of this kind, and so many streams of a connection at a time.
    async fn start(
        engines: usize,
        config: SimConfig,
        streams: u32,
        change: impl FnOnce(&mut PoolConfig),
    ) -> Self {
        let authority = Authority::new("workers");
        let mut world = (Vec::new(), Vec::new());
        for number in 0..engines {
            let pair = authority.issue(&format!("worker-{number}"));
            let engine = engine(config.clone()).await;
            world.1.push(Http2Front::with_streams(engine.address(), &pair, streams).await);
            world.0.push(engine);
        }
        let (engines, fronts) = world;
        let mut config = server_config(&[], "round-robin");
        let pool = &mut config.router.pools[0];
        pool.workers = fronts.iter().map(|front| WorkerConfig::at(front.url())).collect();
        pool.tls = UpstreamTls::load(Some(&authority.ca()), None).unwrap();
        (pool.retries.share, pool.retries.floor) = (1.0, 1_000.0);
        change(pool);
        let server = Server::start(config).await.unwrap();
        let world = Self { fleet: Fleet { engines, server, client: Client::default() }, fronts };
        let count = world.fronts.len();
        world
            .until_workers(|list| list.iter().filter(|worker| worker["state"] == "ready").count() == count)
            .await;
        world
    }

    /// Usual engines, of which one that is blamed so often is left alone.
    async fn left_alone_after(failures: u32, engines: usize) -> Self {
        Self::start(engines, SimConfig::default(), 1_000, |pool| pool.breaker.failures = failures).await
    }

    /// The first worker is (not) left alone because of what befell its requests.
    async fn until_blamed(&self, blamed: bool) {
        let state = if blamed { "open" } else { "ready" };
        self.until_workers(|list| list[0]["state"] == state).await;
    }

    async fn until_workers(&self, holds: impl Fn(&[Value]) -> bool) {
        let workers = self.fleet.admin("/api/workers");
        let list = |answer: &Answer| answer.json().as_array().cloned().unwrap_or_default();
        self.fleet.client.until(&workers, |answer| holds(&list(answer))).await;
    }

    async fn until_running(&self, sequences: u64) {
        let stats = format!("{}/stats", self.fleet.engines[0].url());
        self.fleet.client.until(&stats, |answer| answer.json()["running"] == sequences).await;
    }

    async fn ask(&self, body: &Value) -> Answer {
        self.fleet.client.post(&self.fleet.data(COMPLETIONS), body).await
    }

    /// So many at once, each of which must get its own whole answer.
    async fn ask_many(&self, count: u64) {
        let mut asked = JoinSet::new();
        for tokens in 1..=count {
            for stream in [false, true] {
                let (client, url) = (self.fleet.client.clone(), self.fleet.data(COMPLETIONS));
                asked.spawn(
                    async move { is_whole(&client.post(&url, &question(tokens, stream)).await, tokens) },
                );
            }
        }
        while let Some(ended) = asked.join_next().await {
            ended.unwrap();
        }
    }

    /// Connections on which answers were asked for.
    fn connections(&self, worker: usize) -> usize {
        let mut numbers = self.fronts[worker].asked_on();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.len()
    }

    /// Nothing is left behind, requests have ended so, and the next one is served.
    async fn ends_soundly(self, outcomes: &[(&str, u64)]) {
        let scrape = self.fleet.at_rest().await;
        Ledger::of(&scrape).assert_closes();
        for (outcome, count) in outcomes {
            assert_eq!(scrape.count("kvroute_requests_total", &[("outcome", outcome)]), *count, "{outcome}");
        }
        let all: u64 = outcomes.iter().map(|(_, count)| count).sum();
        assert_eq!(scrape.count("kvroute_requests_total", &[]), all);
        is_whole(&self.ask(&question(3, true)).await, 3);
        self.fleet.stop().await;
    }

    async fn retries(&self, reason: &str) -> u64 {
        self.fleet.scrape().await.count("kvroute_retries_total", &[("reason", reason)])
    }
}

fn question(tokens: u64, stream: bool) -> Value {
    json!({
        "model": "sim", "prompt": [1, 2, tokens], "max_tokens": tokens, "ignore_eos": true, "stream": stream,
        "stream_options": if stream { json!({"include_usage": true}) } else { Value::Null },
    })
}

/// Whether it is the answer to its own question, to its end.
fn is_whole(answer: &Answer, tokens: u64) {
    let text = answer.text();
    assert_eq!(answer.status, 200, "{text}");
    let last = match text.strip_suffix("data: [DONE]\n\n") {
        Some(events) => events.trim_end().rsplit_once("data: ").unwrap().1.to_owned(),
        None => text.clone(),
    };
    let last: Value = serde_json::from_str(&last).unwrap_or_else(|error| panic!("{error} in {text}"));
    assert_eq!(last["usage"]["completion_tokens"], tokens, "{text}");
}

/// Threads of a router that serve clients; each has connections of its own to workers.
fn serving_threads() -> usize {
    std::thread::available_parallelism().unwrap().get()
}

/// A stream that takes longer than a test.
fn endless() -> Value {
    json!({"model": "sim", "prompt": [1, 2, 3], "max_tokens": 2_000, "ignore_eos": true, "stream": true})
}

fn slow() -> SimConfig {
    SimConfig { decode_tps: 1, ..SimConfig::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_requests_share_a_connection_and_each_gets_its_own_answer() {
    for streams in [1_000, 4] {
        let world = World::start(1, SimConfig::default(), streams, |_| {}).await;
        world.ask_many(1).await;
        world.ask_many(40).await;
        let connections = world.connections(0);
        assert!(connections <= serving_threads(), "{connections}: {streams} streams at once need no more");
        world.ends_soundly(&[("completed", 82)]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_leaves_resets_its_stream_and_no_other() {
    let world = World::start(1, slow(), 1_000, |_| {}).await;
    let url = world.fleet.data(COMPLETIONS);
    // So many that some share a connection.
    let clients = serving_threads() + 1;
    let mut stay = Vec::new();
    for _ in 0..clients {
        let client = Client::default();
        stay.push((client.open(&url, &endless()).await, client));
    }
    world.until_running(clients as u64).await;
    assert!(world.connections(0) < clients);
    drop(stay.pop());
    world.until_running(clients as u64 - 1).await;
    assert_eq!(world.fronts[0].resets(), [Http2Reason::CANCEL]);
    drop(stay);
    world.until_running(0).await;
    let scrape = world.fleet.at_rest().await;
    assert_eq!(scrape.count("kvroute_requests_total", &[("outcome", "cancelled")]), clients as u64);
    world.fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_leaves_before_its_answer_resets_its_stream() {
    let slow = SimConfig { prefill_tps: 1, ..SimConfig::default() };
    let world = World::start(1, slow, 1_000, |_| {}).await;
    let body = json!({"model": "sim", "prompt": vec![7; 900], "max_tokens": 1});
    let mut asked = JoinSet::new();
    let (client, url) = (Client::default(), world.fleet.data(COMPLETIONS));
    asked.spawn(async move { client.post(&url, &body).await });
    world.until_running(1).await;
    asked.abort_all();
    world.until_running(0).await;
    let scrape = world.fleet.at_rest().await;
    assert_eq!(world.fronts[0].resets(), [Http2Reason::CANCEL]);
    assert_eq!(scrape.count("kvroute_requests_total", &[("outcome", "cancelled")]), 1);
    world.fleet.stop().await;
}

/// A reset may say that all is well (`NO_ERROR`): the answer is broken nevertheless.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_reset_in_its_middle_is_no_success_whatever_the_reset_says() {
    for reason in [Http2Reason::NO_ERROR, Http2Reason::CANCEL, Http2Reason::INTERNAL_ERROR] {
        let world = World::left_alone_after(2, 1).await;
        for path in [COMPLETIONS, CHAT] {
            world.fronts[0].set(Http2Fault::ResetAt(200, reason), 1);
            let mut body = question(30, true);
            if path == CHAT {
                body["messages"] = json!([{"role": "user", "content": "hello"}]);
            }
            let answer = world.fleet.client.post(&world.fleet.data(path), &body).await;
            let text = answer.text();
            assert_eq!(answer.status, 200, "{text}");
            let last = text.trim_end().rsplit_once("data: ").unwrap().1;
            let last: Value =
                serde_json::from_str(last).unwrap_or_else(|_| panic!("{reason}: a silent end of {text}"));
            assert_eq!(last["error"]["code"], "upstream_broke_mid_stream", "{text}");
        }
        world.until_blamed(true).await;
        world.ends_soundly(&[("failed", 2)]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_an_answer_is_none_and_another_worker_is_asked() {
    for reason in [Http2Reason::NO_ERROR, Http2Reason::CANCEL, Http2Reason::INTERNAL_ERROR] {
        let world = World::left_alone_after(100, 2).await;
        world.fronts[0].set(Http2Fault::ResetAt(40, reason), 1);
        let mut asked = 0;
        while world.fronts[0].suffered() == 0 {
            asked += 1;
            assert!(asked < 10, "the first worker is never asked");
            is_whole(&world.ask(&question(5, false)).await, 5);
        }
        assert_eq!(world.retries("broken").await, 1);
        world.ends_soundly(&[("completed", asked)]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_was_not_looked_at_is_sent_again() {
    let world = World::left_alone_after(1, 1).await;
    for stream in [false, true] {
        is_whole(&world.ask(&question(4, stream)).await, 4);
        world.fronts[0].set(Http2Fault::Refuse(Http2Reason::REFUSED_STREAM), 1);
        is_whole(&world.ask(&question(5, stream)).await, 5);
    }
    assert_eq!(world.fleet.engines[0].stats().requests, 4);
    world.until_blamed(false).await;
    world.ends_soundly(&[("completed", 4)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_behind_the_last_one_of_a_connection_is_sent_again_on_a_new_one() {
    let world = World::left_alone_after(1, 1).await;
    for stream in [false, true] {
        is_whole(&world.ask(&question(4, stream)).await, 4);
        world.fronts[0].set(Http2Fault::GoAway, 1);
        is_whole(&world.ask(&question(5, stream)).await, 5);
    }
    assert_eq!(world.fleet.engines[0].stats().requests, 4, "each was computed once");
    world.until_blamed(false).await;
    world.ends_soundly(&[("completed", 4)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_requests_behind_the_last_one_of_a_connection_are_sent_again() {
    let world = World::left_alone_after(1, 1).await;
    world.ask_many(1).await;
    world.fronts[0].set(Http2Fault::GoAway, 1);
    world.ask_many(20).await;
    world.until_blamed(false).await;
    world.ends_soundly(&[("completed", 42)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_retired_finishes_its_streams_and_takes_no_more() {
    let config = SimConfig { decode_tps: 50, ..SimConfig::default() };
    let world = World::start(1, config, 1_000, |_| {}).await;
    let mut asked = JoinSet::new();
    for tokens in 40..50 {
        let (client, url) = (world.fleet.client.clone(), world.fleet.data(COMPLETIONS));
        asked.spawn(async move { is_whole(&client.post(&url, &question(tokens, true)).await, tokens) });
    }
    world.until_running(10).await;
    let before = world.fronts[0].asked_on();
    world.fronts[0].retire();
    tokio::time::sleep(Duration::from_millis(100)).await;
    is_whole(&world.ask(&question(2, true)).await, 2);
    let after = world.fronts[0].asked_on();
    assert!(!before.contains(after.last().unwrap()), "{before:?} {after:?}");
    while let Some(ended) = asked.join_next().await {
        ended.unwrap();
    }
    assert_eq!(world.retries("stale").await + world.retries("broken").await, 0);
    world.ends_soundly(&[("completed", 11)]).await;
}
