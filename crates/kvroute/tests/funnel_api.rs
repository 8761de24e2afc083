//! `GET /api/funnel`: the numbers of `/metrics`, and what may be asked.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

use kvroute_server::ServeConfig;
use kvroute_sim::SimConfig;
use kvroute_testkit::{Answer, Exposition, Fleet, server_config};
use serde_json::{Value, json};

/// Fields of a row, and the families that they are read from.
const FIELDS: [(&str, &str); 13] = [
    ("input_tokens", "dynamo_component_router_input_sequence_tokens_sum"),
    ("best_cached_tokens", "kvroute_router_best_cached_prefix_tokens_total"),
    ("best_eligible_cached_tokens", "dynamo_component_router_kv_best_eligible_cached_prefix_tokens_total"),
    ("selected_cached_tokens", "dynamo_component_router_kv_selected_cached_prefix_tokens_total"),
    ("reused_tokens", "dynamo_component_router_kv_worker_reused_tokens_total"),
    ("reported_input_tokens", "kvroute_router_reuse_reported_input_tokens_total"),
    ("expected_input_tokens", "kvroute_router_reuse_expected_input_tokens_total"),
    ("uncached_prefill_tokens", "kvroute_uncached_prefill_tokens_total"),
    ("repeated_input_tokens", "kvroute_router_repeated_input_tokens_total"),
    ("ledger_input_tokens", "kvroute_router_ledger_input_tokens_total"),
    ("compared_predicted_tokens", "kvroute_router_reuse_compared_predicted_tokens_total"),
    ("compared_reported_tokens", "kvroute_router_reuse_compared_reported_tokens_total"),
    ("surplus", "kvroute_router_reuse_surplus_tokens_total"),
];

/// Engines so small that prompts push each other out.
fn engine(model: &str) -> SimConfig {
    SimConfig { model: model.to_owned(), kv_blocks: 200, prefill_tps: 200_000, ..SimConfig::default() }
}

/// Half a dozen topics four times, and another half a dozen, several at a time.
async fn talk(fleet: &Fleet, model: &str) {
    let mut asking = tokio::task::JoinSet::new();
    for number in 0..48 {
        let messages = json!([{"role": "user", "content": text(number / 24 * 6 + number % 6)}]);
        let body = json!({"model": model, "messages": messages, "max_tokens": 4, "stream": true});
        let (client, url) = (fleet.client.clone(), fleet.data("/v1/chat/completions"));
        asking.spawn(async move { client.post(&url, &body).await.status });
        if asking.len() == 6 {
            assert_eq!(asking.join_next().await.unwrap().unwrap(), 200);
        }
    }
    assert!(asking.join_all().await.iter().all(|status| *status == 200));
}

/// A policy that gives caches up, and callers who may, too.
fn lossy(urls: &[String]) -> ServeConfig {
    let mut config = server_config(urls, "random");
    config.trusted = vec!["127.0.0.0/8".parse().unwrap()];
    config.router.pools[0].observe = true;
    config
}

