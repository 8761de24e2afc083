//! Generated text in the history, and what asking for its ids does to answers: nothing that a client could see.

use kvroute_router::config::HistoryOutputs;
use kvroute_sim::{Faults, SimConfig};
use kvroute_testkit::{CapturedLog, Fleet};
use serde_json::{Value, json};

use super::asking::{BLOCK, COMPLETIONS, ask, engine, entries, fleet, observed, prompt, send};

const CHAT: &str = "/v1/chat/completions";
const INPUT: u64 = 2 * BLOCK + 5;
const OUTPUT: u64 = 3 * BLOCK;
/// Whole blocks before the newest token.
const COMPUTED: u64 = (INPUT + OUTPUT - 1) / BLOCK * BLOCK;

fn generation(stream: bool) -> Value {
    json!({"model": "sim", "prompt": prompt(1, INPUT), "max_tokens": OUTPUT, "stream": stream})
}

/// What the engine generates for a body, as it says itself.
async fn generated(fleet: &Fleet, body: &Value) -> Vec<u32> {
    let mut body = body.clone();
    (body["stream"], body["return_token_ids"]) = (false.into(), true.into());
    let answer = fleet.client.post(&format!("{}{COMPLETIONS}", fleet.engines[0].url()), &body).await.json();
    serde_json::from_value(answer["choices"][0]["token_ids"].clone()).unwrap()
}

/// F1 of the next turn of a conversation, of which the answer to `body` was the last one.
async fn known_of_next_turn(fleet: &Fleet, body: &Value) -> u64 {
    let answer = generated(fleet, body).await;
    assert_eq!(answer.len() as u64, OUTPUT);
    ask(fleet, &[prompt(1, INPUT), answer, prompt(2, BLOCK)].concat()).await
}

