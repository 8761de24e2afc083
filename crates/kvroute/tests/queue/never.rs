//! What no waiting can help, and what is said of it.

use crate::*;

async fn trusting(engines: Vec<SimConfig>, policy: &str, patience: Duration) -> Fleet {
    Fleet::start_with(engines, |urls| {
        let mut config = config(urls, QueueConfig { timeout: patience, ..QueueConfig::default() });
        config.trusted = vec!["127.0.0.0/8".parse().unwrap()];
        config.router.pools[0].policy = policy.to_owned();
        config
    })
    .await
}

async fn ask_worker(fleet: &Fleet, number: usize, worker: &str) -> Answer {
    let url = fleet.data("/v1/chat/completions");
    fleet.client.post_with(&url, &[("x-kvroute-worker", worker)], &question(number)).await
}

#[tokio::test]
async fn a_request_that_its_policy_never_places_was_made_to_wait_for_room_first() {
    let endless = SimConfig { prefill_tps: 10, ..SimConfig::default() };
    let fleet = trusting(vec![endless], "direct", Duration::from_secs(30)).await;
    let worker = fleet.engines[0].address().to_string();
    let refused = async {
        until_started(&fleet, 1).await;
        ask(&fleet, 1, &[]).await.unwrap()
    };
    let refused = tokio::select! {
        refused = refused => refused,
        answer = ask_worker(&fleet, 0, &worker) => panic!("it is busy for minutes: {}", answer.text()),
    };
    assert_eq!((refused.status.as_u16(), &refused.error()["code"]), (400, &json!("unservable")));
    fleet.stop().await;
}

#[tokio::test]
async fn whose_named_worker_stayed_away_was_told_of_all_that_are_well() {
    let mut fleet = trusting(vec![SimConfig::default(); 2], "kv", Duration::from_millis(200)).await;
    let absent = fleet.engines[1].address().to_string();
    fleet.engines.remove(1).stop().await;
    fleet.client.until(&fleet.admin("/api/workers"), |answer| answer.json()[1]["state"] == "unhealthy").await;
    let refused = ask_worker(&fleet, 0, &absent).await;
    assert_eq!((refused.status.as_u16(), &refused.error()["code"]), (503, &json!("no_worker")));
    let message = refused.error()["message"].as_str().unwrap().to_owned();
    assert!(message.contains(&format!("{absent} is unhealthy: ")), "{message}");
    assert!(!message.contains(&fleet.engines[0].address().to_string()), "{message}");
    fleet.stop().await;
}
