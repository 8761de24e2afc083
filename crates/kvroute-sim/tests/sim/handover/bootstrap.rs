//! SGLang: both legs get the same request and meet at the prefill engine's bootstrap port.

use std::time::Duration;

use hyper::StatusCode;
use kvroute_sim::{Faults, Flavour, Incident, SimConfig, SimEngine};
use serde_json::{Value, json};

use super::{ok, pair, prompt, sources, stop};
use crate::http::{COMPLETIONS, cached_tokens, get, open, post, until_stats};

async fn engines() -> [SimEngine; 2] {
    pair(Flavour::Sglang, SimConfig::default()).await
}

async fn body(prefill: &SimEngine, room: u64) -> Value {
    let info = get(prefill, "/server_info").await.json();
    json!({
        "prompt": prompt(), "max_tokens": 5, "bootstrap_host": "127.0.0.1", "bootstrap_room": room,
        "bootstrap_port": info["disaggregation_bootstrap_port"],
    })
}

#[tokio::test]
async fn the_decode_leg_waits_for_its_prefill_and_computes_nothing() {
    let engines = engines().await;
    let body = body(&engines[0], 7).await;
    let decode = async { ok(&post(&engines[1], COMPLETIONS, &body).await) };
    let prefill = async {
        // Nothing is generated as long as nothing is handed over.
        tokio::task::yield_now().await;
        assert_eq!(engines[1].stats().generated_tokens, 0);
        ok(&post(&engines[0], COMPLETIONS, &body).await)
    };
    let (decoded, prefilled) = tokio::join!(decode, prefill);
    let tokens = |answer: &Value| answer["usage"]["completion_tokens"].as_u64();
    assert_eq!((tokens(&prefilled), tokens(&decoded)), (Some(1), Some(5)));
    assert_eq!((sources(engines[0].stats()), sources(engines[1].stats())), ((40, 0, 0), (0, 0, 40)));
    stop(engines).await;
}

#[tokio::test]
async fn the_decode_engine_tells_the_reuse_of_the_other_one_and_has_no_cache_of_its_own() {
    let engines = engines().await;
    let mut told = Vec::new();
    for room in 0..3 {
        let body = body(&engines[0], room).await;
        let (prefilled, decoded) =
            tokio::join!(post(&engines[0], COMPLETIONS, &body), post(&engines[1], COMPLETIONS, &body));
        told.push((cached_tokens(&ok(&prefilled)), cached_tokens(&ok(&decoded))));
    }
    assert_eq!(told, [(0, 0), (32, 32), (32, 32)]);
    assert_eq!((sources(engines[1].stats()), engines[1].stats().kv_contents_cached), ((0, 0, 120), 0));
    stop(engines).await;
}

#[tokio::test]
async fn a_room_is_for_one_answer() {
    let config = SimConfig { transfer_patience: Duration::from_millis(20), ..SimConfig::default() };
    let engines = pair(Flavour::Sglang, config).await;
    let mut body = body(&engines[0], 7).await;
    body["n"] = json!(2);
    let (prefilled, decoded) =
        tokio::join!(post(&engines[0], COMPLETIONS, &body), post(&engines[1], COMPLETIONS, &body));
    assert_eq!((prefilled.status, decoded.status), (StatusCode::OK, StatusCode::INTERNAL_SERVER_ERROR));
    engines[0].cause(Incident::Reset).await;
    stop(engines).await;
}

#[tokio::test]
async fn a_decode_leg_without_a_prefill_gives_up() {
    let config = SimConfig { transfer_patience: Duration::from_millis(20), ..SimConfig::default() };
    let engines = pair(Flavour::Sglang, config).await;
    let body = body(&engines[0], 7).await;
    let answer = post(&engines[1], COMPLETIONS, &body).await;
    assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
    let told = answer.json();
    assert!(told["message"].as_str().unwrap().contains("timed out") && told["type"] == "500", "{told}");
    let mut request = body;
    request["stream"] = json!(true);
    request["stream_options"] = json!({"include_usage": true});
    let answer = post(&engines[1], COMPLETIONS, &request).await;
    assert_eq!(answer.status, StatusCode::OK, "the head of a stream is out before it fails");
    let events = answer.events();
    let read = |event: &str| serde_json::from_str::<Value>(event).unwrap();
    assert_eq!((&read(&events[0])["error"]["code"], &events[2][..]), (&json!(500), "[DONE]"));
    assert_eq!(read(&events[1])["usage"]["completion_tokens"], 0);
    stop(engines).await;
}

#[tokio::test]
async fn a_prefill_that_fails_or_goes_away_fails_its_decode_leg() {
    let engines = pair(Flavour::Sglang, SimConfig { prefill_tps: 40, ..SimConfig::default() }).await;
    engines[0].set_faults(Faults { fail_prefill: true, ..Faults::default() }).await.unwrap();
    let request = body(&engines[0], 7).await;
    let (prefilled, decoded) =
        tokio::join!(post(&engines[0], COMPLETIONS, &request), post(&engines[1], COMPLETIONS, &request));
    assert_eq!(prefilled.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(decoded.status, StatusCode::INTERNAL_SERVER_ERROR);
    let request = body(&engines[0], 8).await;
    let leaves = async {
        tokio::select! {
            _ = open(&engines[0], COMPLETIONS, &request) => {}
            () = until_stats(&engines[0], "computing", |stats| stats.running == 1) => {}
        }
    };
    let ((), decoded) = tokio::join!(leaves, post(&engines[1], COMPLETIONS, &request));
    assert_eq!(decoded.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(engines[1].stats().requests, 0);
    stop(engines).await;
}

#[tokio::test]
async fn a_decode_leg_that_waits_can_be_aborted() {
    let engines = engines().await;
    let mut request = body(&engines[0], 7).await;
    request["rid"] = json!("r-7");
    let abort = async {
        // Whoever is not there yet cannot be aborted.
        loop {
            post(&engines[1], "/abort_request", &json!({"rid": "r-7"})).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let answer = tokio::select! {
        answer = post(&engines[1], COMPLETIONS, &request) => answer,
        () = abort => unreachable!(),
    };
    assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(answer.json()["message"].as_str().unwrap().contains("aborted"), "{:?}", answer.body);
    stop(engines).await;
}

#[tokio::test]
async fn a_request_for_one_engine_alone_is_refused() {
    let engines = engines().await;
    for (engine, mode) in engines.iter().zip(["prefill", "decode"]) {
        let answer = post(engine, COMPLETIONS, &json!({"prompt": prompt()})).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST);
        assert_eq!(get(engine, "/server_info").await.json()["disaggregation_mode"], mode);
    }
    stop(engines).await;
}
