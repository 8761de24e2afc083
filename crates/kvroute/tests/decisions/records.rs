//! What a served request leaves behind.

use kvroute_router::config::{BusyThreshold, DecisionsConfig};
use kvroute_select::PickReason;
use kvroute_sim::{Faults, SimConfig};
use kvroute_testkit::{Fleet, server_config};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::fleet::{
    PROMPT, candidate, completion, decision, header, listed, other_worker, reported, serve, serve_known,
    start, start_with,
};

fn keys(object: &Value) -> Vec<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test]
async fn a_served_request_leaves_a_record_and_its_report_is_added() {
    let fleet = start(2, "kv").await;
    serve_known(&fleet, PROMPT).await;
    let again = serve(&fleet, PROMPT).await;

    let records = listed(&fleet, "").await;
    assert_eq!(records.len(), 2);
    let record = &records[0];
    assert_eq!(record["request_id"], header(&again, "x-request-id"), "newest first");
    assert_eq!(record["id"], header(&again, "x-kvroute-decision"));
    assert_eq!(
        record["worker_id"], records[1]["worker_id"],
        "the second one goes where the first one is cached"
    );
    assert_eq!((&record["model"], &record["policy"]), (&json!("sim"), &json!("kv")));
    let usage = &again.json()["usage"];
    let input = usage["prompt_tokens"].as_u64().unwrap();
    let cached = record["selected_cached_tokens"].as_u64().unwrap();
    assert_eq!(record["input_tokens"], input);
    assert!(cached > 0 && cached <= input, "{record}");
    for best in ["best_eligible_cached_tokens", "best_cached_tokens"] {
        assert_eq!(record[best], cached, "{best}");
    }
    let reused = &usage["prompt_tokens_details"]["cached_tokens"];
    let report = &record["report"];
    assert_eq!((&report["outcome"], &report["report"]), (&json!("completed"), &json!("reported")));
    assert_eq!((&report["input_tokens"], &report["reused_tokens"]), (&json!(input), reused));
    assert_eq!(report["lost_tokens"], cached - reused.as_u64().unwrap());

    for id in ["id", "request_id"] {
        assert_eq!(&decision(&fleet, record[id].as_str().unwrap()).await, record, "found by {id}");
    }
    fleet.stop().await;
}

#[tokio::test]
async fn a_record_has_the_fields_that_tools_rely_on() {
    let fleet = start(2, "kv").await;
    serve(&fleet, PROMPT).await;
    let record = &listed(&fleet, "").await[0];
    let fields = [
        "id",
        "request_id",
        "at",
        "model",
        "policy",
        "reason",
        "worker_id",
        "dp_rank",
        "input_tokens",
        "best_cached_tokens",
        "best_eligible_cached_tokens",
        "selected_cached_tokens",
        "eligibility_reason",
        "placement_reason",
        "waited_seconds",
        "block_size",
        "eligible",
        "candidates",
        "left_out",
        "shadows",
        "report",
    ];
    assert_eq!(keys(record), fields);
    let fields = [
        "worker_id",
        "dp_rank",
        "cached_tokens",
        "credit_withheld",
        "expected_tokens",
        "recent_tokens",
        "active_requests",
        "prefill_tokens",
        "decode_blocks",
        "context_tokens",
        "cost",
        "terms",
        "excluded",
    ];
    assert_eq!(keys(&record["candidates"][0]), fields);
    let terms = &record["candidates"][0]["terms"];
    assert_eq!(
        keys(terms),
        ["backlog", "request", "credit", "expected", "prefill", "decode", "requests", "recent"]
    );
    let sum: f64 =
        ["prefill", "decode", "requests", "recent"].iter().map(|term| terms[term].as_f64().unwrap()).sum();
    assert!((sum - record["candidates"][0]["cost"].as_f64().unwrap()).abs() < 1e-9, "{record}");
    let fields = ["outcome", "dispatched", "report", "input_tokens", "reused_tokens", "lost_tokens"];
    assert_eq!(keys(&record["report"]), fields);
    fleet.stop().await;
}

