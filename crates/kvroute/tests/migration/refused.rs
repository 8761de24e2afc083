//! What cannot be continued ends with an event that says why.

use kvroute_router::config::TokenizerSource;
use kvroute_sim::{Faults, SimConfig};
use serde_json::{Value, json};

use super::asking::{CHAT, COMPLETIONS, Seen, breaking, fleet, migrations, piece, request, until_broken};

fn with(mut body: Value, members: Value) -> Value {
    let (Value::Object(all), Value::Object(members)) = (&mut body, members) else { panic!("no objects") };
    all.extend(members);
    body
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_tokens_do_not_decide_ends_with_its_reason() {
    let fleet = fleet(vec![breaking(4), SimConfig::default()], |_| {}).await;
    for (path, members, reason) in [
        (COMPLETIONS, json!({"frequency_penalty": 0.5}), "it penalises what was generated before"),
        (CHAT, json!({"response_format": {"type": "json_object"}}), "its answer is bound to a grammar"),
        (COMPLETIONS, json!({"logprobs": 1}), "it asks for places of tokens in the answer"),
        (COMPLETIONS, json!({"stop": 7.5}), "a stop text may have begun"),
    ] {
        let seen = until_broken(&fleet, path, &with(request(path, 1), members)).await;
        let expected = format!("; it was not continued on another worker: {reason}");
        assert!(seen.error().ends_with(&expected), "{}", seen.error());
        assert!(seen.error().contains("broke in the middle of its answer"), "{}", seen.error());
        assert_eq!(seen.errors[0]["code"], "upstream_broke_mid_stream");
    }
    assert_eq!(migrations(&fleet).await, 0);
    fleet.at_rest().await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_with_tools_is_not_continued() {
    let fleet = fleet(vec![breaking(4), SimConfig::default()], |_| {}).await;
    let tools = json!({"tools": [{"type": "function", "function": {"name": "f"}}]});
    let seen = until_broken(&fleet, CHAT, &with(request(CHAT, 1), tools)).await;
    assert!(seen.error().ends_with("it offers tools"), "{}", seen.error());
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_break_ends_the_stream() {
    let fleet = fleet(vec![breaking(4), breaking(4)], |_| {}).await;
    for path in [COMPLETIONS, CHAT] {
        let before = migrations(&fleet).await;
        let seen = until_broken(&fleet, path, &request(path, 2)).await;
        let reason = "it was continued once, as often as pool.migrations lets it";
        assert!(seen.error().ends_with(reason), "{}", seen.error());
        assert_eq!(migrations(&fleet).await, before + 1);
        assert!(!seen.text.is_empty());
    }
    fleet.at_rest().await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_another_worker_the_stream_ends() {
    let fleet = fleet(vec![breaking(4)], |_| {}).await;
    let seen = until_broken(&fleet, CHAT, &request(CHAT, 1)).await;
    assert!(seen.error().ends_with("no other worker can take it"), "{}", seen.error());
    assert_eq!(migrations(&fleet).await, 0);
    fleet.at_rest().await;
    fleet.stop().await;
}

/// Nobody is left either who could tell the ids of what the next worker would be asked.
#[tokio::test(flavor = "multi_thread")]
async fn where_the_workers_count_and_none_is_left_that_is_the_reason() {
    let slow = SimConfig { decode_tps: 2, ..SimConfig::default() };
    let mut fleet = fleet(vec![slow], |pool| pool.tokenizer = TokenizerSource::Engine).await;
    let mut stream = fleet.client.open(&fleet.data(CHAT), &request(CHAT, 1)).await.into_body();
    let mut told = String::new();
    while Seen::of(&told).text.is_empty() {
        told += &piece(&mut stream).await.expect("the stream ended");
    }
    let engine = fleet.engines.pop().unwrap();
    let stopped = tokio::spawn(engine.stop());
    while let Some(piece) = piece(&mut stream).await {
        told += &piece;
    }
    let seen = Seen::of(&told);
    assert!(seen.error().ends_with("no other worker can take it"), "{}", seen.error());
    stopped.await.unwrap();
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_gives_no_ids_is_not_continued() {
    let faults = Faults { refuse_token_ids: true, ..breaking(4).faults };
    let fleet = fleet(vec![SimConfig { faults, ..SimConfig::default() }, SimConfig::default()], |_| {}).await;
    let seen = until_broken(&fleet, COMPLETIONS, &request(COMPLETIONS, 1)).await;
    assert!(seen.error().ends_with("the ids of its tokens are not known"), "{}", seen.error());
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_refuses_the_next_part_ends_the_stream() {
    let refusing = Faults { refuse_status: Some(503), ..Faults::default() };
    let fleet =
        fleet(vec![breaking(4), SimConfig { faults: refusing, ..SimConfig::default() }], |_| {}).await;
    let body = request(CHAT, 1);
    // Turns go round: one of the two is asked first, and refuses by itself where that is the second one.
    let answers = [
        fleet.client.post(&fleet.data(CHAT), &body).await,
        fleet.client.post(&fleet.data(CHAT), &body).await,
    ];
    let streamed = answers.iter().find(|answer| answer.status == 200).unwrap();
    let seen = Seen::of(&streamed.text());
    assert!(seen.error().contains("answered with status 503"), "{}", seen.error());
    assert_eq!(migrations(&fleet).await, 0);
    fleet.at_rest().await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_migration_is_off_a_break_is_told_as_it_is() {
    let fleet = fleet(vec![breaking(4), SimConfig::default()], |pool| pool.migrations = 0).await;
    let seen = until_broken(&fleet, CHAT, &request(CHAT, 1)).await;
    assert!(!seen.error().contains("continued"), "{}", seen.error());
    assert_eq!(
        fleet.scrape().await.sum("kvroute_migrations_total", &[]),
        None,
        "a family of something that is off"
    );
    fleet.stop().await;
}
