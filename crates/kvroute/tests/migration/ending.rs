//! Whoever ends while another worker is asked leaves nothing behind.

use hyper::body::Incoming;
use kvroute_sim::SimConfig;
use kvroute_testkit::{Exposition, Fleet};
use serde_json::{Value, json};

use super::asking::{BOTH, COMPLETIONS, fleet, migrations, piece, request};

/// A fleet that takes its time, so that a test is there long before an answer ends.
async fn slow() -> Fleet {
    let engine = SimConfig { decode_tps: 2, ..SimConfig::default() };
    fleet(vec![engine.clone(), engine], |_| {}).await
}

/// A stream whose worker has died, and whose next one takes requests and never answers.
async fn between_workers(fleet: &Fleet, path: &str) -> Incoming {
    let answer = fleet.client.open(&fleet.data(path), &request(path, 1)).await;
    let first = answer.headers()["x-kvroute-worker"].to_str().unwrap().to_owned();
    let mut stream = answer.into_body();
    piece(&mut stream).await.unwrap();
    let failed = failed_attempts(&fleet.scrape().await);
    for worker in fleet.workers().await.as_array().unwrap() {
        let is_first = first.starts_with(worker["id"].as_str().unwrap());
        let faults = if is_first { json!({"once": "restart"}) } else { json!({"hang": true}) };
        switch(fleet, worker, &faults).await;
    }
    // Read on until the break is noticed.
    while failed_attempts(&fleet.scrape().await) == failed {
        tokio::select! {
            next = piece(&mut stream) => assert!(next.is_some(), "the stream ended"),
            () = tokio::time::sleep(std::time::Duration::from_millis(20)) => {}
        }
    }
    stream
}

async fn switch(fleet: &Fleet, worker: &Value, faults: &Value) {
    let url = format!("{}/faults", worker["url"].as_str().unwrap());
    let answer = fleet.client.post(&url, faults).await;
    assert!(answer.status.is_success(), "{}", answer.text());
}

async fn all_sound(fleet: &Fleet) {
    for engine in &fleet.engines {
        fleet.client.post(&format!("{}/faults", engine.url()), &json!({})).await;
    }
}

fn failed_attempts(scrape: &Exposition) -> u64 {
    scrape.count("kvroute_attempts_total", &[("outcome", "failed")])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_meanwhile_leaves_nothing_behind() {
    for path in BOTH {
        let fleet = slow().await;
        drop(between_workers(&fleet, path).await);
        let scrape = fleet.at_rest().await;
        assert_eq!((failed_attempts(&scrape), migrations(&fleet).await), (1, 0));
        assert_eq!(scrape.count("kvroute_requests_total", &[("outcome", "cancelled")]), 1);
        assert_eq!(scrape.count("kvroute_requests_total", &[]), 1);
        all_sound(&fleet).await;
        fleet.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_router_that_stops_meanwhile_says_so() {
    let fleet = slow().await;
    let mut stream = between_workers(&fleet, COMPLETIONS).await;
    let Fleet { engines, server, .. } = fleet;
    let stopped = tokio::spawn(server.stop());
    let mut rest = String::new();
    while let Some(piece) = piece(&mut stream).await {
        rest += &piece;
    }
    assert!(rest.contains("\"code\":\"router_stopping\""), "{rest}");
    stopped.await.unwrap();
    for engine in engines {
        engine.stop().await;
    }
}
