//! Requests that are answered to their end.

use kvroute_sim::{Faults, SimConfig};
use kvroute_testkit::LogEntry;
use serde_json::{Value, json};

use super::watched::{CHAT, Watched, assert_says, chat, faulty, number, seconds, streamed};

const LONG: &str = "the quick brown fox jumps over the lazy dog and on through the wood by the river ";

#[tokio::test]
async fn a_stream_tells_where_it_went_and_what_became_of_its_cache() {
    let watched = Watched::start("stream", vec![SimConfig::default(); 2]).await;
    let prompt = LONG.repeat(4);
    let (_, cold) = watched.told("cold", CHAT, &streamed(&prompt)).await;
    let is_known = |worker: &Value| worker["ranks"][0]["blocks"].as_u64() > Some(0);
    let workers = watched.fleet.admin("/api/workers");
    let has_any = |list: &Value| list.as_array().unwrap().iter().any(is_known);
    watched.fleet.client.until(&workers, |answer| has_any(&answer.json())).await;
    let (_, warm) = watched.told("warm", CHAT, &streamed(&prompt)).await;
    let common = [
        ("endpoint", "/v1/chat/completions"),
        ("model", "sim"),
        ("stream", "true"),
        ("status", "200"),
        ("outcome", "completed"),
        ("attempts", "1"),
        ("dp_rank", "0"),
        ("policy", "kv"),
        ("report", "reported"),
        ("output_tokens", "4"),
    ];
    let engines: Vec<_> = watched.fleet.engines.iter().map(|engine| engine.address().to_string()).collect();
    for line in [&cold, &warm] {
        assert_says(line, &common, &["error", "queue_seconds", "history_cached_tokens"]);
        assert!(seconds(line, "ttft_seconds") <= seconds(line, "seconds"), "{line:?}");
        assert!(engines.iter().any(|engine| engine == line.field("worker")), "{line:?}");
    }
    let [input, ..] = stages(&cold);
    let whole_blocks = input / 16 * 16;
    assert!(whole_blocks > 64 && whole_blocks < input);
    assert_eq!(stages(&cold), [input, 0, 0, 0, 0]);
    assert_eq!(stages(&warm), [input, whole_blocks, whole_blocks, whole_blocks, whole_blocks]);
    assert_eq!(warm.field("worker"), cold.field("worker"));
    assert_ne!(warm.field("trace_id"), cold.field("trace_id"));
    watched.agrees().await;
    watched.stop().await;
}

/// As many tokens as four blocks have, which an engine never reuses to the last one.
fn four_blocks(first: u32) -> Value {
    json!({"model": "sim", "prompt": (first..first + 64).collect::<Vec<_>>(), "max_tokens": 1})
}

#[tokio::test]
async fn each_stage_of_the_funnel_stands_in_a_field_of_its_own() {
    let looking = |config: &mut kvroute_server::ServeConfig| {
        config.trusted = vec!["127.0.0.0/8".parse().unwrap()];
        (config.router.pools[0].policy, config.router.pools[0].observe) = ("round-robin".to_owned(), true);
    };
    let watched = Watched::start_with("stages", vec![SimConfig::default(); 2], looking).await;
    let path = "/v1/completions";
    let engines = [0, 1].map(|engine: usize| watched.fleet.engines[engine].address().to_string());
    let is_followed = async |blocks: u64| {
        let has = |answer: &kvroute_testkit::Answer| answer.json()[0]["ranks"][0]["blocks"] == blocks;
        watched.fleet.client.until(&watched.fleet.admin("/api/workers"), has).await;
    };
    let pinned = async |request: &str, engine: usize, body: &Value| {
        let (id, url) = (watched.id(request), watched.fleet.data(path));
        let headers = [("x-request-id", id.as_str()), ("x-kvroute-worker", &engines[engine])];
        assert_eq!(watched.fleet.client.post_with(&url, &headers, body).await.status, 200);
        stages(&watched.line(request).await)
    };
    assert_eq!(pinned("cold", 0, &four_blocks(100)).await, [64, 0, 0, 0, 0]);
    is_followed(4).await;
    assert_eq!(pinned("warm", 0, &four_blocks(100)).await, [64, 64, 64, 64, 48]);
    assert_eq!(pinned("elsewhere", 1, &four_blocks(100)).await, [64, 64, 0, 0, 0]);
    pinned("other", 0, &four_blocks(500)).await;
    is_followed(8).await;
    let mut found = Vec::new();
    for request in ["one", "two"] {
        found.push(stages(&watched.told(request, path, &four_blocks(500)).await.1));
    }
    found.sort_unstable();
    assert_eq!(found, [[64, 64, 64, 0, 0], [64, 64, 64, 64, 48]], "each engine had its turn");
    watched.agrees().await;
    watched.stop().await;
}

