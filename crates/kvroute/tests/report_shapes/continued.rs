//! Responses that continue others.

use kvroute_sim::SimConfig;
use kvroute_testkit::Fleet;
use serde_json::{Value, json};

use crate::asking::parts;

const RESPONSES: &str = "/v1/responses";

/// Where a request would go.
async fn advice(fleet: &Fleet, previous: &Value) -> (u16, Value) {
    let body = json!({"model": "sim", "input": "And the sea?", "previous_response_id": previous});
    let question = json!({"endpoint": RESPONSES, "body": body});
    let answer = fleet.client.post(&fleet.admin("/api/route"), &question).await;
    (answer.status.as_u16(), answer.json())
}

#[tokio::test]
async fn a_response_goes_to_the_worker_that_made_the_one_before() {
    let fleet = Fleet::start(vec![SimConfig::default(); 3], "round-robin").await;
    for number in 0..6 {
        let body = json!({"model": "sim", "input": "Why is the sky blue?", "stream": number % 2 == 0});
        let answer = fleet.client.post(&fleet.data(RESPONSES), &body).await;
        let maker = answer.header("x-simulated-engine").unwrap().to_owned();
        let last = parts(&answer).pop().unwrap();
        let id = if last["response"].is_object() { &last["response"]["id"] } else { &last["id"] };
        let (status, decision) = advice(&fleet, id).await;
        assert_eq!(
            (status, &decision["worker_id"], &decision["reason"]),
            (200, &json!(maker), &json!("pinned"))
        );
    }
    let (status, error) = advice(&fleet, &json!("resp_unknown")).await;
    assert_eq!((status, &error["error"]["code"]), (404, &json!("previous_response_not_found")));
    assert_eq!(error["error"]["param"], "previous_response_id");
    assert!(error["error"]["message"].as_str().unwrap().contains("send the whole conversation"));
    fleet.stop().await;
}

#[tokio::test]
async fn a_conversation_stays_with_the_worker_that_has_it() {
    let fleet = Fleet::start(vec![SimConfig::default(); 3], "round-robin").await;
    for stream in [false, true] {
        let (mut previous, mut makers) = (Value::Null, Vec::new());
        for _ in 0..4 {
            let body = json!({
                "model": "sim", "input": "And the sea?", "stream": stream, "previous_response_id": previous,
            });
            let answer = fleet.client.post(&fleet.data(RESPONSES), &body).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            makers.push(answer.header("x-simulated-engine").unwrap().to_owned());
            let last = parts(&answer).pop().unwrap();
            let response = if last["response"].is_object() { &last["response"] } else { &last };
            previous = response["id"].clone();
        }
        assert!(makers.iter().all(|maker| *maker == makers[0]), "{makers:?}");
    }
    let body = json!({"model": "sim", "input": "x", "previous_response_id": "resp_unknown"});
    let answer = fleet.client.post(&fleet.data(RESPONSES), &body).await;
    assert_eq!(
        (answer.status.as_u16(), &answer.error()["code"]),
        (404, &json!("previous_response_not_found"))
    );
    let scrape = fleet.at_rest().await;
    let rejected = [("endpoint", RESPONSES), ("model", "sim"), ("outcome", "rejected")];
    assert_eq!(scrape.count("kvroute_requests_total", &rejected), 1);
    fleet.stop().await;
}

/// There is only one worker that can have it, and it knows best whether it does.
#[tokio::test]
async fn the_only_worker_is_asked_for_any_response() {
    let fleet = Fleet::start(vec![SimConfig::default()], "kv").await;
    assert_eq!(advice(&fleet, &json!("resp_unknown")).await.0, 200);
    let body = json!({"model": "sim", "input": "x", "previous_response_id": "resp_unknown"});
    let answer = fleet.client.post(&fleet.data(RESPONSES), &body).await;
    assert_eq!((answer.status.as_u16(), &answer.error()["param"]), (404, &json!("response_id")));
    fleet.stop().await;
}
