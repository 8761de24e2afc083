//! A question where a request would go changes nothing that is counted, kept or remembered.

use std::collections::BTreeMap;
use std::time::Duration;

use kvroute_router::config::{IndexSource, PoolConfig};
use kvroute_select::PolicyOptions;
use kvroute_sim::SimConfig;
use kvroute_testkit::Fleet;
use serde_json::{Value, json};

use super::stage::{Ask, BLOCK, COMPLETIONS, Stage, fleet, ids};

/// What time alone changes, and the work of tokenizing, which a question costs, too.
const BY_TIME: [&str; 3] = ["process_", "kvroute_worker_recent_tokens", "kvroute_tokenizer_cache_"];

/// Every series of a scrape with its value, but for those that time changes.
async fn series(fleet: &Fleet) -> BTreeMap<String, String> {
    let text = fleet.client.get(&fleet.admin("/metrics")).await.text();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let lasting = lines.filter(|line| !BY_TIME.iter().any(|name| line.starts_with(name)));
    lasting
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(key, value)| (key.into(), value.into()))
        .collect()
}

/// Questions of every kind: what was served before, what was not, what cannot be.
fn questions(stage: &Stage, known: &[u32]) -> Vec<Value> {
    let completion = |prompt: Value| json!({"model": stage.model, "prompt": prompt, "max_tokens": 2});
    let of = |endpoint: &str, body: Value, headers: Value| json!({"endpoint": endpoint, "body": body, "headers": headers});
    let none = || json!({});
    let chat = json!({"model": stage.model, "messages": [{"role": "user", "content": "hello"}], "n": 3});
    vec![
        of(COMPLETIONS, completion(json!(known)), none()),
        of(COMPLETIONS, completion(json!(ids(77, 300))), none()),
        of(COMPLETIONS, completion(json!([known, ids(78, 40)])), none()),
        of(COMPLETIONS, completion(json!(known)), json!({"x-kvroute-worker": stage.worker(0)})),
        of(COMPLETIONS, completion(json!(known)), json!({"x-kvroute-override": "temperature=3"})),
        of(COMPLETIONS, completion(json!(known)), json!({"x-session-id": "a session that is not yet"})),
        of(COMPLETIONS, completion(json!([1, 2_000_000_000])), none()),
        of(COMPLETIONS, json!({"model": "nobody's", "prompt": "x"}), none()),
        of(COMPLETIONS, completion(json!(known)), json!({"x-kvroute-worker": "nobody:1"})),
        of("/v1/chat/completions", chat, none()),
    ]
}

#[tokio::test]
async fn a_question_where_a_request_would_go_leaves_no_trace() {
    let settings: [fn(&mut PoolConfig); 4] = [
        |pool| pool.shadow = vec!["round-robin".to_owned(), "sticky".to_owned()],
        |pool| (pool.policy, pool.observe) = ("round-robin".to_owned(), true),
        |pool| {
            (pool.policy, pool.observe) = ("sticky".to_owned(), true);
            pool.policy_options = PolicyOptions { hard_sessions: true, ..PolicyOptions::default() };
        },
        |pool| {
            pool.index.source = IndexSource::Remembered;
            pool.index.ttl = Duration::from_secs(600);
        },
    ];
    for setting in settings {
        let fleet = fleet(vec![SimConfig::default(); 2], |config| setting(&mut config.router.pools[0])).await;
        let stage = Stage::of(&fleet);
        let known = ids(1, 330);
        served_and_known(&stage, Ask::default(), &known).await;
        served_and_known(&stage, Ask { session: Some("a session"), ..Ask::default() }, &ids(2, 100)).await;
        fleet.at_rest().await;
        let before = (until_still(&fleet).await, stage.decisions().await.len(), fleet.workers().await);
        for question in questions(&stage, &known) {
            for _ in 0..3 {
                let answer = fleet.client.post(&fleet.admin("/api/route"), &question).await;
                assert!([200, 400, 404].contains(&answer.status.as_u16()), "{question}: {}", answer.text());
            }
        }
        assert_eq!((series(&fleet).await, stage.decisions().await.len(), fleet.workers().await), before);
        fleet.stop().await;
    }
}

/// Serves a prompt and waits until its whole blocks are known where it was computed.
async fn served_and_known(stage: &Stage, ask: Ask<'_>, prompt: &[u32]) {
    let decision = stage.served(ask, prompt).await;
    let worker = stage.workers.iter().position(|worker| decision["worker_id"] == worker.as_str()).unwrap();
    stage.until_cached(worker, prompt, (prompt.len() / BLOCK * BLOCK) as u64).await;
}

/// The scrape once nothing changes in it any more.
async fn until_still(fleet: &Fleet) -> BTreeMap<String, String> {
    let mut last = series(fleet).await;
    loop {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let now = series(fleet).await;
        if now == last {
            return now;
        }
        last = now;
    }
}
