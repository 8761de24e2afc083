//! Adapters that only some workers serve, and workers that come to serve others.

use std::net::SocketAddr;

use kvroute_router::config::WorkerConfig;
use kvroute_testkit::kept_address;

use super::scripted::{Conduct, Scripted};
use crate::*;

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// A router in front of these, some of which may not be there yet.
async fn fleet_of(workers: &[String], ready: usize) -> Fleet {
    let mut config = config(workers, QueueConfig::default());
    config.trusted = vec!["127.0.0.0/8".parse().unwrap()];
    let fleet = Fleet::start_unfollowed(Vec::new(), |_| config).await;
    let are_ready = |answer: &Answer| {
        let workers = answer.json();
        workers.as_array().unwrap().iter().filter(|worker| worker["state"] == "ready").count() == ready
    };
    fleet.client.until(&fleet.admin("/api/workers"), are_ready).await;
    fleet
}

fn ask_for(fleet: &Fleet, model: &str, pin: Option<&Scripted>, stream: bool) -> JoinHandle<Answer> {
    let (client, url) = (fleet.client.clone(), fleet.data("/v1/completions"));
    let body = json!({"model": model, "prompt": "hello ".repeat(100), "max_tokens": 2, "stream": stream});
    let pin = pin.map(|worker| WorkerConfig::at(worker.url()).id().to_string());
    tokio::spawn(async move {
        let headers: Vec<_> = pin.iter().map(|pin| ("x-kvroute-worker", pin.as_str())).collect();
        client.post_with(&url, &headers, &body).await
    })
}

fn lists(answer: &Answer, model: &str) -> bool {
    answer.text().contains(&format!("\"{model}\""))
}

#[tokio::test]
async fn an_adapter_that_its_last_worker_had_dropped_was_believed_in_for_ever() {
    let (one, other) = (Scripted::start(ANY, &["base", "lora"]).await, Scripted::start(ANY, &["base"]).await);
    let fleet = fleet_of(&[one.url(), other.url()], 2).await;
    let served = ask_for(&fleet, "lora", None, false).await.unwrap();
    assert_eq!(served.header("x-kvroute-worker"), Some(format!("{}/0", one.address).as_str()));

    one.serves(&["base", "new"]);
    one.behaves(Conduct::Breaks);
    assert_eq!(ask_for(&fleet, "base", Some(&one), false).await.unwrap().status, 502);
    one.behaves(Conduct::Answers);
    fleet.client.until(&fleet.data("/v1/models"), |answer| lists(answer, "new")).await;
    let refused = ask_for(&fleet, "lora", None, false).await.unwrap();
    assert_eq!((refused.status.as_u16(), &refused.error()["code"]), (404, &json!("model_not_found")));
    assert!(!lists(&fleet.client.get(&fleet.data("/v1/models")).await, "lora"));
    assert_eq!(ask_for(&fleet, "new", None, false).await.unwrap().status, 200);
    fleet.stop().await;
}

#[tokio::test]
async fn a_request_in_line_held_on_to_the_workers_of_its_arrival_and_starved_beside_a_new_one() {
    let busy = Scripted::start(ANY, &["base", "lora"]).await;
    let free = kept_address();
    let fleet = fleet_of(&[busy.url(), format!("http://{free}")], 1).await;
    busy.behaves(Conduct::Holds);
    let held = ask_for(&fleet, "base", None, true);
    until_started(&fleet, 1).await;
    let waiting = ask_for(&fleet, "lora", None, false);
    let line = format!("{PENDING}{{model=\"base\",worker_type=\"decode\"}} 1\n");
    fleet.client.until(&fleet.admin("/metrics"), |answer| answer.text().contains(&line)).await;

    let newcomer = Scripted::start(free, &["base", "lora"]).await;
    let served = waiting.await.unwrap();
    assert_eq!(served.status, 200, "{}", served.text());
    assert_eq!(served.header("x-kvroute-worker"), Some(format!("{}/0", newcomer.address).as_str()));
    held.abort();
    fleet.stop().await;
}

#[tokio::test]
async fn an_adapter_that_the_named_worker_lacks_was_waited_for() {
    let (one, other) = (Scripted::start(ANY, &["base", "lora"]).await, Scripted::start(ANY, &["base"]).await);
    let fleet = fleet_of(&[one.url(), other.url()], 2).await;
    let refused = ask_for(&fleet, "lora", Some(&other), false).await.unwrap();
    let body = json!({"model": "lora", "prompt": "hello", "max_tokens": 2});
    let headers = json!({"x-kvroute-worker": other.address.to_string()});
    let asked = json!({"endpoint": "/v1/completions", "body": body, "headers": headers});
    let advised = fleet.client.post(&fleet.admin("/api/route"), &asked).await;
    for answer in [refused, advised] {
        assert_eq!((answer.status.as_u16(), &answer.error()["code"]), (400, &json!("adapter_elsewhere")));
        let message = answer.error()["message"].as_str().unwrap().to_owned();
        for part in ["lora", &other.address.to_string(), &format!("workers that do: {}/0", one.address)] {
            assert!(message.contains(part), "{message}");
        }
    }
    let scrape = fleet.at_rest().await;
    assert_eq!(scrape.count("kvroute_requests_total", &[("outcome", "rejected")]), 1);
    fleet.stop().await;
}
