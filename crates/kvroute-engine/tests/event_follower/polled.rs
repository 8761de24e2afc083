//! An engine whose events are polled.

use kvroute_engine::events::{EventAddress, SourceIncident, SourceReason};
use serde_json::{Value, json};

use crate::followed::Followed;
use crate::http_server::HttpServer;

fn created() -> Value {
    json!({"event_id": 0, "data": {"type": "created", "num_blocks_per_cache_level": [9, 0]}})
}

fn stored(id: u64) -> Value {
    let block = json!({"block_hash": id, "tokens": [{"token_id": 1, "token_extra_id": 0}]});
    json!({"event_id": id, "data": {"type": "stored", "parent_hash": null, "blocks": [block]}, "window_size": 4096})
}

async fn follow(server: &HttpServer) -> Followed {
    Followed::start(EventAddress::Poll { url: server.url.clone() }, None).await
}

#[tokio::test]
async fn every_event_is_applied_once_and_in_order() {
    let server = HttpServer::start().await;
    server.keep(&[created(), stored(1)]);
    let mut followed = follow(&server).await;
    followed.until_applied(&[1]).await;
    followed.until_exact().await;
    for id in 2..6 {
        server.keep(&[stored(id)]);
    }
    followed.until_applied(&[1, 2, 3, 4, 5]).await;
    assert_eq!(followed.clears, 0);
    followed.stop().await;
}

#[tokio::test]
async fn another_reader_is_noticed() {
    let server = HttpServer::start().await;
    server.keep(&[created(), stored(1)]);
    let mut followed = follow(&server).await;
    followed.until_exact().await;
    // The second one may still come through; then the third is the one that is missing.
    server.keep(&[stored(2), stored(3)]);
    server.steal();
    server.keep(&[stored(4)]);
    followed.until_applied(&[4]).await;
    followed.until_reason(SourceReason::EventsTaken).await;
    assert_eq!(followed.clears, 1);
    followed.stop().await;
}

#[tokio::test]
async fn an_engine_that_answers_with_errors_is_named_and_restarts() {
    let server = HttpServer::start().await;
    server.keep(&[created(), stored(1)]);
    let mut followed = follow(&server).await;
    followed.until_exact().await;
    server.fail(true);
    followed.until_reason(SourceReason::NotPolled).await;
    server.keep(&[created(), stored(1)]);
    server.fail(false);
    followed.until(|followed| followed.clears == 1).await;
    followed.until_applied(&[1]).await;
    followed.until_exact().await;
    assert!(followed.incidents.contains(&SourceIncident::Restart), "{:?}", followed.incidents);
    followed.stop().await;
}

#[tokio::test]
async fn an_engine_that_keeps_nothing_is_named_with_the_setting() {
    let server = HttpServer::start().await;
    let mut followed = follow(&server).await;
    followed.until_reason(SourceReason::NothingPolled).await;
    assert_eq!(followed.bound_to, None);
    followed.stop().await;
}
