//! Rates of keys, and limits of all clients together.

use kvroute_server::{ApiKeys, ServeConfig};
use kvroute_sim::SimConfig;
use kvroute_testkit::{Answer, Fleet, server_config};
use serde_json::json;

/// Key "alice", which may come twice an hour or so, and key "bob", which may as often as it likes.
const ALICE: &str = "sha256:2bd806c97f0e00af1a1fc3328fa763a9269723c8db8fac4f93af71db186d6e90";
const BOB: &str = "sha256:81b637d8fcd2c6da6359e6963113a1170de795e4b725b84d1e0b4cfd9ec58ce9";

const PATH: &str = "/v1/completions";

async fn fleet(change: impl FnOnce(&mut ServeConfig)) -> (Fleet, ServeConfig) {
    let mut kept = None;
    let slow = SimConfig { decode_tps: 1, ..SimConfig::default() };
    let fleet = Fleet::start_unfollowed(vec![slow], |urls| {
        let mut config = server_config(urls, "kv");
        change(&mut config);
        kept = Some(config.clone());
        config
    });
    (fleet.await, kept.unwrap())
}

async fn ask(fleet: &Fleet, key: &str) -> Answer {
    let bearer = format!("Bearer {key}");
    let body = json!({"model": "sim", "prompt": [1, 2, 3], "max_tokens": 1});
    fleet.client.post_with(&fleet.data(PATH), &[("authorization", &bearer)], &body).await
}

fn keys(text: &str) -> Option<ApiKeys> {
    Some(ApiKeys::parse(text).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_above_its_rate_is_told_when_to_come_again_and_holds_up_no_other() {
    let text = format!("{ALICE} rate=1/m,burst=2\n{BOB}");
    let (fleet, mut config) = fleet(|config| config.api_keys = keys(&text)).await;
    for expected in [200, 200, 429, 429] {
        assert_eq!(ask(&fleet, "alice").await.status, expected);
    }
    let refused = ask(&fleet, "alice").await;
    assert_eq!(refused.error()["code"], "rate_limited");
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds), "{seconds}");
    assert_eq!(ask(&fleet, "bob").await.status, 200);
    assert_eq!(ask(&fleet, "eve").await.status, 401);

    config.api_keys = keys(&format!("{BOB} rate=1/m\n{ALICE} rate=1/m,burst=2"));
    drop(fleet.server.reload_handle().prepare(&config).unwrap().commit());
    assert_eq!(ask(&fleet, "alice").await.status, 429, "what was spent stays spent");
    assert_eq!([ask(&fleet, "bob").await.status, ask(&fleet, "bob").await.status], [200, 429]);
    config.api_keys = keys(ALICE);
    drop(fleet.server.reload_handle().prepare(&config).unwrap().commit());
    assert_eq!(ask(&fleet, "alice").await.status, 200);
    assert_eq!(ask(&fleet, "bob").await.status, 401);
    let scrape = fleet.at_rest().await;
    assert_eq!(scrape.count("kvroute_requests_total", &[("outcome", "completed")]), 5);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_of_all_clients_counts_those_without_keys() {
    let (fleet, _) = fleet(|config| config.security.limits.rate = Some("1/m,burst=2".parse().unwrap())).await;
    for expected in [200, 200, 429] {
        assert_eq!(ask(&fleet, "anybody").await.status, expected);
    }
    assert_eq!(
        fleet.client.get(&fleet.data("/ready")).await.status,
        200,
        "it is a rate of requests to models"
    );
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_requests_are_served_at_once_as_may_be_and_one_that_ends_makes_room() {
    let (fleet, _) = fleet(|config| config.security.limits.requests = Some(1)).await;
    let body =
        json!({"model": "sim", "prompt": [1, 2, 3], "max_tokens": 2_000, "ignore_eos": true, "stream": true});
    let stream = fleet.client.open(&fleet.data(PATH), &body).await;
    assert_eq!(stream.status(), 200);
    let refused = ask(&fleet, "anybody").await;
    assert_eq!((refused.status.as_u16(), refused.header("retry-after")), (503, Some("1")));
    assert_eq!(refused.error()["code"], "overloaded");
    assert!(refused.error()["message"].as_str().unwrap().contains("server.limits.requests"));
    drop(stream);
    while ask(&fleet, "anybody").await.status != 200 {}
    fleet.stop().await;
}
