//! Generated text is remembered, too, where the engine tells which tokens it is; its client does not notice.

use kvroute_router::config::{HistoryOutputs, PoolConfig};
use kvroute_sim::SimConfig;
use kvroute_testkit::{Answer, Fleet};
use serde_json::{Value, json};

use super::asking::{BLOCK, COMPLETIONS, ask, body, engine, entries, fleet, observed, prompt, send};

/// Tokens that are generated: some blocks behind a prompt that ends within one.
const GENERATED: u64 = 5 * BLOCK;

/// The prompt of these tests: two blocks and a half.
const PROMPT: u64 = 2 * BLOCK + BLOCK / 2;

fn generating(prompt: &[u32]) -> Value {
    let mut body = body(prompt);
    body["max_tokens"] = GENERATED.into();
    body["ignore_eos"] = true.into();
    body
}

/// The ids of an answer, which its engine gives to whoever asks for them.
async fn generated_ids(fleet: &Fleet, body: &Value) -> Vec<Vec<u32>> {
    let mut asked = body.clone();
    asked["return_token_ids"] = true.into();
    let engine = format!("{}{COMPLETIONS}", fleet.engines[0].url());
    let answer = fleet.client.post(&engine, &asked).await.json();
    let ids = |choice: &Value| serde_json::from_value(choice["token_ids"].clone()).unwrap();
    answer["choices"].as_array().unwrap().iter().map(ids).collect()
}

fn untracked(scrape: &kvroute_testkit::Exposition) -> u64 {
    scrape.count("kvroute_history_untracked_output_tokens_total", &[("model", "sim")])
}

/// F1 of a conversation's next turn: the prompt, its answer, and something new.
async fn next_turn(fleet: &Fleet, answer: &[u32]) -> u64 {
    ask(fleet, &[&prompt(1, PROMPT), answer, &prompt(9, 40)].concat()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_turn_finds_the_answer_but_for_its_last_token() {
    for stream in [false, true] {
        let fleet = fleet(vec![engine()], "kv", |_| {}).await;
        let mut request = generating(&prompt(1, PROMPT));
        request["stream"] = stream.into();
        send(&fleet, &request).await;
        observed(&fleet).await;
        let answer = generated_ids(&fleet, &generating(&prompt(1, PROMPT))).await.remove(0);
        assert_eq!(answer.len() as u64, GENERATED);
        // The newest token has not been read by the model, so it has no KV.
        let computed = (PROMPT + GENERATED - 1) / BLOCK;
        assert_eq!(entries(&fleet).await, computed, "stream: {stream}");
        assert_eq!(next_turn(&fleet, &answer).await, computed * BLOCK);
        assert_eq!(untracked(&fleet.at_rest().await), 0);
        fleet.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_ends_on_a_block_boundary_lacks_the_token_that_would_complete_it() {
    let fleet = fleet(vec![engine()], "kv", |_| {}).await;
    let mut request = generating(&prompt(1, 2 * BLOCK));
    request["max_tokens"] = BLOCK.into();
    send(&fleet, &request).await;
    observed(&fleet).await;
    assert_eq!(entries(&fleet).await, 2);
    request["max_tokens"] = (BLOCK + 1).into();
    send(&fleet, &request).await;
    observed(&fleet).await;
    assert_eq!(entries(&fleet).await, 3);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_answer_to_a_prompt_is_remembered_by_itself() {
    let fleet = fleet(vec![engine()], "kv", |_| {}).await;
    let mut request = generating(&prompt(1, PROMPT));
    request["n"] = 2.into();
    request["stream"] = true.into();
    send(&fleet, &request).await;
    observed(&fleet).await;
    request["stream"] = false.into();
    let answers = generated_ids(&fleet, &request).await;
    assert_ne!(answers[0], answers[1]);
    let computed = (PROMPT + GENERATED - 1) / BLOCK;
    assert_eq!(entries(&fleet).await, 2 + 2 * (computed - 2));
    for answer in &answers {
        assert_eq!(next_turn(&fleet, answer).await, computed * BLOCK);
    }
    fleet.stop().await;
}

/// The same request, answered by one engine through a router with a history, and by the engine itself.
async fn with_and_without(stream: bool, path: &str, request: Value) -> (Answer, Answer) {
    let fleet = fleet(vec![engine()], "kv", |_| {}).await;
    let mut request = request;
    (request["stream"], request["stream_options"]) = (stream.into(), json!({"include_usage": true}));
    if !stream {
        request.as_object_mut().unwrap().remove("stream_options");
    }
    let direct = fleet.client.post(&format!("{}{path}", fleet.engines[0].url()), &request).await;
    let routed = fleet.client.post(&fleet.data(path), &request).await;
    fleet.stop().await;
    (routed, direct)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_did_not_ask_sees_no_ids() {
    let chat = json!({"model": "sim", "messages": [{"role": "user", "content": "once upon a time"}], "max_tokens": 20});
    for stream in [false, true] {
        for (path, request) in
            [(COMPLETIONS, generating(&prompt(1, PROMPT))), ("/v1/chat/completions", chat.clone())]
        {
            let (routed, direct) = with_and_without(stream, path, request).await;
            assert_eq!(without_names(&routed), without_names(&direct), "{path}, stream: {stream}");
            assert!(!routed.text().contains("\"token_ids\":["), "{}", routed.text());
        }
    }
}

/// An answer without what differs from one answer to the next, and without what the first of two equal prompts warms up.
fn without_names(answer: &Answer) -> String {
    let text = answer.text();
    let parts = text.split('"').collect::<Vec<_>>();
    let is_name = |part: &&str| part.starts_with("cmpl-") || part.starts_with("chatcmpl-");
    let named = parts.iter().map(|part| if is_name(part) { "name" } else { part });
    let named = named.collect::<Vec<_>>().join("\"");
    let digits =
        |text: &str| text.trim_start_matches(|character: char| character.is_ascii_digit()).to_owned();
    ["\"created\":", "\"cached_tokens\":", "\"created_cache_tokens\":"].iter().fold(named, |text, key| {
        let mut pieces = text.split(key);
        let first = pieces.next().unwrap_or_default().to_owned();
        pieces.fold(first, |text, piece| text + key + &digits(piece))
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_asked_gets_its_ids() {
    let fleet = fleet(vec![engine()], "kv", |_| {}).await;
    let mut request = generating(&prompt(1, PROMPT));
    request["return_token_ids"] = true.into();
    let answer = send(&fleet, &request).await.json();
    assert_eq!(answer["choices"][0]["token_ids"].as_array().unwrap().len() as u64, GENERATED);
    assert_eq!(answer["choices"][0]["prompt_token_ids"].as_array().unwrap().len() as u64, PROMPT);
    observed(&fleet).await;
    assert_eq!(entries(&fleet).await, (PROMPT + GENERATED - 1) / BLOCK);
    fleet.stop().await;
}

async fn prompt_alone(engine: SimConfig, change: fn(&mut PoolConfig)) {
    let fleet = fleet(vec![engine], "kv", change).await;
    send(&fleet, &generating(&prompt(1, PROMPT))).await;
    observed(&fleet).await;
    assert_eq!(entries(&fleet).await, PROMPT / BLOCK);
    assert_eq!(untracked(&fleet.at_rest().await), GENERATED);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nobody_tells_ids_only_the_prompt_is_remembered_and_the_rest_is_counted() {
    prompt_alone(engine(), |pool| pool.history.outputs = HistoryOutputs::Off).await;
}
