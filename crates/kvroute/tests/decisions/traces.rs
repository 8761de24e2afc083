//! Asking leaves no trace.

use std::collections::BTreeMap;

use kvroute_select::policy;
use kvroute_testkit::Fleet;
use serde_json::{Value, json};

use super::fleet::{PROMPT, advice, ask, completion, listed, reported, serve, start, start_with};

/// What the process itself, the time of decisions and the work of tokenizing are about: a question costs these, too.
const OF_THE_WORK: [&str; 3] = ["process_", "dynamo_router_overhead_", "kvroute_tokenizer_cache_"];

/// Every sample by its name and labels, but for what any work moves.
async fn samples(fleet: &Fleet) -> BTreeMap<String, String> {
    let text = fleet.client.get(&fleet.admin("/metrics")).await.text();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let counted = lines.filter(|line| !OF_THE_WORK.iter().any(|name| line.starts_with(name)));
    let pairs = counted.filter_map(|line| line.rsplit_once(' '));
    pairs.map(|(series, value)| (series.to_owned(), value.to_owned())).collect()
}

#[tokio::test]
async fn no_metric_moves_for_a_question() {
    // The one that is left out takes no request without a pin.
    for policy in policy::NAMES.iter().copied().filter(|policy| *policy != "direct") {
        let fleet = start(3, policy).await;
        let before = samples(&fleet).await;
        for number in 0..20 {
            advice(&fleet, &format!("{PROMPT}{number}")).await;
        }
        assert_eq!(samples(&fleet).await, before, "{policy}");
        assert_eq!(listed(&fleet, "").await, Vec::<Value>::new(), "{policy}");
        for engine in &fleet.engines {
            let stats = fleet.client.get(&format!("{}/stats", engine.url())).await.json();
            assert_eq!(stats["requests"], 0, "{policy}");
        }

        serve(&fleet, PROMPT).await;
        assert_ne!(samples(&fleet).await, before, "a request that is served does move them");
        assert_eq!(listed(&fleet, "").await.len(), 1);
        fleet.stop().await;
    }
}

#[tokio::test]
async fn the_next_turn_stays_the_next_turn() {
    let fleet = start(3, "round-robin").await;
    serve(&fleet, PROMPT).await;
    let next = advice(&fleet, PROMPT).await["worker_id"].clone();
    for _ in 0..5 {
        assert_eq!(advice(&fleet, PROMPT).await["worker_id"], next);
    }
    serve(&fleet, PROMPT).await;
    let served = listed(&fleet, "").await;
    assert_eq!(served[0]["worker_id"], next);
    assert_ne!(served[0]["worker_id"], served[1]["worker_id"], "turns are taken");
    fleet.stop().await;
}

#[tokio::test]
async fn shadows_answer_a_question_and_learn_nothing_of_it() {
    let fleet = start_with(3, "kv", |config| {
        config.router.pools[0].shadow = ["round-robin", "random", "sticky"].map(str::to_owned).to_vec();
    })
    .await;
    let before = samples(&fleet).await;
    let question =
        json!({"endpoint": "completions", "body": completion(PROMPT), "headers": {"x-session-id": "a"}});
    for _ in 0..6 {
        let mut advised = Value::Null;
        for _ in 0..3 {
            advised = ask(&fleet, question.clone()).await.json()["shadows"].clone();
            assert_eq!(advised.as_array().unwrap().len(), 3);
        }
        let asked = fleet.data("/v1/completions");
        fleet.client.post_with(&asked, &[("x-session-id", "a")], &completion(PROMPT)).await;
        reported(&fleet).await;
        let taken = listed(&fleet, "?limit=1").await[0]["shadows"].clone();
        for (advised, taken) in advised.as_array().unwrap().iter().zip(taken.as_array().unwrap()) {
            assert_eq!(advised["worker_id"], taken["worker_id"], "{}", taken["policy"]);
        }
    }
    let compared = |samples: &BTreeMap<String, String>| {
        let name = "kvroute_shadow_compared_input_tokens_total";
        samples
            .iter()
            .filter(|(series, _)| series.starts_with(name))
            .map(|(_, count)| count.clone())
            .collect::<Vec<_>>()
    };
    let tokens = listed(&fleet, "?limit=1").await[0]["input_tokens"].as_u64().unwrap();
    assert_eq!(compared(&before), ["0", "0", "0"]);
    assert_eq!(
        compared(&samples(&fleet).await),
        [(6 * tokens).to_string(), (6 * tokens).to_string(), (6 * tokens).to_string()]
    );
    fleet.stop().await;
}

#[tokio::test]
async fn questions_use_up_no_random_number() {
    let fleet = start(3, "random").await;
    let mut workers = Vec::new();
    for number in 0..12 {
        let mut advised = Value::Null;
        for _ in 0..=number % 3 {
            advised = advice(&fleet, PROMPT).await["worker_id"].clone();
        }
        serve(&fleet, PROMPT).await;
        let served = listed(&fleet, "?limit=1").await[0]["worker_id"].clone();
        assert_eq!(served, advised, "request {number} goes where it was said to go");
        workers.push(served);
    }
    workers.dedup();
    assert!(workers.len() > 1, "always the same worker proves nothing");
    fleet.stop().await;
}

#[tokio::test]
async fn a_question_teaches_and_books_nothing() {
    let fleet = start(2, "kv").await;
    let first = advice(&fleet, PROMPT).await;
    let second = advice(&fleet, PROMPT).await;
    assert_eq!(second["best_cached_tokens"], 0);
    for candidate in second["candidates"].as_array().unwrap() {
        for load in ["expected_tokens", "recent_tokens", "active_requests", "prefill_tokens", "decode_blocks"]
        {
            assert_eq!(candidate[load], 0, "{load}");
        }
    }
    assert_eq!(second["worker_id"], first["worker_id"], "a tie is drawn with the same random number");
    assert_eq!(second["reason"], json!("tie"));
    fleet.stop().await;
}

#[tokio::test]
async fn a_question_starts_no_session() {
    let fleet = start(3, "sticky").await;
    let question =
        json!({"endpoint": "completions", "body": completion(PROMPT), "headers": {"x-session-id": "a"}});
    for _ in 0..3 {
        assert_eq!(ask(&fleet, question.clone()).await.json()["reason"], "new_session");
    }
    fleet.stop().await;
}