async fn untracked(fleet: &Fleet) -> u64 {
    fleet.at_rest().await.count("kvroute_history_untracked_output_tokens_total", &[])
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_known_as_a_part_of_the_next_prompt() {
    for stream in [false, true] {
        let fleet = fleet(vec![engine()], "kv", |_| {}).await;
        let body = generation(stream);
        let answer = send(&fleet, &body).await;
        assert!(!answer.text().contains("token_ids\":["), "{}", answer.text());
        assert_eq!(known_of_next_turn(&fleet, &body).await, COMPUTED, "streamed: {stream}");
        assert_eq!(untracked(&fleet).await, 0);
        fleet.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_choice_of_every_prompt_is_followed() {
    let fleet = fleet(vec![engine()], "kv", |_| {}).await;
    let mut body = generation(true);
    (body["n"], body["prompt"]) = (2.into(), json!([prompt(3, 20), prompt(1, INPUT)]));
    send(&fleet, &body).await;
    body["return_token_ids"] = true.into();
    body["stream"] = false.into();
    let answers = fleet.client.post(&format!("{}{COMPLETIONS}", fleet.engines[0].url()), &body).await.json();
    for (choice, first) in
        [(0, prompt(3, 20)), (1, prompt(3, 20)), (2, prompt(1, INPUT)), (3, prompt(1, INPUT))]
    {
        let ids: Vec<u32> = serde_json::from_value(answers["choices"][choice]["token_ids"].clone()).unwrap();
        let known = (first.len() as u64 + OUTPUT - 1) / BLOCK * BLOCK;
        assert_eq!(ask(&fleet, &[first, ids, prompt(2, BLOCK)].concat()).await, known, "choice {choice}");
    }
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_outputs_only_the_prompt_is_known_and_nobody_is_asked() {
    let fleet = fleet(vec![engine()], "kv", |pool| pool.history.outputs = HistoryOutputs::Off).await;
    let mut body = generation(true);
    send(&fleet, &body).await;
    assert_eq!(untracked(&fleet).await, OUTPUT);
    body["return_token_ids"] = true.into();
    assert!(send(&fleet, &body).await.text().contains("\"token_ids\":["), "its client asked");
    assert_eq!(untracked(&fleet).await, 2 * OUTPUT, "and nobody else looks");
    assert_eq!(known_of_next_turn(&fleet, &body).await, INPUT / BLOCK * BLOCK);
    fleet.stop().await;
}

/// Whatever the engine does with the question, the client gets the bytes of an engine that nobody asked.
#[tokio::test(flavor = "multi_thread")]
async fn the_clients_bytes_are_those_of_an_engine_that_nobody_asked_for_ids() {
    let faults = Faults { swallow_every: 3, ..Faults::default() };
    let fleet = fleet(vec![SimConfig { faults, ..engine() }], "kv", |_| {}).await;
    for path in [CHAT, COMPLETIONS] {
        for stream in [false, true] {
            let mut body = json!({"model": "sim", "max_tokens": 7, "n": 2, "stream": stream});
            match path {
                CHAT => body["messages"] = json!([{"role": "user", "content": "hello"}]),
                _ => body["prompt"] = json!([prompt(1, 20), prompt(2, 30)]),
            }
            if stream {
                body["stream_options"] = json!({"include_usage": true});
            }
            let direct = format!("{}{path}", fleet.engines[0].url());
            // The second one of each finds the same in the cache.
            fleet.client.post(&direct, &body).await;
            let through = lines(&fleet.client.post(&fleet.data(path), &body).await.text());
            assert_eq!(through, lines(&fleet.client.post(&direct, &body).await.text()), "{path} {stream}");
            body["return_token_ids"] = true.into();
            let asked = lines(&fleet.client.post(&fleet.data(path), &body).await.text());
            assert_eq!(asked, lines(&fleet.client.post(&direct, &body).await.text()), "{path} {stream}");
            assert_ne!(asked, through);
        }
    }
    fleet.stop().await;
}

/// The events of an answer without id and time, those of each choice together: how choices interleave is the engine's luck.
fn lines(text: &str) -> Vec<String> {
    let unnamed = |event: &str| {
        let event = without(event, "\"id\":\"", |character| character != '"');
        without(&event, "\"created\":", |character| character.is_ascii_digit())
    };
    let mut lines: Vec<_> = text.split_terminator("\n\n").map(unnamed).collect();
    let index = |line: &String| line.find("\"index\":").map(|at| line.as_bytes()[at + 8]);
    lines.sort_by_key(index);
    lines
}

/// The text without what stands behind `key`.
fn without(text: &str, key: &str, is_value: impl Fn(char) -> bool) -> String {
    let (before, behind) = text.split_once(key).unwrap_or((text, ""));
    format!("{before}{}", behind.trim_start_matches(is_value))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_refuses_the_question_is_asked_again_without_it_and_then_no_more() {
    let log = CapturedLog::start();
    let faults = Faults { refuse_token_ids: true, ..Faults::default() };
    let fleet = fleet(vec![SimConfig { faults, ..engine() }], "kv", |_| {}).await;
    for number in 0..3 {
        let answer = send(&fleet, &generation(number > 0)).await;
        assert!(!answer.text().contains("\"usage\":{") || number == 0, "still withheld: {}", answer.text());
    }
    let scrape = fleet.at_rest().await;
    assert_eq!(scrape.count("kvroute_attempts_total", &[("outcome", "completed")]), 3);
    assert_eq!(scrape.count("kvroute_attempts_total", &[]), 3, "asking again is no further attempt");
    assert_eq!(scrape.count("kvroute_router_reuse_reports_total", &[("outcome", "reported")]), 3);
    assert_eq!(scrape.count("kvroute_history_untracked_output_tokens_total", &[]), 3 * OUTPUT);
    assert_eq!(observed(&fleet).await.complete, 3, "the prompts are taught all the same");
    let worker = fleet.engines[0].address().to_string();
    let told = log.entries(|entry| {
        entry.message.contains("refuses return_token_ids") && entry.field("worker") == worker
    });
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].field("remedy").contains("history.outputs"));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_in_a_private_report_need_no_question() {
    let faults = Faults { refuse_token_ids: true, private_token_ids: true, ..Faults::default() };
    let fleet = fleet(vec![SimConfig { faults, ..engine() }], "kv", |_| {}).await;
    let body = generation(true);
    let answer = send(&fleet, &body).await;
    assert!(!answer.text().contains("engine_data"), "{}", answer.text());
    assert_eq!(untracked(&fleet).await, 0);
    let same = fleet_of_ids(&body).await;
    assert_eq!(ask(&fleet, &[prompt(1, INPUT), same, prompt(2, BLOCK)].concat()).await, COMPUTED);
    fleet.stop().await;
}

/// What an equal engine without faults generates for a body.
async fn fleet_of_ids(body: &Value) -> Vec<u32> {
    let fleet = fleet(vec![engine()], "kv", |_| {}).await;
    let ids = generated(&fleet, body).await;
    fleet.stop().await;
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_ends_on_a_block_boundary_lacks_the_token_that_would_complete_it() {
    let fleet = fleet(vec![engine()], "kv", |_| {}).await;
    let mut request = generation(false);
    (request["prompt"], request["max_tokens"]) = (json!(prompt(1, 2 * BLOCK)), BLOCK.into());
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
async fn a_client_that_asked_gets_its_ids() {
    let fleet = fleet(vec![engine()], "kv", |_| {}).await;
    let mut request = generation(false);
    request["return_token_ids"] = true.into();
    let answer = send(&fleet, &request).await.json();
    assert_eq!(answer["choices"][0]["token_ids"].as_array().unwrap().len() as u64, OUTPUT);
    assert_eq!(answer["choices"][0]["prompt_token_ids"].as_array().unwrap().len() as u64, INPUT);
    observed(&fleet).await;
    assert_eq!(entries(&fleet).await, COMPUTED / BLOCK);
    fleet.stop().await;
}