#[tokio::test]
async fn credit_lowers_the_cost_of_the_holder_and_is_shown() {
    let fleet = start(2, "kv").await;
    serve_known(&fleet, PROMPT).await;
    serve(&fleet, PROMPT).await;
    let record = &listed(&fleet, "?limit=1").await[0];
    let holder = candidate(record, &record["worker_id"]);
    let other = candidate(record, &other_worker(record));
    assert_eq!(holder["cached_tokens"], record["selected_cached_tokens"]);
    assert_eq!((&other["cached_tokens"], &other["terms"]["credit"]), (&json!(0), &json!(0.0)));
    let block = record["block_size"].as_f64().unwrap();
    assert_eq!(holder["terms"]["credit"], holder["cached_tokens"].as_f64().unwrap() / block);
    assert!(holder["cost"].as_f64() < other["cost"].as_f64(), "{record}");
    assert_eq!(record["reason"], "lowest_cost");
    fleet.stop().await;
}

/// What the formula of the page on selection makes of the terms, at the default scale.
fn prefill_of([backlog, request, credit, expected]: [f64; 4]) -> f64 {
    let page = include_str!("../../../../docs/selection.md");
    assert!(page.contains(
        "cost = prefill_scale × ( max(backlog − expected, 0) + 1.2 × max(request − credit − expected, 0) )"
    ));
    (backlog - expected).max(0.0) + 1.2 * (request - credit - expected).max(0.0)
}

#[tokio::test]
async fn the_pages_told_another_cost_than_was_taken() {
    let fleet =
        start_with(2, "kv", |config| config.router.pools[0].queue.threshold = BusyThreshold::Off).await;
    let mut streams = JoinSet::new();
    for number in 0..12 {
        let (client, url) = (fleet.client.clone(), fleet.data("/v1/completions"));
        let mut body = completion(&format!("{} {}", number % 3, PROMPT.repeat(40)));
        body["stream"] = json!(true);
        streams.spawn(async move { client.post(&url, &body).await });
    }
    streams.join_all().await;
    reported(&fleet).await;
    let records = listed(&fleet, "").await;
    let candidates = records.iter().flat_map(|record| record["candidates"].as_array().unwrap());
    let terms: Vec<_> = candidates.map(|candidate| &candidate["terms"]).collect();
    let of = |terms: &Value, name: &str| terms[name].as_f64().unwrap();
    for terms in &terms {
        let made = prefill_of(["backlog", "request", "credit", "expected"].map(|name| of(terms, name)));
        assert!((of(terms, "prefill") - made).abs() < 1e-9, "{terms}: {made}");
    }
    assert!(terms.iter().any(|terms| of(terms, "backlog") > 0.0), "idle ranks show little of the formula");
    fleet.stop().await;
}

#[test]
fn the_example_of_the_page_adds_up() {
    let page = include_str!("../../../../docs/decisions.md");
    let rows = page.lines().filter(|line| line.contains(":8000/0 ")).filter_map(|line| {
        let numbers: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        <[f64; 11]>::try_from(numbers).ok()
    });
    let mut checked = 0;
    for [_, _, backlog, request, credit, expected, prefill, decode, requests, recent, cost] in rows {
        assert!((prefill_of([backlog, request, credit, expected]) - prefill).abs() < 0.005, "{prefill}");
        assert!((prefill + decode + requests + recent - cost).abs() < 0.005, "{cost}");
        checked += 1;
    }
    assert_eq!(checked, 3, "rows of eligible candidates");
}