/// All topics once more, by callers who name a worker whatever the others hold.
async fn name_worker(fleet: &Fleet, model: &str, engine: usize) {
    let worker = fleet.engines[engine].url().trim_start_matches("http://").to_owned();
    for topic in 0..12 {
        let body =
            json!({"model": model, "messages": [{"role": "user", "content": text(topic)}], "max_tokens": 1});
        let url = fleet.data("/v1/chat/completions");
        let answer = fleet.client.post_with(&url, &[("x-kvroute-worker", &worker)], &body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}

fn text(topic: usize) -> String {
    format!("topic {topic}: {}", "the same words again and again ".repeat(60))
}

async fn funnel(fleet: &Fleet, query: &str) -> Value {
    let answer = fleet.client.get(&fleet.admin(&format!("/api/funnel{query}"))).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn of_reasons(stage: &Value) -> u64 {
    let reasons = stage.as_object().unwrap_or_else(|| panic!("{stage} is no stage"));
    reasons.values().map(|tokens| tokens.as_u64().unwrap()).sum()
}

fn assert_exposed(row: &Value, scrape: &Exposition) {
    let model = row["model"].as_str().unwrap();
    let labels = [("model", model), ("phase", row["phase"].as_str().unwrap())];
    for (field, family) in FIELDS {
        let shown = if field == "surplus" { &row["surplus"]["delivery"] } else { &row[field] };
        assert_eq!(shown.as_u64(), Some(scrape.count(family, &labels)), "{field} of {model}");
    }
    for (stage, reasons) in row["lost"].as_object().unwrap() {
        let Some(reasons) = reasons.as_object() else { continue };
        for (reason, tokens) in reasons {
            let labels = [labels[0], labels[1], ("stage", stage), ("reason", reason)];
            let exposed = scrape.count("kvroute_router_reuse_lost_tokens_total", &labels);
            assert_eq!(tokens.as_u64(), Some(exposed), "{stage} {reason} of {model}");
        }
    }
    for (field, family, label) in [
        ("reports", "kvroute_router_reuse_reports_total", "outcome"),
        ("uncounted_attempts", "kvroute_uncounted_attempts_total", "reason"),
        ("attempts", "kvroute_attempts_total", "outcome"),
    ] {
        for (name, count) in row[field].as_object().unwrap() {
            let exposed = scrape.count(family, &[labels[0], labels[1], (label, name)]);
            assert_eq!(count.as_u64(), Some(exposed), "{field} {name} of {model}");
        }
    }
}

fn assert_closes(row: &Value) {
    let field = |name: &str| row[name].as_u64().unwrap_or_else(|| panic!("{name} of {row}"));
    let lost = |stage: &str| of_reasons(&row["lost"][stage]);
    assert_eq!(field("ledger_input_tokens"), field("input_tokens"));
    let cached_nowhere = match row["history_cached_tokens"].as_u64() {
        None => lost("unavailable"),
        Some(history) => {
            assert_eq!(field("ledger_input_tokens"), lost("new") + history);
            let surplus = row["surplus"]["residency"].as_u64().unwrap();
            assert_eq!(history + surplus, lost("residency") + field("best_cached_tokens"));
            lost("new") + lost("residency") - surplus
        }
    };
    assert_eq!(field("ledger_input_tokens"), cached_nowhere + field("best_cached_tokens"));
    assert_eq!(field("best_cached_tokens"), field("best_eligible_cached_tokens") + lost("eligibility"));
    assert_eq!(field("best_eligible_cached_tokens"), field("selected_cached_tokens") + lost("placement"));
    let surplus = row["surplus"]["delivery"].as_u64().unwrap();
    assert_eq!(
        field("compared_predicted_tokens") + surplus,
        field("compared_reported_tokens") + lost("delivery")
    );
    let stages = [field("selected_cached_tokens"), cached_nowhere, lost("eligibility"), lost("placement")];
    assert!(stages.iter().all(|tokens| *tokens > 0), "nothing to be mixed up: {row}");
}

#[tokio::test]
async fn all_rows_are_the_numbers_of_the_metrics_and_close() {
    let engines = ["one", "one", "two", "two"].map(engine).to_vec();
    let fleet = Fleet::start_with(engines, lossy).await;
    for (model, first) in [("one", 0), ("two", 2)] {
        talk(&fleet, model).await;
        name_worker(&fleet, model, first).await;
    }
    let scrape = fleet.at_rest().await;
    let report = funnel(&fleet, "?window=all").await;
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.iter().map(|row| &row["model"]).collect::<Vec<_>>(), ["one", "two"]);
    for row in rows {
        assert_exposed(row, &scrape);
        assert_closes(row);
        assert_eq!(row["attempts"]["completed"], 48 + 12);
        let absent = [&row["history_cached_tokens"], &row["lost"]["new"], &row["lost"]["residency"]];
        assert!(absent.iter().all(|field| field.is_null()), "{row}");
        assert_eq!(row["surplus"].get("residency"), Some(&Value::Null));
    }
    for model in report["models"].as_array().unwrap() {
        let seconds = &model["lost_prefill_seconds"];
        for stage in ["unavailable", "eligibility", "placement", "delivery"] {
            for (reason, lost) in seconds[stage].as_object().unwrap() {
                let labels =
                    [("model", model["model"].as_str().unwrap()), ("stage", stage), ("reason", reason)];
                let exposed = scrape.sum("kvroute_router_lost_prefill_seconds_total", &labels);
                assert_same_time(lost.as_f64().unwrap(), exposed.unwrap());
            }
        }
        assert!(seconds["new"].is_null() && of_seconds(&seconds["unavailable"]) > 0.0, "{seconds}");
    }
    fleet.stop().await;
}

#[tokio::test]
async fn a_history_has_its_stages_and_tells_how_far_back_it_reaches() {
    let fleet = Fleet::start_with(vec![engine("one"), engine("one")], |urls| {
        let mut config = lossy(urls);
        config.router.pools[0].history.enabled = true;
        config
    })
    .await;
    talk(&fleet, "one").await;
    name_worker(&fleet, "one", 0).await;
    let scrape = fleet.at_rest().await;
    let report = funnel(&fleet, "?window=all").await;
    let row = &report["rows"][0];
    assert_exposed(row, &scrape);
    assert_closes(row);
    let family = "kvroute_router_history_cached_tokens_total";
    assert_eq!(row["history_cached_tokens"].as_u64(), Some(scrape.count(family, &[])));
    assert!(
        row["history_cached_tokens"].as_u64() > row["best_cached_tokens"].as_u64(),
        "something was evicted"
    );
    assert!(row["lost"]["unavailable"].is_null(), "{row}");
    let history = &report["models"][0]["history"];
    let field = |name: &str| history[name].as_u64().unwrap_or_else(|| panic!("{name} of {history}"));
    assert_eq!(field("represented_tokens"), 16 * field("blocks"));
    assert!(0 < field("blocks") && field("blocks") < field("capacity_blocks"), "{history}");
    let reaches = |answer: &Answer| !answer.json()["models"][0]["history"]["reaches_back_seconds"].is_null();
    let told = fleet.client.until(&fleet.admin("/api/funnel"), reaches).await.json();
    let history = &told["models"][0]["history"];
    assert!(
        history["reaches_back_seconds"].as_f64() > history["oldest_entry_age_seconds"].as_f64(),
        "{history}"
    );
    fleet.stop().await;
}

/// Both were written to the last digit; the reader of JSON may miss that one.
fn assert_same_time(shown: f64, exposed: f64) {
    assert!((shown - exposed).abs() <= exposed * 1e-12, "{shown} s and {exposed} s");
}

fn of_seconds(stage: &Value) -> f64 {
    stage.as_object().unwrap().values().map(|seconds| seconds.as_f64().unwrap()).sum()
}

#[tokio::test]
async fn where_no_index_is_asked_its_stages_are_null() {
    let fleet = Fleet::start(vec![engine("one")], "round-robin").await;
    talk(&fleet, "one").await;
    fleet.at_rest().await;
    let report = funnel(&fleet, "?window=all").await;
    let row = &report["rows"][0];
    for field in [
        "best_cached_tokens",
        "best_eligible_cached_tokens",
        "selected_cached_tokens",
        "ledger_input_tokens",
        "compared_predicted_tokens",
        "compared_reported_tokens",
    ] {
        assert_eq!(row.get(field), Some(&Value::Null), "{field}");
    }
    let stages: Vec<_> = row["lost"].as_object().unwrap().iter().collect();
    assert_eq!(stages.len(), 6);
    assert!(stages.iter().all(|(_, stage)| stage.is_null()), "{stages:?}");
    assert!(row["input_tokens"].as_u64() > Some(0) && row["reused_tokens"].as_u64() > Some(0), "{row}");
    fleet.stop().await;
}

#[tokio::test]
async fn a_window_tells_how_much_it_covers_and_rows_can_be_asked_for() {
    let fleet = Fleet::start(vec![engine("one"), engine("two")], "kv").await;
    talk(&fleet, "one").await;
    fleet.at_rest().await;
    let all = funnel(&fleet, "?window=all").await;
    let hour = funnel(&fleet, "?window=1h").await;
    let covered = hour["window_seconds"].as_f64().unwrap();
    assert!(covered > 0.0 && covered < 3600.0, "the router is younger than an hour: {covered}");
    assert_eq!(hour["rows"], all["rows"], "nothing was before");

    let of = |report: &Value| -> Vec<String> {
        let rows = report["rows"].as_array().unwrap().iter();
        rows.map(|row| format!("{} {}", row["model"].as_str().unwrap(), row["phase"].as_str().unwrap()))
            .collect()
    };
    assert_eq!(of(&all), ["one aggregated", "two aggregated"]);
    let two = funnel(&fleet, "?model=two").await;
    assert_eq!((of(&two), &two["models"][0]["model"]), (vec!["two aggregated".to_owned()], &json!("two")));
    assert_eq!(two["rows"][0]["input_tokens"], 0);
    assert_eq!(of(&funnel(&fleet, "?phase=aggregated&window=600").await).len(), 2);
    assert_eq!(of(&funnel(&fleet, "?phase=prefill").await), [""; 0]);

    for (query, param) in [("window=soon", "window"), ("phase=both", "phase"), ("reason=load", "reason")] {
        let answer = fleet.client.get(&fleet.admin(&format!("/api/funnel?{query}"))).await;
        assert_eq!((answer.status.as_u16(), &answer.error()["param"]), (400, &json!(param)), "{query}");
    }
    fleet.stop().await;
}
