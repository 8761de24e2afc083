//! What would happen to a request.

use serde_json::{Value, json};

use super::fleet::{
    PROMPT, advice, ask, candidate, completion, listed, other_worker, serve_known, start, start_with,
};

#[tokio::test]
async fn advice_is_a_decision_without_an_id_and_a_report() {
    let fleet = start_with(2, "kv", |config| {
        config.router.pools[0].shadow = vec!["round-robin".to_owned()];
    })
    .await;
    serve_known(&fleet, PROMPT).await;
    let taken = listed(&fleet, "").await[0].clone();
    let advice = advice(&fleet, PROMPT).await;
    for absent in ["id", "request_id", "report"] {
        assert_eq!(advice[absent], Value::Null, "{absent}");
    }
    assert_eq!(advice["shadows"][0]["policy"], "round-robin");
    for same in ["model", "policy", "worker_id", "dp_rank", "input_tokens", "block_size", "eligible"] {
        assert_eq!(advice[same], taken[same], "{same}");
    }
    assert!(
        advice["selected_cached_tokens"].as_u64() > Some(0),
        "the first request left its blocks: {advice}"
    );
    assert_eq!(listed(&fleet, "").await.len(), 1, "advice is kept nowhere");
    fleet.stop().await;
}

#[tokio::test]
async fn what_a_pin_gives_up_is_shown_with_the_exclusion() {
    let fleet = start(2, "kv").await;
    serve_known(&fleet, PROMPT).await;
    let free = advice(&fleet, PROMPT).await;
    let (holder, other) = (free["worker_id"].clone(), other_worker(&free));
    let pinned = ask(
        &fleet,
        json!({
            "endpoint": "completions", "body": completion(PROMPT), "headers": {"X-KVRoute-Worker": other},
        }),
    )
    .await
    .json();
    assert_eq!((&pinned["worker_id"], &pinned["reason"]), (&other, &json!("pinned")));
    assert_eq!(pinned["eligible"], 1);
    let excluded = candidate(&pinned, &holder);
    assert_eq!((&excluded["excluded"], &excluded["cost"]), (&json!("pinned"), &Value::Null));
    assert_eq!(
        excluded["cached_tokens"], free["selected_cached_tokens"],
        "shown although it is out of reach"
    );
    assert_eq!(pinned["best_cached_tokens"], free["selected_cached_tokens"]);
    assert_eq!(pinned["best_eligible_cached_tokens"], 0);
    fleet.stop().await;
}

#[tokio::test]
async fn overridden_weights_show_in_the_terms() {
    let fleet = start(2, "kv").await;
    serve_known(&fleet, PROMPT).await;
    let question = json!({
        "endpoint": "completions", "body": completion(PROMPT), "headers": {"x-kvroute-override": "device_weight=0"},
    });
    let uncredited = ask(&fleet, question).await.json();
    assert!(uncredited["best_cached_tokens"].as_u64() > Some(0));
    for candidate in uncredited["candidates"].as_array().unwrap() {
        assert_eq!(candidate["terms"]["credit"], 0.0);
    }
    fleet.stop().await;
}

#[tokio::test]
async fn what_cannot_be_served_cannot_be_advised_and_says_the_same() {
    let fleet = start(1, "kv").await;
    for (question, status, named) in [
        (
            json!({"endpoint": "/v1/images", "body": {}}),
            400,
            "name one of: /v1/chat/completions, /v1/completions",
        ),
        (json!({"endpoint": "completions"}), 400, "missing field `body`"),
        (json!({"endpoint": "completions", "body": 7}), 400, "send a JSON object"),
        (json!({"endpoint": "completions", "body": {"model": "sim"}}), 400, "prompt"),
        (
            json!({"endpoint": "completions", "body": {"model": "other", "prompt": "a"}}),
            404,
            "served models: sim",
        ),
        (
            json!({"endpoint": "completions", "body": completion("a"), "headers": {"x-kvroute-worker": "w9:1"}}),
            400,
            "w9:1",
        ),
        (
            json!({"endpoint": "completions", "body": completion(&"a".repeat(2 << 20))}),
            413,
            "server.max_body",
        ),
    ] {
        let answer = ask(&fleet, question).await;
        let message = answer.error()["message"].as_str().unwrap().to_owned();
        assert_eq!(answer.status, status, "{message}");
        assert!(message.contains(named), "{message}");
    }
    let scrape = fleet.scrape().await;
    assert_eq!(scrape.sum("dynamo_frontend_requests_total", &[]).unwrap_or(0.0), 0.0, "no request was made");
    fleet.stop().await;
}