#[tokio::test]
async fn a_policy_without_costs_has_neither_costs_nor_stages() {
    let fleet = start(2, "round-robin").await;
    serve(&fleet, PROMPT).await;
    let record = &listed(&fleet, "").await[0];
    assert_eq!((&record["reason"], &record["eligible"]), (&json!("turn"), &json!(2)));
    assert!(record["input_tokens"].as_u64() > Some(0));
    for absent in ["best_cached_tokens", "best_eligible_cached_tokens", "selected_cached_tokens"] {
        assert_eq!(record[absent], Value::Null, "{absent}");
    }
    let first = &record["candidates"][0];
    assert_eq!((&first["cached_tokens"], &first["cost"]), (&Value::Null, &Value::Null));
    assert_eq!(first["terms"], json!({}));
    let report = &record["report"];
    assert_eq!((&report["report"], &report["lost_tokens"]), (&json!("reported"), &Value::Null));
    fleet.stop().await;
}

#[tokio::test]
async fn the_record_of_a_broken_attempt_says_so() {
    let faults = Faults { break_after_chunks: Some(1), ..Faults::default() };
    let fleet = Fleet::start(vec![SimConfig { faults, ..SimConfig::default() }], "kv").await;
    let mut body = completion(PROMPT);
    body["stream"] = json!(true);
    body["max_tokens"] = json!(20);
    fleet.client.post(&fleet.data("/v1/completions"), &body).await;
    reported(&fleet).await;
    let record = &listed(&fleet, "").await[0];
    assert_eq!((&record["reason"], &record["eligible"]), (&json!("only_candidate"), &json!(1)));
    let report = &record["report"];
    assert_eq!((&report["outcome"], &report["dispatched"]), (&json!("failed"), &json!(true)));
    assert_eq!((&report["report"], &report["reused_tokens"]), (&json!("unfinished"), &Value::Null));
    fleet.stop().await;
}

#[tokio::test]
async fn what_shadows_would_have_picked_stands_beside_the_decision() {
    let fleet = start_with(2, "kv", |config| {
        config.router.pools[0].shadow = vec!["round-robin".to_owned()];
    })
    .await;
    serve_known(&fleet, PROMPT).await;
    serve(&fleet, PROMPT).await;
    let records = listed(&fleet, "").await;
    let shadow = |record: &Value| record["shadows"][0].clone();
    assert_eq!(shadow(&records[0])["policy"], "round-robin");
    assert_ne!(shadow(&records[0])["worker_id"], shadow(&records[1])["worker_id"], "it takes turns");
    let cached = candidate(&records[0], &shadow(&records[0])["worker_id"])["cached_tokens"].clone();
    assert_eq!(shadow(&records[0])["selected_cached_tokens"], cached);
    fleet.stop().await;
}

#[tokio::test]
async fn as_many_candidates_are_kept_as_the_pool_says() {
    let fleet = start_with(3, "kv", |config| {
        config.router.pools[0].decisions = DecisionsConfig { sample: 1.0, candidates: 1 };
    })
    .await;
    serve(&fleet, PROMPT).await;
    let record = &listed(&fleet, "").await[0];
    assert_eq!(record["candidates"].as_array().unwrap().len(), 1);
    assert_eq!(record["candidates"][0]["worker_id"], record["worker_id"]);
    assert_eq!((&record["left_out"], &record["eligible"]), (&json!(2), &json!(3)));
    fleet.stop().await;
}

#[tokio::test]
async fn a_share_of_nothing_keeps_nothing_and_serves_all_the_same() {
    let fleet = start_with(2, "kv", |config| {
        config.router.pools[0].decisions = DecisionsConfig { sample: 0.0, candidates: 8 };
    })
    .await;
    let answer = serve(&fleet, PROMPT).await;
    assert_eq!(listed(&fleet, "").await, Vec::<Value>::new());
    assert!(answer.headers.get("x-kvroute-decision").is_none(), "a header that names nothing");
    let scrape = fleet.scrape().await;
    assert_eq!(scrape.count("kvroute_decisions_recorded_total", &[]), 0);
    assert_eq!(scrape.count("kvroute_decisions_unrecorded_total", &[]), 1);
    fleet.stop().await;
}

