//! An engine that answers 200 and then tells of a failure before anything else.

use kvroute_core::ModelName;
use kvroute_server::Server;
use kvroute_testkit::{Client, Fleet};
use serde_json::json;

use super::scripted::{Behaviour, MODEL, Scripted};
use super::world::{ask, attempts, config, is_open, name, retries, stream, until_state};

async fn fleet(workers: &[&Scripted], failures: u32) -> Fleet {
    let urls: Vec<_> = workers.iter().map(|worker| worker.url()).collect();
    let config = config(&urls, |pool| {
        pool.model = Some(ModelName::new(MODEL));
        pool.policy = "round-robin".to_owned();
        pool.breaker.failures = failures;
        pool.migrations = 0;
    });
    let server = Server::start(config).await.unwrap();
    let fleet = Fleet { engines: Vec::new(), server, client: Client::default() };
    for url in &urls {
        until_state(&fleet, &name(url), "ready").await;
    }
    fleet
}

async fn asked(fleet: &Fleet) -> String {
    let mut body = stream(1);
    body["model"] = json!(MODEL);
    ask(fleet, &body).await.text()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_that_opens_a_stream_was_passed_on_though_nothing_had_been_sent() {
    let workers =
        [Scripted::start(Behaviour::ErrorFirst(500)).await, Scripted::start(Behaviour::Stream).await];
    let fleet = fleet(&[&workers[0], &workers[1]], 1).await;
    for _ in 0..3 {
        let answer = asked(&fleet).await;
        assert!(answer.contains("[DONE]") && !answer.contains("told in the stream"), "{answer}");
    }
    assert_eq!(workers[0].asked(), 1, "it is left alone");
    let scrape = fleet.at_rest().await;
    assert_eq!([retries(&scrape, "error"), attempts(&scrape, "failed")], [1, 1]);
    assert!(is_open(&scrape, &name(&workers[0].url())));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_the_request_caused_is_passed_on() {
    let workers =
        [Scripted::start(Behaviour::ErrorFirst(400)).await, Scripted::start(Behaviour::Stream).await];
    let fleet = fleet(&[&workers[0], &workers[1]], 1).await;
    let answers = [asked(&fleet).await, asked(&fleet).await];
    assert!(answers.iter().any(|answer| answer.contains("told in the stream")), "{answers:?}");
    let scrape = fleet.at_rest().await;
    assert_eq!(retries(&scrape, "error"), 0);
    assert!(!is_open(&scrape, &name(&workers[0].url())));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nobody_else_can_be_asked_the_client_gets_it_as_it_came() {
    let worker = Scripted::start(Behaviour::ErrorFirst(500)).await;
    let fleet = fleet(&[&worker], 1).await;
    assert!(asked(&fleet).await.contains("told in the stream"));
    fleet.stop().await;
}
