//! Workers added, drained and removed through the admin plane.

use http::Method;
use http_body_util::BodyExt;
use kvroute_core::BlockSize;
use kvroute_sim::SimConfig;
use kvroute_testkit::{CapturedLog, Fleet, engine, server_config};
use serde_json::{Value, json};

use super::caller::{Caller, until};
use super::load::Load;

const NOTHING: Value = Value::Null;

pub(crate) fn slow() -> SimConfig {
    SimConfig { decode_tps: 60, ..SimConfig::default() }
}

/// The id of a worker in a path.
pub(crate) fn path_of(url: &str) -> String {
    format!("/api/workers/{}", url.trim_start_matches("http://").replace(':', "%3A"))
}

/// What the admin plane shows of a worker; `Null` where it does not list it.
pub(crate) async fn shown(fleet: &Fleet, url: &str) -> Value {
    let workers = fleet.workers().await;
    let is_meant = |worker: &&Value| worker["url"] == url;
    workers.as_array().unwrap().iter().find(is_meant).cloned().unwrap_or(Value::Null)
}

#[tokio::test]
async fn a_worker_that_is_added_serves_and_one_that_is_removed_leaves_nothing_behind() {
    let fleet = Fleet::start(vec![SimConfig::default()], "round-robin").await;
    let (caller, workers) = (Caller::new(), fleet.admin("/api/workers"));
    let load = Load::on(vec![fleet.data("")]);
    let second = engine(SimConfig::default()).await;
    let url = second.url();
    let (status, added) = caller.json(Method::POST, &workers, &json!({"url": url, "model": "sim"})).await;
    assert_eq!((status, &added["url"], &added["source"]), (201, &json!(url), &json!("added")), "{added}");
    until("the added worker is ready", async || shown(&fleet, &url).await["state"] == "ready").await;
    until("it serves", async || second.stats().requests > 0).await;

    let (status, twice) = caller.json(Method::POST, &workers, &json!({"url": format!("{url}/")})).await;
    assert_eq!((status, &twice["error"]["code"]), (409, &json!("worker_exists")), "{twice}");

    let (status, leaves) = caller.json(Method::DELETE, &fleet.admin(&path_of(&url)), &NOTHING).await;
    assert_eq!((status, &leaves["state"]), (200, &json!("draining")), "{leaves}");
    until("it has left", async || shown(&fleet, &url).await.is_null()).await;
    let name = url.trim_start_matches("http://").to_owned();
    until("its series have gone", async || {
        let metrics = fleet.client.get(&fleet.admin("/metrics")).await.text();
        !metrics.contains(&name)
    })
    .await;
    let (status, gone) = caller.json(Method::DELETE, &fleet.admin(&path_of(&url)), &NOTHING).await;
    assert_eq!((status, &gone["error"]["code"]), (404, &json!("worker_not_found")), "{gone}");

    let before = second.stats().requests;
    load.more(8).await;
    assert_eq!(second.stats().requests, before, "a worker that has left is asked for nothing");
    let (status, _) = caller.json(Method::POST, &workers, &json!({"url": url})).await;
    assert_eq!(status, 201, "it may come back");
    until("it serves again", async || second.stats().requests > before).await;
    load.end().await;
    fleet.at_rest().await;
    fleet.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn what_cannot_be_added_is_named_and_changes_nothing() {
    let fleet = Fleet::start(vec![SimConfig::default()], "kv").await;
    let (caller, workers) = (Caller::new(), fleet.admin("/api/workers"));
    for (body, status, code, named) in [
        (json!({"url": "ftp://a"}), 422, "invalid_worker", "url is \"ftp://a\""),
        (json!({"url": "http://user:secret@a"}), 422, "invalid_worker", "without a user name"),
        (json!({"url": "http://a?x=1"}), 422, "invalid_worker", "without a query"),
        (json!({"url": "http://a", "role": "both"}), 422, "invalid_worker", "role is \"both\""),
        (json!({"url": "http://a", "role": "prefill"}), 422, "invalid_worker", "restart the router"),
        (json!({"url": "http://a", "kv_events": "udp://a:1"}), 422, "invalid_worker", "kv_events is"),
        (json!({"url": "http://a", "dp_ranks": -1}), 400, "invalid_json", "dp_ranks"),
        (json!({"url": "http://a", "weight": 1}), 400, "invalid_json", "unknown field `weight`"),
        (json!({"model": "sim"}), 400, "invalid_json", "missing field `url`"),
        (json!({"url": "http://a", "model": "other"}), 404, "model_not_found", "name one of: sim"),
    ] {
        let (answered, refusal) = caller.json(Method::POST, &workers, &body).await;
        let message = refusal["error"]["message"].as_str().unwrap_or_default();
        assert_eq!(answered, status, "{body}: {refusal}");
        assert!(message.contains(named) && !message.contains("secret"), "{body}: {refusal}");
        if status != 400 {
            assert_eq!(refusal["error"]["code"], code, "{body}: {refusal}");
        }
    }
    for path in ["/api/workers/nobody%3A1", "/api/workers/a%2Fb"] {
        let (status, refusal) = caller.json(Method::DELETE, &fleet.admin(path), &NOTHING).await;
        assert_eq!((status, &refusal["error"]["code"]), (404, &json!("worker_not_found")), "{path}");
        for action in ["drain", "undrain"] {
            let path = format!("{path}/{action}");
            assert_eq!(caller.json(Method::POST, &fleet.admin(&path), &NOTHING).await.0, 404, "{path}");
        }
    }
    assert_eq!(fleet.workers().await.as_array().unwrap().len(), 1);
    fleet.stop().await;
}

#[tokio::test]
async fn a_stream_ends_where_it_began_though_its_worker_was_removed() {
    let fleet = Fleet::start(vec![slow()], "kv").await;
    let (caller, url) = (Caller::new(), fleet.engines[0].url());
    let body = json!({
        "model": "sim", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 40, "stream": true,
    });
    let mut stream = fleet.client.open(&fleet.data("/v1/chat/completions"), &body).await.into_body();
    let mut text = String::new();
    while !text.contains("content\":\" ") {
        let frame = stream.frame().await.unwrap().unwrap();
        text.push_str(&String::from_utf8_lossy(frame.data_ref().unwrap()));
    }
    let (status, leaves) = caller.json(Method::DELETE, &fleet.admin(&path_of(&url)), &NOTHING).await;
    assert_eq!(
        (status, &leaves["state"], &leaves["running"]),
        (200, &json!("draining"), &json!(1)),
        "{leaves}"
    );
    let (status, taken) = caller.json(Method::POST, &fleet.admin("/api/workers"), &json!({"url": url})).await;
    assert_eq!((status, &taken["error"]["code"]), (409, &json!("worker_leaving")), "{taken}");
    while let Some(frame) = stream.frame().await {
        text.push_str(&String::from_utf8_lossy(frame.unwrap().data_ref().unwrap()));
    }
    assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
    until("the worker has left", async || shown(&fleet, &url).await.is_null()).await;
    fleet.stop().await;
}

#[tokio::test]
async fn a_drained_worker_takes_nothing_and_what_that_costs_is_named() {
    let small = || SimConfig { block_size: BlockSize::new(8).unwrap(), ..SimConfig::default() };
    let fleet = Fleet::start_with(vec![small(), small()], |urls| {
        let mut config = server_config(urls, "kv");
        config.router.pools[0].history.enabled = true;
        config
    })
    .await;
    let caller = Caller::new();
    let text = "tell me everything that you know about the weather ".repeat(20);
    let body = json!({"model": "sim", "messages": [{"role": "user", "content": text}], "max_tokens": 1});
    assert_eq!(fleet.client.post(&fleet.data("/v1/chat/completions"), &body).await.status, 200);
    let holds = async |url: &str| shown(&fleet, url).await["ranks"][0]["blocks"].as_u64() > Some(8);
    let urls: Vec<_> = fleet.engines.iter().map(|engine| engine.url()).collect();
    until("the index knows who has it", async || holds(&urls[0]).await || holds(&urls[1]).await).await;
    let holder = usize::from(holds(&urls[1]).await);
    let drain = fleet.admin(&format!("{}/drain", path_of(&urls[holder])));
    let (status, drained) = caller.json(Method::POST, &drain, &NOTHING).await;
    assert_eq!((status, &drained["state"], &drained["draining"]), (200, &json!("draining"), &json!(true)));

    let before = fleet.engines[holder].stats().requests;
    assert_eq!(fleet.client.post(&fleet.data("/v1/chat/completions"), &body).await.status, 200);
    assert_eq!(fleet.engines[holder].stats().requests, before);
    let scrape = fleet.at_rest().await;
    let lost = scrape
        .sum("kvroute_router_reuse_lost_tokens_total", &[("stage", "eligibility"), ("reason", "draining")]);
    assert!(lost > Some(100.0), "tokens given up because of the drain: {lost:?}");
    let id = urls[holder].trim_start_matches("http://");
    let state = scrape.sum("kvroute_worker_state", &[("worker_id", id), ("state", "draining")]);
    assert_eq!(state, Some(1.0));

    let undrain = fleet.admin(&format!("{}/undrain", path_of(&urls[holder])));
    assert_eq!(caller.json(Method::POST, &undrain, &NOTHING).await.1["state"], "ready");
    assert_eq!(fleet.client.post(&fleet.data("/v1/chat/completions"), &body).await.status, 200);
    fleet.at_rest().await;
    fleet.stop().await;
}

#[tokio::test]
async fn with_every_worker_drained_requests_wait_and_are_served_once_one_is_back() {
    let fleet = Fleet::start(vec![SimConfig::default()], "kv").await;
    let (caller, url) = (Caller::new(), fleet.engines[0].url());
    let act = async |action: &str| {
        caller.json(Method::POST, &fleet.admin(&format!("{}/{action}", path_of(&url))), &NOTHING).await.0
    };
    assert_eq!(act("drain").await, 200);
    let waits = fleet.data("/v1/chat/completions");
    let body = json!({"model": "sim", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 2});
    let served = async { caller.ask(Method::POST, &waits, &body).await.unwrap().status.as_u16() };
    let pending = async || {
        let metrics = fleet.scrape().await;
        metrics.sum("dynamo_frontend_router_queue_pending_requests", &[]).unwrap_or_default()
    };
    let comes_back = async {
        until("the request waits", async || pending().await > 0.0).await;
        act("undrain").await
    };
    assert_eq!(tokio::join!(served, comes_back), (200, 200));
    fleet.stop().await;
}

#[tokio::test]
async fn whoever_adds_an_engine_under_another_name_is_warned() {
    let log = CapturedLog::start();
    let fleet = Fleet::start(vec![SimConfig::default()], "kv").await;
    let warned = || log.entries(|entry| entry.message.contains("are probably one engine"));
    assert_eq!(warned().len(), 0);
    let url = fleet.engines[0].url();
    let other = url.replace("127.0.0.1", "localhost");
    let (caller, workers) = (Caller::new(), fleet.admin("/api/workers"));
    let (status, added) = caller.json(Method::POST, &workers, &json!({"url": other})).await;
    assert_eq!(status, 201, "two programs may share a port: {added}");
    let [warning] = &warned()[..] else { panic!("{:?}", warned()) };
    let names = (warning.field("worker"), warning.field("twin"));
    assert_eq!(names, (other.trim_start_matches("http://"), url.trim_start_matches("http://")));
    fleet.stop().await;
}
