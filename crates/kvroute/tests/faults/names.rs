//! A worker whose name means nothing.

use std::time::Duration;

use kvroute_router::config::WorkerConfig;

use super::site::{Question, Site};

/// Names that end so are never given to anybody.
const NOBODY: &str = "http://nobody.invalid:8000";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_whose_name_cannot_be_resolved_holds_up_nobody() {
    let site = Site::start(|pool| pool.workers.push(WorkerConfig::at(NOBODY))).await;
    for question in Question::all().cycle().take(8) {
        assert!(site.ask(question).await.is_whole(), "{question:?}");
    }
    let workers = site.fleet.admin("/api/workers");
    let is_told = |list: serde_json::Value| {
        let of_nobody = list
            .as_array()
            .unwrap()
            .iter()
            .find(|worker| worker["id"] == "nobody.invalid:8000")
            .unwrap()
            .clone();
        of_nobody["state"] != "ready" && of_nobody["problem"].as_str().is_some_and(|text| !text.is_empty())
    };
    site.fleet.client.until(&workers, |answer| is_told(answer.json())).await;
    site.is_sound().await;
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_no_name_can_be_resolved_the_client_is_told() {
    let nobody = |pool: &mut kvroute_router::PoolConfig| {
        pool.queue.timeout = Duration::from_millis(100);
        pool.timeouts.connect = Duration::from_millis(500);
    };
    let config = |_: &[String]| {
        let mut config = kvroute_testkit::server_config(&[NOBODY.to_owned()], "kv");
        nobody(&mut config.router.pools[0]);
        config
    };
    let fleet = kvroute_testkit::Fleet::start_unfollowed(Vec::new(), config).await;
    let body = serde_json::json!({"model": "sim", "prompt": "hello", "max_tokens": 2});
    let answer = fleet.client.post(&fleet.data("/v1/completions"), &body).await;
    assert_eq!((answer.status.as_u16(), &answer.error()["code"]), (503, &serde_json::json!("not_ready")));
    fleet.stop().await;
}
