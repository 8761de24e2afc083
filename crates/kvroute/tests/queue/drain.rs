//! The end of the drain time, with requests that have no answer yet.

use std::sync::Arc;

use kvroute_testkit::Exposition;

use crate::*;

/// A single prompt keeps the only worker busy until long after the drain time.
async fn soon_stopping() -> Fleet {
    let endless = SimConfig { prefill_tps: 10, ..SimConfig::default() };
    Fleet::start_with(vec![endless], |urls| {
        let mut config = config(urls, QueueConfig::default());
        config.drain = Duration::from_millis(300);
        config
    })
    .await
}

fn ask_whole(fleet: &Fleet, number: usize) -> JoinHandle<Answer> {
    let (client, url) = (fleet.client.clone(), fleet.data("/v1/chat/completions"));
    let mut body = question(number);
    body["stream"] = json!(false);
    tokio::spawn(async move { client.post(&url, &body).await })
}

/// Stops the router and tells what its metrics are then, and how many requests the engines got.
async fn stop(fleet: Fleet) -> (Exposition, u64) {
    let router = Arc::clone(fleet.server.router());
    fleet.server.stop().await;
    let mut requests = 0;
    for engine in fleet.engines {
        let stats = fleet.client.get(&format!("{}/stats", engine.url())).await.json();
        requests += stats["requests"].as_u64().unwrap();
        engine.stop().await;
    }
    (Exposition::parse(&router.metrics().render()), requests)
}

async fn assert_turned_away(answer: JoinHandle<Answer>) {
    let answer = answer.await.unwrap();
    assert_eq!((answer.status.as_u16(), &answer.error()["code"]), (503, &json!("router_stopping")));
    assert!(answer.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
}

#[tokio::test]
async fn those_in_line_at_the_end_of_the_drain_were_let_in_to_workers_and_cut_at_once() {
    let fleet = soon_stopping().await;
    let served = ask(&fleet, 0, &[]);
    until_started(&fleet, 1).await;
    let mut waiting: Vec<_> = (1..4).map(|number| ask(&fleet, number, &[])).collect();
    waiting.extend((4..7).map(|number| ask_whole(&fleet, number)));
    until_pending(&fleet, 6).await;
    let (scrape, requests) = stop(fleet).await;
    for answer in waiting {
        assert_turned_away(answer).await;
    }
    assert!(served.await.is_ok());
    assert_eq!(requests, 1, "no worker gets what nobody will read");
    assert_eq!(scrape.count(REFUSED, &[("reason", "stopping")]), 6);
    assert_eq!(scrape.count("kvroute_requests_total", &[("outcome", "rejected")]), 6);
    assert_eq!(scrape.sum(PENDING, &[]), Some(0.0));
}

#[tokio::test]
async fn an_answer_that_had_not_begun_at_the_end_of_the_drain_was_a_connection_closed_without_a_word() {
    let fleet = soon_stopping().await;
    let whole = ask_whole(&fleet, 0);
    until_started(&fleet, 1).await;
    let (scrape, _) = stop(fleet).await;
    assert_turned_away(whole).await;
    assert_eq!(scrape.count("kvroute_requests_total", &[("outcome", "failed")]), 1);
    assert_eq!(scrape.count("kvroute_attempts_total", &[]), 1);
}

#[tokio::test]
async fn those_who_wait_for_the_first_worker_are_turned_away_too() {
    let mut nowhere = server_config(&["http://127.0.0.1:1".to_owned()], "kv");
    nowhere.drain = Duration::from_millis(100);
    let fleet = Fleet::start_unfollowed(Vec::new(), |_| nowhere).await;
    let waiting = ask(&fleet, 0, &[]);
    until_pending_for(&fleet, "unknown", 1).await;
    let (scrape, _) = stop(fleet).await;
    assert_turned_away(waiting).await;
    assert_eq!(scrape.count("kvroute_requests_total", &[("outcome", "rejected")]), 1);
    assert_eq!(scrape.sum(PENDING, &[]), Some(0.0));
}

#[tokio::test]
async fn a_request_in_line_that_gets_its_turn_within_the_drain_is_served() {
    let Held { fleet, proxies } = Held::start(1, QueueConfig::default()).await;
    let first = ask(&fleet, 0, &[]);
    until_started(&fleet, 1).await;
    let waiting = ask(&fleet, 1, &[]);
    until_pending(&fleet, 1).await;
    // The stop has begun when the other one of the two is looked at.
    let ((_, requests), ()) = tokio::join!(stop(fleet), async { proxies[0].set(Fault::None) });
    assert_eq!([first.await.unwrap().status, waiting.await.unwrap().status], [200, 200]);
    assert_eq!(requests, 2);
}