/// F0, A, F2, F3 and F4.
fn stages(line: &LogEntry) -> [u64; 5] {
    [
        "input_tokens",
        "best_cached_tokens",
        "best_eligible_cached_tokens",
        "selected_cached_tokens",
        "reused_tokens",
    ]
    .map(|field| number(line, field).unwrap_or_else(|| panic!("no {field} in {line:?}")))
}

#[tokio::test]
async fn a_whole_answer_has_no_first_token() {
    let watched = Watched::start("whole", vec![SimConfig::default()]).await;
    let (_, line) = watched.told("one", CHAT, &chat("hello")).await;
    let expected = [("stream", "false"), ("status", "200"), ("outcome", "completed"), ("output_tokens", "4")];
    assert_says(&line, &expected, &["ttft_seconds", "error"]);
    let text = json!({"model": "sim", "prompt": "hello", "max_tokens": 3});
    let (_, line) = watched.told("two", "/v1/completions", &text).await;
    assert_says(&line, &[("endpoint", "/v1/completions"), ("output_tokens", "3")], &["ttft_seconds"]);
    watched.agrees().await;
    watched.stop().await;
}

#[tokio::test]
async fn what_was_computed_before_is_told_where_a_history_is_asked() {
    let remembering = |config: &mut kvroute_server::ServeConfig| {
        config.router.pools[0].history.enabled = true;
    };
    let watched = Watched::start_with("remembered", vec![SimConfig::default()], remembering).await;
    let body = json!({"model": "sim", "prompt": (300..400).collect::<Vec<_>>(), "max_tokens": 1});
    let (_, line) = watched.told("one", "/v1/completions", &body).await;
    assert_says(&line, &[("input_tokens", "100"), ("history_cached_tokens", "0")], &[]);
    watched.agrees().await;
    let (_, line) = watched.told("two", "/v1/completions", &body).await;
    assert_says(&line, &[("input_tokens", "100"), ("history_cached_tokens", "96")], &[]);
    watched.agrees().await;
    watched.stop().await;
}

#[tokio::test]
async fn what_nobody_asked_an_index_for_is_absent_and_not_zero() {
    let round_robin = |config: &mut kvroute_server::ServeConfig| {
        config.router.pools[0].policy = "round-robin".to_owned();
    };
    let watched = Watched::start_with("blind", vec![SimConfig::default()], round_robin).await;
    let (_, line) = watched.told("one", CHAT, &streamed("hello")).await;
    let cached = [
        "history_cached_tokens",
        "best_cached_tokens",
        "best_eligible_cached_tokens",
        "selected_cached_tokens",
    ];
    assert_says(&line, &[("policy", "round-robin"), ("reused_tokens", "0"), ("report", "reported")], &cached);
    assert!(number(&line, "input_tokens") > Some(0));
    watched.agrees().await;
    watched.stop().await;
}

#[tokio::test]
async fn an_engine_that_reports_nothing_has_reused_an_unknown_number() {
    let watched = Watched::start("silent", faulty(Faults { no_report: true, ..Faults::default() })).await;
    let (_, line) = watched.told("one", CHAT, &streamed("hello")).await;
    assert_says(&line, &[("outcome", "completed"), ("report", "missing")], &["reused_tokens"]);
    watched.agrees().await;
    watched.stop().await;
}

#[tokio::test]
async fn a_model_counts_under_the_name_of_its_pool() {
    let with_alias = |config: &mut kvroute_server::ServeConfig| {
        config.router.pools[0].aliases = vec!["another-name".to_owned()];
    };
    let watched = Watched::start_with("alias", vec![SimConfig::default()], with_alias).await;
    let mut body = chat("hello");
    body["model"] = json!("another-name");
    let (answer, line) = watched.told("one", CHAT, &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_says(&line, &[("model", "sim"), ("outcome", "completed")], &[]);
    watched.agrees().await;
    watched.stop().await;
}
