//! Whether the router's tokens are the engine's: found out within ten requests, said aloud, and acted upon.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "test code")]

mod identity {
    pub(crate) mod models;
}

use std::path::Path;

use identity::models::{self, fleet};
use kvroute_router::config::{OnMismatch, PoolConfig, TokenizerSource};
use kvroute_sim::{Flavour, SimConfig};
use kvroute_testkit::{CapturedLog, Exposition, Fleet, Ledger, demo_tokenizer_folder};
use serde_json::{Value, json};

/// Requests within which a wrong tokenizer must be found.
const FOUND_WITHIN: usize = 10;

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";

fn chat(number: usize) -> Value {
    let text = format!("question number {number}: {}", "what about the weather in town ".repeat(20));
    json!({"model": "sim", "messages": [{"role": "user", "content": text}], "max_tokens": 2})
}

fn text(number: usize) -> Value {
    let text = format!("story number {number}: {}", "once upon a time there was a house ".repeat(20));
    json!({"model": "sim", "prompt": text, "max_tokens": 2})
}

async fn ask(fleet: &Fleet, path: &str, body: &Value) -> Value {
    let answer = fleet.client.post(&fleet.data(path), body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// What the engine counted of an answer's prompt.
fn prompt_tokens(answer: &Value) -> u64 {
    answer["usage"]["prompt_tokens"].as_u64().unwrap()
}

async fn is_in_state(fleet: &Fleet, worker: usize, state: &str) -> Value {
    let holds = |list: &Value| list[worker]["identity"]["state"] == state;
    let answer = fleet.client.until(&fleet.admin("/api/workers"), |answer| holds(&answer.json())).await;
    answer.json()[worker]["identity"].clone()
}

async fn books_close(fleet: &Fleet) -> Exposition {
    let scrape = fleet.at_rest().await;
    Ledger::of(&scrape).assert_closes();
    scrape
}

fn uncounted(scrape: &Exposition, reason: &str) -> u64 {
    scrape.count("kvroute_uncounted_attempts_total", &[("reason", reason)])
}

fn input(scrape: &Exposition) -> u64 {
    scrape.count("dynamo_component_router_input_sequence_tokens_sum", &[])
}

fn reports(scrape: &Exposition, outcome: &str) -> u64 {
    scrape.count("kvroute_router_reuse_reports_total", &[("outcome", outcome)])
}

fn nothing_changed(_: &mut PoolConfig) {}

#[tokio::test]
async fn an_engine_with_the_same_model_is_proven_before_any_request() {
    let demo = demo_tokenizer_folder();
    let fleet = fleet(&[(SimConfig::default(), &demo)], &demo, nothing_changed).await;
    is_in_state(&fleet, 0, "proven").await;
    let all = "text: equal ids; chat: equal ids; chat with tools: equal ids";
    let is_compared = |list: Value| list[0]["identity"]["reason"] == all;
    fleet.client.until(&fleet.admin("/api/workers"), |answer| is_compared(answer.json())).await;
    ask(&fleet, CHAT, &chat(1)).await;
    let scrape = books_close(&fleet).await;
    assert_eq!((reports(&scrape, "reported"), reports(&scrape, "mismatched")), (1, 0));
    assert!(scrape.count("kvroute_identity_checks_total", &[("result", "equal")]) >= 6);
    let worker = worker_id(&fleet);
    let state =
        |state| scrape.count("kvroute_identity_state", &[("worker_id", worker.as_str()), ("state", state)]);
    assert_eq!((state("proven"), state("unproven"), state("mismatch")), (1, 0, 0));
    fleet.stop().await;
}

fn worker_id(fleet: &Fleet) -> String {
    fleet.engines[0].url().trim_start_matches("http://").to_owned()
}

#[tokio::test]
async fn another_template_tokenizer_or_first_token_is_found_within_ten_requests_and_named() {
    let log = CapturedLog::start();
    let demo = demo_tokenizer_folder();
    let cases = [
        (models::other_template(), "chat: other ids", "template"),
        (models::first_token(), "text: other ids from position 0", "token in front"),
        (models::other_ids(), "text: other ids from position 0", "tokenizer"),
    ];
    for (folder, reason, hint) in cases {
        let fleet = fleet(&[(SimConfig::default(), folder.path())], &demo, nothing_changed).await;
        for number in 0..FOUND_WITHIN / 2 {
            ask(&fleet, CHAT, &chat(number)).await;
            ask(&fleet, TEXT, &text(number)).await;
        }
        let identity = is_in_state(&fleet, 0, "mismatch").await;
        let words = identity["reason"].as_str().unwrap();
        assert!(words.contains(reason), "{hint}: {words}");
        let worker = worker_id(&fleet);
        let said = log.entries(|entry| {
            entry.message.contains("identity mismatch")
                && entry.field("worker") == worker
                && !entry.field("position").is_empty()
        });
        assert!(!said.is_empty(), "{hint}: nothing was said of the ids of {worker}");
        for field in ["router_id", "engine_id", "kind", "model"] {
            assert!(!said[0].field(field).is_empty(), "{hint}: {field} is missing in {said:?}");
        }
        assert!(said[0].field("hint").contains(hint), "{hint}: {said:?}");
        books_close(&fleet).await;
        fleet.stop().await;
    }
}

#[tokio::test]
async fn an_engine_that_cannot_tokenize_chats_is_found_out_by_the_lengths_of_its_reports() {
    let (demo, other) = (demo_tokenizer_folder(), models::other_template());
    let trtllm = SimConfig { flavour: Flavour::TrtLlm, ..SimConfig::default() };
    let fleet = fleet(&[(trtllm, other.path())], &demo, |pool| pool.on_mismatch = OnMismatch::Load).await;
    for number in 0..FOUND_WITHIN {
        ask(&fleet, CHAT, &chat(number)).await;
    }
    let identity = is_in_state(&fleet, 0, "mismatch").await;
    assert!(identity["reason"].as_str().unwrap().contains("chat: other lengths"), "{identity}");
    let scrape = books_close(&fleet).await;
    assert!(scrape.count("kvroute_identity_checks_total", &[("result", "length")]) >= 2);
    assert!(uncounted(&scrape, "identity") > 0);
    fleet.stop().await;
}

#[tokio::test]
async fn behind_a_mismatch_the_engine_counts_and_its_answers_are_kept() {
    let (demo, other) = (demo_tokenizer_folder(), models::other_template());
    let fleet = fleet(&[(SimConfig::default(), &demo)], other.path(), nothing_changed).await;
    is_in_state(&fleet, 0, "mismatch").await;
    let mut counted_by_engine = 0;
    for number in [1, 2, 1, 1] {
        counted_by_engine += prompt_tokens(&ask(&fleet, CHAT, &chat(number)).await);
    }
    let scrape = books_close(&fleet).await;
    assert_eq!(input(&scrape), counted_by_engine);
    assert_eq!((reports(&scrape, "reported"), reports(&scrape, "mismatched")), (4, 0));
    assert_eq!(scrape.count("kvroute_uncounted_attempts_total", &[]), 0);
    let cache = |result| scrape.count("kvroute_tokenizer_cache_tokens_total", &[("result", result)]);
    assert!(cache("hit") > 0 && cache("miss") > 0, "{} {}", cache("hit"), cache("miss"));
    assert_eq!(cache("hit") + cache("miss"), counted_by_engine);
    let selected = scrape.count("dynamo_component_router_kv_selected_cached_prefix_tokens_total", &[]);
    assert!(selected > 0, "a repeated prompt is found under the engine's ids");
    is_in_state(&fleet, 0, "mismatch").await;
    fleet.stop().await;
}

#[tokio::test]
async fn behind_a_mismatch_requests_go_by_load_where_that_is_wanted() {
    let (demo, other) = (demo_tokenizer_folder(), models::other_template());
    let by_load = |pool: &mut PoolConfig| pool.on_mismatch = OnMismatch::Load;
    let fleet = fleet(&[(SimConfig::default(), &demo)], other.path(), by_load).await;
    is_in_state(&fleet, 0, "mismatch").await;
    for number in 0..5 {
        ask(&fleet, CHAT, &chat(number)).await;
    }
    let of_text = prompt_tokens(&ask(&fleet, TEXT, &text(1)).await);
    let scrape = books_close(&fleet).await;
    assert_eq!((uncounted(&scrape, "identity"), reports(&scrape, "unchecked")), (5, 5));
    assert_eq!(input(&scrape), of_text, "plain text needs no template and is counted on");
    fleet.stop().await;
}

#[tokio::test]
async fn a_template_that_fails_on_one_request_costs_that_request_only() {
    let (demo, failing) = (demo_tokenizer_folder(), models::template_that_fails_on("odd"));
    let odd = json!({"model": "sim", "messages": [{"role": "user", "content": "odd"}], "max_tokens": 2});
    for (on_mismatch, uncounted_chats) in [(OnMismatch::Engine, 0), (OnMismatch::Load, 1)] {
        let change = |pool: &mut PoolConfig| pool.on_mismatch = on_mismatch;
        let fleet = fleet(&[(SimConfig::default(), &demo)], failing.path(), change).await;
        is_in_state(&fleet, 0, "proven").await;
        ask(&fleet, CHAT, &chat(1)).await;
        ask(&fleet, CHAT, &odd).await;
        ask(&fleet, CHAT, &chat(2)).await;
        let scrape = books_close(&fleet).await;
        assert_eq!(uncounted(&scrape, "template"), uncounted_chats, "{on_mismatch:?}");
        assert_eq!(reports(&scrape, "reported"), 3 - uncounted_chats, "{on_mismatch:?}");
        is_in_state(&fleet, 0, "proven").await;
        fleet.stop().await;
    }
}

#[tokio::test]
async fn one_worker_that_differs_is_named_and_the_others_are_counted_for_as_before() {
    let (demo, other) = (demo_tokenizer_folder(), models::other_ids());
    let engines = [(SimConfig::default(), demo.as_path()), (SimConfig::default(), other.path())];
    let fleet = fleet(&engines, &demo, nothing_changed).await;
    is_in_state(&fleet, 0, "proven").await;
    is_in_state(&fleet, 1, "mismatch").await;
    let mut counted = 0;
    for number in 0..6 {
        counted += prompt_tokens(&ask(&fleet, TEXT, &text(number)).await);
    }
    let scrape = books_close(&fleet).await;
    assert_eq!((input(&scrape), scrape.count("kvroute_uncounted_attempts_total", &[])), (counted, 0));
    is_in_state(&fleet, 0, "proven").await;
    is_in_state(&fleet, 1, "mismatch").await;
    fleet.stop().await;
}

#[tokio::test]
async fn engines_of_two_kinds_are_each_held_against_their_own_rules() {
    let demo = demo_tokenizer_folder();
    let of = |flavour| (SimConfig { flavour, ..SimConfig::default() }, demo.as_path());
    let fleet = fleet(&[of(Flavour::Vllm), of(Flavour::Sglang)], &demo, nothing_changed).await;
    is_in_state(&fleet, 0, "proven").await;
    is_in_state(&fleet, 1, "proven").await;
    for number in 0..4 {
        ask(&fleet, CHAT, &chat(number)).await;
    }
    let scrape = books_close(&fleet).await;
    assert_eq!(reports(&scrape, "mismatched"), 0);
    fleet.stop().await;
}

#[tokio::test]
async fn a_worker_that_comes_back_with_the_right_model_is_proven_anew() {
    let (demo, other) = (demo_tokenizer_folder(), models::other_template());
    let mut fleet = fleet(&[(SimConfig::default(), other.path())], &demo, nothing_changed).await;
    is_in_state(&fleet, 0, "mismatch").await;
    let wrong = fleet.engines.remove(0);
    let listen = wrong.url().trim_start_matches("http://").parse().unwrap();
    wrong.stop().await;
    fleet.client.until(&fleet.admin("/api/workers"), |answer| answer.json()[0]["state"] != "ready").await;
    fleet.engines.push(models::engine(SimConfig { listen, ..SimConfig::default() }, &demo).await);
    is_in_state(&fleet, 0, "proven").await;
    ask(&fleet, CHAT, &chat(1)).await;
    let scrape = fleet.at_rest().await;
    assert_eq!((reports(&scrape, "reported"), reports(&scrape, "mismatched")), (1, 0));
    fleet.stop().await;
}

#[tokio::test]
async fn a_pool_without_a_tokenizer_asks_the_engines_and_keeps_what_they_say() {
    let demo = demo_tokenizer_folder();
    let by_engine = |pool: &mut PoolConfig| pool.tokenizer = TokenizerSource::Engine;
    let fleet = fleet(&[(SimConfig::default(), &demo)], Path::new("unused"), by_engine).await;
    let mut counted = 0;
    for number in [1, 2, 3, 4, 4] {
        counted += prompt_tokens(&ask(&fleet, TEXT, &text(number)).await);
    }
    is_in_state(&fleet, 0, "proven").await;
    let scrape = books_close(&fleet).await;
    assert_eq!(input(&scrape), counted);
    let hits = scrape.count("kvroute_tokenizer_cache_tokens_total", &[("result", "hit")]);
    assert!(hits > 0 && hits < counted, "{hits} of {counted}");
    let beyond = json!({"model": "sim", "prompt": [4_000_000], "max_tokens": 2});
    assert_ne!(fleet.client.post(&fleet.data(TEXT), &beyond).await.status, 200);
    fleet.stop().await;
}

/// Folders of published models; `None`, with a line that says so, where they are not there.
fn published(names: &[&str]) -> Option<Vec<std::path::PathBuf>> {
    let Some(folder) = std::env::var_os("KVROUTE_TOKENIZERS") else {
        assert!(std::env::var_os("KVROUTE_REQUIRE_PEERS").is_none(), "KVROUTE_TOKENIZERS is not set");
        eprintln!("skipped: set KVROUTE_TOKENIZERS (`cargo xtask peers` fetches the tokenizers)");
        return None;
    };
    Some(names.iter().map(|name| Path::new(&folder).join(name)).collect())
}

#[tokio::test]
async fn published_models_are_proven_against_themselves_and_differ_from_each_other() {
    let Some(folders) = published(&["qwen3", "llama3_1", "deepseek_v3"]) else { return };
    let [qwen3, llama3, deepseek] = folders.as_slice() else { panic!("three folders") };
    for (engine, router, state) in
        [(qwen3, qwen3, "proven"), (llama3, llama3, "proven"), (qwen3, deepseek, "mismatch")]
    {
        let fleet = fleet(&[(SimConfig::default(), engine.as_path())], router, nothing_changed).await;
        let identity = is_in_state(&fleet, 0, state).await;
        ask(&fleet, TEXT, &text(1)).await;
        let scrape = books_close(&fleet).await;
        assert_eq!(reports(&scrape, "mismatched"), 0, "{}: {identity}", engine.display());
        assert_eq!(reports(&scrape, "reported"), 1, "{}: {identity}", engine.display());
        fleet.stop().await;
    }
}
