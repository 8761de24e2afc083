//! Endpoints that are routed by load: bodies and answers pass as they are, and nothing is predicted, reported or learned.

use kvroute_core::ModelName;
use kvroute_sim::{Faults, Flavour, SimConfig};
use kvroute_testkit::{Exposition, Fleet, server_config};
use serde_json::{Value, json};

/// Each endpoint with a body that the simulated engines take.
fn bodies() -> [(&'static str, Value); 5] {
    [
        ("/v1/embeddings", json!({"model": "sim", "input": ["one day", "another day"]})),
        ("/v1/rerank", json!({"model": "sim", "query": "a day", "documents": ["one day", "the night"]})),
        ("/v1/score", json!({"model": "sim", "text_1": "a day", "text_2": ["one day", "the night"]})),
        ("/tokenize", json!({"model": "sim", "prompt": "one day"})),
        ("/detokenize", json!({"model": "sim", "tokens": [300, 301]})),
    ]
}

fn uncounted(scrape: &Exposition, reason: &str) -> u64 {
    scrape.sum("kvroute_uncounted_attempts_total", &[("reason", reason)]).unwrap_or_default() as u64
}

/// What differs from answer to answer.
fn without_identity(mut answer: Value) -> Value {
    if let Some(members) = answer.as_object_mut() {
        members.retain(|name, _| name != "id" && name != "created");
    }
    answer
}

#[tokio::test]
async fn answers_are_the_engines_own_and_nothing_is_predicted_of_them() {
    for policy in ["kv", "round-robin"] {
        let fleet = Fleet::start(vec![SimConfig::default(), SimConfig::default()], policy).await;
        for (path, body) in bodies() {
            let answer = fleet.client.post(&fleet.data(path), &body).await;
            let direct = fleet.client.post(&format!("{}{path}", fleet.engines[0].url()), &body).await;
            assert_eq!(
                (answer.status.as_u16(), direct.status.as_u16()),
                (200, 200),
                "{path}: {}",
                answer.text()
            );
            assert_eq!(without_identity(answer.json()), without_identity(direct.json()), "{path}");
        }
        let scrape = fleet.at_rest().await;
        assert_eq!(uncounted(&scrape, "endpoint"), 5);
        assert_eq!(scrape.count("kvroute_uncounted_attempts_total", &[]), 5, "and for no other reason");
        for (path, _) in bodies() {
            let labels = [("endpoint", path), ("outcome", "completed")];
            assert_eq!(scrape.count("kvroute_requests_total", &labels), 1, "{path}");
        }
        assert_eq!(
            scrape.sum("kvroute_router_reuse_reports_total", &[]).unwrap_or(0.0),
            0.0,
            "no report is taken"
        );
        assert_eq!(scrape.sum("kvroute_router_reuse_expected_input_tokens_total", &[]).unwrap_or(0.0), 0.0);
        fleet.stop().await;
    }
}

#[tokio::test]
async fn an_alias_becomes_the_model_and_no_model_takes_the_only_pool() {
    let fleet = Fleet::start_with(vec![SimConfig::default()], |urls| {
        let mut config = server_config(urls, "kv");
        let pool = &mut config.router.pools[0];
        pool.model = Some(ModelName::new("sim"));
        pool.aliases = vec!["other".into()];
        config
    })
    .await;
    for (path, mut body) in bodies() {
        body["model"] = json!("other");
        assert_eq!(fleet.client.post(&fleet.data(path), &body).await.status, 200, "{path}");
        body.as_object_mut().unwrap().remove("model");
        assert_eq!(fleet.client.post(&fleet.data(path), &body).await.status, 200, "{path}");
        body["model"] = json!("nobody's");
        let refusal = fleet.client.post(&fleet.data(path), &body).await;
        assert_eq!(
            (refusal.status.as_u16(), refusal.json()["error"]["param"].clone()),
            (404, json!("model")),
            "{path}"
        );
        body["model"] = json!(7);
        assert_eq!(fleet.client.post(&fleet.data(path), &body).await.status, 400, "{path}");
    }
    fleet.stop().await;
}

#[tokio::test]
async fn an_engine_without_the_endpoint_answers_for_itself() {
    let engine = SimConfig { flavour: Flavour::TrtLlm, ..SimConfig::default() };
    let fleet = Fleet::start_unfollowed(vec![engine], |urls| server_config(urls, "kv")).await;
    let (path, body) = &bodies()[0];
    let answer = fleet.client.post(&fleet.data(path), body).await;
    let direct = fleet.client.post(&format!("{}{path}", fleet.engines[0].url()), body).await;
    assert_eq!((answer.status.as_u16(), answer.text()), (404, direct.text()));
    let scrape = fleet.at_rest().await;
    assert_eq!(scrape.count("kvroute_requests_total", &[("endpoint", path), ("outcome", "rejected")]), 1);
    assert_eq!(scrape.sum("kvroute_retries_total", &[]).unwrap_or(0.0), 0.0, "nobody else is asked");
    fleet.stop().await;
}

#[tokio::test]
async fn another_worker_is_asked_where_one_fails() {
    let failing = SimConfig {
        faults: Faults { refuse_status: Some(503), ..Faults::default() },
        ..SimConfig::default()
    };
    let fleet = Fleet::start(vec![failing, SimConfig::default()], "round-robin").await;
    for _ in 0..2 {
        let (path, body) = &bodies()[0];
        assert_eq!(fleet.client.post(&fleet.data(path), body).await.status, 200);
    }
    fleet.at_rest().await;
    fleet.stop().await;
}

/// The engine's own count of the input is kept with the decision; it is no report of reuse.
#[tokio::test]
async fn what_the_engine_counted_is_told_with_the_decision_and_counts_nowhere_else() {
    let fleet = Fleet::start(vec![SimConfig::default()], "kv").await;
    let (path, body) = &bodies()[0];
    let told = fleet.client.post(&fleet.data(path), body).await.json()["usage"]["prompt_tokens"].clone();
    let scrape = fleet.at_rest().await;
    let decision = fleet.client.get(&fleet.admin("/api/decisions")).await.json()[0].clone();
    assert_eq!((&decision["report"]["input_tokens"], &decision["input_tokens"]), (&told, &Value::Null));
    assert_eq!(
        (&decision["report"]["report"], &decision["report"]["reused_tokens"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(decision["selected_cached_tokens"], Value::Null);
    let reused = "dynamo_component_router_kv_worker_reused_tokens_total";
    assert_eq!(scrape.sum(reused, &[]).unwrap_or(0.0), 0.0);
    fleet.stop().await;
}