#[tokio::test]
async fn no_text_of_a_request_is_kept() {
    let fleet = start(2, "kv").await;
    let body = json!({
        "model": "sim", "prompt": "aardvark in the bathtub", "user": "badger", "cache_salt": "cormorant",
        "max_tokens": 4, "stop": "dromedary",
    });
    let answer = fleet.client.post(&fleet.data("/v1/completions"), &body).await;
    reported(&fleet).await;
    let kept = fleet.client.get(&fleet.admin("/api/decisions")).await.text();
    let said = answer.json()["choices"][0]["text"].as_str().unwrap().trim().to_owned();
    assert!(kept.contains(header(&answer, "x-request-id")) && !said.is_empty());
    for word in ["aardvark", "bathtub", "badger", "cormorant", "dromedary", &said] {
        assert!(!kept.contains(word), "{word} in {kept}");
    }
    fleet.stop().await;
}

#[tokio::test]
async fn what_is_not_kept_and_what_is_no_question_are_told_apart() {
    let fleet = start(1, "kv").await;
    for (path, status, code, named) in [
        ("/api/decisions/nobody", 404, json!("decision_not_found"), "no decision \"nobody\" is kept"),
        ("/api/decisions/%ff", 400, Value::Null, "not UTF-8"),
        ("/api/decisions?limit=many", 400, Value::Null, "limit is \"many\"; send a number"),
        ("/api/decisions?last=7", 400, Value::Null, "unknown parameter \"last\""),
    ] {
        let answer = fleet.client.get(&fleet.admin(path)).await;
        assert_eq!((answer.status.as_u16(), &answer.error()["code"]), (status, &code), "{path}");
        let message = answer.error()["message"].clone();
        assert!(message.as_str().unwrap().contains(named), "{path}: {message}");
    }
    fleet.stop().await;
}

#[tokio::test]
async fn a_request_id_with_odd_characters_is_found_when_it_is_escaped() {
    let fleet = Fleet::start_with(vec![SimConfig::default()], |urls| server_config(urls, "kv")).await;
    serve(&fleet, PROMPT).await;
    let id = listed(&fleet, "").await[0]["id"].as_str().unwrap().to_owned();
    let escaped: String = id.bytes().map(|byte| format!("%{byte:02x}")).collect();
    assert_eq!(decision(&fleet, &escaped).await["id"], id);
    fleet.stop().await;
}

#[tokio::test]
async fn a_request_id_that_is_no_text_was_kept_as_an_empty_one() {
    let fleet = start(1, "kv").await;
    let url = fleet.data("/v1/completions");
    let answer =
        fleet.client.post_with(&url, &[("x-request-id", "\u{e9}t\u{e9}")], &completion(PROMPT)).await;
    let id = header(&answer, "x-request-id");
    assert!(id.starts_with("req-"), "{id}");
    reported(&fleet).await;
    let record = decision(&fleet, id).await;
    assert_eq!(
        (&record["request_id"], &record["id"]),
        (&json!(id), &json!(header(&answer, "x-kvroute-decision")))
    );
    fleet.stop().await;
}

#[tokio::test]
async fn the_page_explains_every_name_that_a_record_can_have() {
    let fleet = start(1, "kv").await;
    serve(&fleet, PROMPT).await;
    let record = &listed(&fleet, "").await[0];
    let candidate = &record["candidates"][0];
    let mut names: Vec<_> = PickReason::ALL.map(PickReason::as_str).to_vec();
    names.extend(["pinned", "affinity", "unhealthy", "adapter"]);
    names.extend([record, candidate, &candidate["terms"], &record["report"]].into_iter().flat_map(keys));
    let page = include_str!("../../../../docs/decisions.md");
    for name in names {
        assert!(page.contains(&format!("`{name}`")), "{name} is not explained");
    }
    fleet.stop().await;
}
