//! Keys, and the tenants that they stand for: what one of them computed is nobody else's, in the engine and in the books.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use kvroute_server::ApiKeys;
use kvroute_sim::{Flavour, SimConfig};
use kvroute_testkit::{Answer, Fleet, Ledger, server_config};
use serde_json::{Value, json};

/// Keys "alice" and "albert" of one tenant, "bob" of another, "carol" of none.
const KEYS: &str = "\
sha256:2bd806c97f0e00af1a1fc3328fa763a9269723c8db8fac4f93af71db186d6e90 tenant=red trusted
sha256:81b637d8fcd2c6da6359e6963113a1170de795e4b725b84d1e0b4cfd9ec58ce9 tenant=blue
sha256:4c26d9074c27d89ede59270c0ac14b71e071b15239519f75474b2f3ba63481f5
sha256:72d0166b5707d129dc321e56692fe454c034552ee9e2b38f5a7f1c1306a632ea tenant=red
";

async fn fleet(flavour: Flavour) -> Fleet {
    let config = SimConfig { flavour, ..SimConfig::default() };
    Fleet::start_unfollowed(vec![config], |urls| {
        let mut config = server_config(urls, "kv");
        config.api_keys = Some(ApiKeys::parse(KEYS).unwrap());
        config.router.pools[0].history.enabled = true;
        config
    })
    .await
}

async fn ask(fleet: &Fleet, headers: &[(&str, &str)], members: Value) -> Answer {
    let prompt: Vec<_> = (300..400).collect();
    let mut body = json!({"model": "sim", "prompt": prompt, "max_tokens": 1});
    body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    fleet.client.post_with(&fleet.data("/v1/completions"), headers, &body).await
}

fn cached(answer: &Answer) -> u64 {
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_shares_its_cache_with_nobody_and_the_books_know_it() {
    for flavour in [Flavour::Vllm, Flavour::Sglang] {
        let fleet = fleet(flavour).await;
        let [alice, albert, bob] = ["alice", "albert", "bob"].map(|key| format!("Bearer {key}"));
        let by = |key: &str, salt: Option<&str>| {
            let members = salt.map_or_else(|| json!({}), |salt| json!({ "cache_salt": salt }));
            let (fleet, key) = (&fleet, key.to_owned());
            async move {
                let cached = cached(&ask(fleet, &[("authorization", &key)], members).await);
                fleet.at_rest().await;
                cached
            }
        };
        assert_eq!(by(&alice, None).await, 0, "{flavour}");
        assert_eq!(by(&bob, None).await, 0, "{flavour}: it is another tenant's");
        assert_eq!(by(&albert, None).await, 96, "{flavour}: another key of the same tenant");
        assert_eq!(by(&alice, Some("own")).await, 0, "{flavour}: the client's own salt still counts");
        assert_eq!(by(&alice, Some("own")).await, 96, "{flavour}");
        let key = "Bearer carol";
        assert_eq!(by(key, None).await, 0, "{flavour}: whoever has no tenant shares with none");
        let scrape = fleet.at_rest().await;
        Ledger::of(&scrape).assert_closes();
        let prefix = |stage: &str| format!("dynamo_component_router_kv_{stage}_cached_prefix_tokens_total");
        assert_eq!(scrape.count(&prefix("selected"), &[]), 2 * 96, "{flavour}: F3");
        assert_eq!(scrape.count(&prefix("best_eligible"), &[]), 2 * 96, "{flavour}: F2");
        assert_eq!(scrape.count("kvroute_router_history_cached_tokens_total", &[]), 2 * 96, "{flavour}: F1");
        assert_eq!(fleet.engines[0].stats().reused_tokens, 2 * 96, "{flavour}: F4");
        fleet.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_brings_no_known_key_is_turned_away_and_learns_nothing() {
    let fleet = fleet(Flavour::Vllm).await;
    for headers in [&[][..], &[("authorization", "Bearer eve")], &[("x-api-key", "eve")]] {
        let answer = ask(&fleet, headers, json!({})).await;
        assert_eq!((answer.status.as_u16(), &answer.error()["code"]), (401, &json!("invalid_api_key")));
        assert!(answer.header("x-request-id").is_some());
        assert!(!answer.text().contains("eve"), "{}", answer.text());
    }
    assert_eq!(fleet.client.get(&fleet.data("/v1/models")).await.status, 401);
    assert_eq!(fleet.client.get(&fleet.data("/health")).await.status, 200);
    let scrape = fleet.at_rest().await;
    assert_eq!(scrape.count("kvroute_requests_total", &[("model", "unknown"), ("outcome", "rejected")]), 3);
    let answer = ask(&fleet, &[("x-api-key", "alice")], json!({})).await;
    assert!(answer.header("x-kvroute-worker").is_some(), "its key is trusted");
    let answer = ask(&fleet, &[("x-api-key", "bob")], json!({})).await;
    assert!(answer.header("x-kvroute-worker").is_none());
    fleet.stop().await;
}
