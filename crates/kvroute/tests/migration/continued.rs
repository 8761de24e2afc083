//! What the client sees of a stream that went on with another worker: nothing.

use kvroute_sim::SimConfig;
use serde_json::json;

use super::asking::{
    BOTH, CHAT, COMPLETIONS, LENGTH, ask, breaking, fleet, migrations, request, undisturbed, until_migrated,
};

#[tokio::test(flavor = "multi_thread")]
async fn two_parts_are_one_answer() {
    for path in BOTH {
        for chunks in [2, 5, 11] {
            let fleet = fleet(vec![breaking(chunks), SimConfig::default()], |_| {}).await;
            let body = request(path, chunks as usize);
            let whole = undisturbed(&fleet, path, &body).await;
            let seen = until_migrated(&fleet, path, &body).await;
            seen.assert_whole(path);
            assert_eq!(seen.text, whole.text, "{path} after {chunks} chunks");
            assert_eq!(seen.finish, whole.finish);
            for count in ["prompt_tokens", "completion_tokens", "total_tokens"] {
                assert_eq!(seen.usage[0][count], whole.usage[0][count], "{path} {count}");
            }
            fleet.stop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_which_nothing_has_come_begins_anew() {
    for (path, chunks) in [(COMPLETIONS, 0), (CHAT, 0), (CHAT, 1)] {
        let fleet = fleet(vec![breaking(chunks), SimConfig::default()], |_| {}).await;
        let mut body = request(path, 1);
        body["response_format"] = json!({"type": "json_object"});
        let whole = undisturbed(&fleet, path, &body).await;
        let seen = until_migrated(&fleet, path, &body).await;
        seen.assert_whole(path);
        assert_eq!(seen.text, whole.text, "{path} after {chunks} chunks");
        assert_eq!(seen.usage[0]["completion_tokens"], LENGTH);
        fleet.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_did_not_ask_for_usage_gets_none() {
    let fleet = fleet(vec![breaking(5), SimConfig::default()], |_| {}).await;
    let mut body = request(CHAT, 1);
    body.as_object_mut().unwrap().remove("stream_options");
    let seen = until_migrated(&fleet, CHAT, &body).await;
    assert!(seen.is_done && seen.usage.is_empty(), "{seen:?}");
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_goes_on_as_often_as_it_may() {
    let fleet = fleet(vec![breaking(4), breaking(4), SimConfig::default()], |pool| pool.migrations = 2).await;
    for path in BOTH {
        let body = request(path, 3);
        let whole = undisturbed(&fleet, path, &body).await;
        let before = migrations(&fleet).await;
        for _ in 0..3 {
            let seen = ask(&fleet, path, &body).await;
            seen.assert_whole(path);
            assert_eq!(seen.text, whole.text);
            assert_eq!(seen.usage[0]["completion_tokens"], LENGTH);
        }
        // Whoever began with an engine that breaks went on at least once, and one of the two found the other one next.
        assert!(migrations(&fleet).await - before >= 3, "{}", migrations(&fleet).await);
    }
    fleet.stop().await;
}
