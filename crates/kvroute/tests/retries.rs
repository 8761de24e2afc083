//! A request whose worker brings no answer goes to another one, and the accounts know it as one request.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use kvroute_testkit::{Answer, Exposition, Fleet, PlainAnswer, PlainWorker, server_config};
use serde_json::{Value, json};

const MODEL: &str = "plain";

/// A router in front of plain workers.
async fn fleet(workers: &[PlainWorker]) -> Fleet {
    let urls: Vec<_> = workers.iter().map(PlainWorker::url).collect();
    let trusting = |_: &[String]| {
        let mut config = server_config(&urls, "round-robin");
        config.trusted = vec!["127.0.0.0/8".parse().unwrap()];
        config
    };
    let fleet = Fleet::start_unfollowed(Vec::new(), trusting).await;
    let is_ready = |worker: &Value| worker["state"] == "ready";
    let all_ready = |list: Value| list.as_array().unwrap().iter().all(is_ready);
    fleet.client.until(&fleet.admin("/api/workers"), |answer| all_ready(answer.json())).await;
    fleet
}

async fn ask(fleet: &Fleet, headers: &[(&str, &str)]) -> Answer {
    let body = json!({"model": MODEL, "prompt": "once upon a time"});
    fleet.client.post_with(&fleet.data("/v1/completions"), headers, &body).await
}

fn retries(scrape: &Exposition, reason: &str) -> u64 {
    scrape.count("kvroute_retries_total", &[("reason", reason)])
}

async fn worker(answer: PlainAnswer) -> PlainWorker {
    PlainWorker::start(MODEL, answer).await
}

fn answers() -> PlainAnswer {
    PlainAnswer::text(Value::Null)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_hangs_up_costs_its_client_nothing() {
    let workers = [worker(PlainAnswer::HangUp).await, worker(answers()).await];
    let fleet = fleet(&workers).await;
    for _ in 0..4 {
        assert_eq!(ask(&fleet, &[]).await.status, 200);
    }
    let hung_up = workers[0].asked() as u64;
    assert!(hung_up > 0, "the turns of a round reach every worker");
    let scrape = fleet.at_rest().await;
    assert_eq!([retries(&scrape, "broken"), retries(&scrape, "connect")], [hung_up, 0]);
    let attempts = |outcome| scrape.count("kvroute_attempts_total", &[("outcome", outcome)]);
    assert_eq!([attempts("completed"), attempts("failed")], [4, hung_up]);
    let requests =
        |outcome| scrape.count("kvroute_requests_total", &[("model", MODEL), ("outcome", outcome)]);
    assert_eq!([requests("completed"), requests("failed")], [4, 0]);
    let input = scrape.count("dynamo_component_router_input_sequence_tokens_sum", &[]);
    let repeated = scrape.count("kvroute_router_repeated_input_tokens_total", &[]);
    assert_eq!(input * hung_up, repeated * (4 + hung_up), "every prompt is equally long");
    assert_eq!(scrape.count("dynamo_component_router_requests_total", &[]), 4 + hung_up);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_breaks_workers_is_tried_on_two_of_them() {
    let workers = [
        worker(PlainAnswer::HangUp).await,
        worker(PlainAnswer::HangUp).await,
        worker(PlainAnswer::HangUp).await,
    ];
    let fleet = fleet(&workers).await;
    assert_eq!(ask(&fleet, &[]).await.status, 502);
    assert_eq!(workers.iter().map(PlainWorker::asked).sum::<usize>(), 2);
    let scrape = fleet.at_rest().await;
    assert_eq!(scrape.count("kvroute_requests_total", &[("model", MODEL), ("outcome", "failed")]), 1);
    assert_eq!(retries(&scrape, "broken"), 1);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_gone_costs_its_client_nothing() {
    let workers = [worker(answers()).await, worker(answers()).await];
    let fleet = fleet(&workers).await;
    let [gone, stays] = workers;
    drop(gone);
    for _ in 0..2 {
        assert_eq!(ask(&fleet, &[]).await.status, 200);
    }
    assert_eq!(stays.asked(), 2);
    let scrape = fleet.at_rest().await;
    assert_eq!(scrape.count("kvroute_requests_total", &[("model", MODEL), ("outcome", "failed")]), 0);
    let not_dispatched = scrape.count("dynamo_component_router_requests_started_total", &[]) - 2;
    assert_eq!(retries(&scrape, "connect"), not_dispatched);
    assert_eq!(scrape.count("dynamo_component_router_requests_total", &[]), 2);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pinned_request_is_not_sent_elsewhere() {
    let workers = [worker(PlainAnswer::HangUp).await, worker(answers()).await];
    let fleet = fleet(&workers).await;
    let name = workers[0].url().replace("http://", "");
    assert_eq!(ask(&fleet, &[("x-kvroute-worker", &name)]).await.status, 502);
    assert_eq!(workers.each_ref().map(PlainWorker::asked), [1, 0]);
    fleet.stop().await;
}
