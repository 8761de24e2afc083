//! One of two workers says nothing any more: the limit that ends it names that worker, and nothing stays booked on either.

use std::time::Duration;

use kvroute_router::PoolConfig;
use kvroute_router::config::OnNoPrefill;
use kvroute_sim::{Faults, Flavour, SimEngine};
use serde_json::{Value, json};

use super::split::{COMPLETIONS, FLAVOURS, Split, completion};

const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(600);

/// Only one limit can be met, a worker that is blamed once is left alone for the rest of the test, and nothing is served
/// whole.
fn only(limit: impl Fn(&mut PoolConfig)) -> impl Fn(&mut PoolConfig) {
    move |pool| {
        (pool.on_no_prefill, pool.migrations) = (OnNoPrefill::Strict, 0);
        (pool.breaker.failures, pool.breaker.cooldown) = (1, LONG);
        let timeouts = &mut pool.timeouts;
        (timeouts.first_byte, timeouts.idle, timeouts.total) = (LONG, LONG, LONG);
        limit(pool);
    }
}

fn silent() -> Faults {
    Faults { hang: true, ..Faults::default() }
}

fn names(engines: &[SimEngine]) -> Vec<String> {
    engines.iter().map(|engine| engine.address().to_string()).collect()
}

/// The workers that are left alone because of what befell their requests.
async fn blamed(split: &Split) -> Vec<String> {
    let list = split.fleet.workers().await;
    let open = list.as_array().unwrap().iter().filter(|worker| worker["state"] == "open");
    open.map(|worker| worker["id"].as_str().unwrap().to_owned()).collect()
}

/// Nothing is booked and nothing runs, and exactly one of these workers is blamed.
async fn ends(split: &Split, blame: &[SimEngine], error: &Value, flavour: Flavour) {
    let blamed = blamed(split).await;
    assert_eq!(blamed.len(), 1, "{flavour}: {blamed:?}");
    assert!(names(blame).contains(&blamed[0]), "{flavour}: {blamed:?} for what {:?} did", names(blame));
    assert_eq!(error["code"], "upstream_timeout", "{flavour}: {error}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(&blamed[0]), "{flavour}: another worker than {blamed:?} is named: {message}");
    let books = split.books().await;
    assert_eq!((books.requests("failed"), books.requests("completed")), (1, 0), "{flavour}");
    for engine in &split.fleet.engines {
        let stats = format!("{}/stats", engine.url());
        let is_idle = |stats: Value| stats["running"] == 0 && stats["waiting"] == 0;
        split.fleet.client.until(&stats, |answer| is_idle(answer.json())).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prefill_that_never_answers_meets_its_limit() {
    for limit in ["first_byte", "total"] {
        for flavour in FLAVOURS {
            for stream in [false, true] {
                let short = only(|pool| match limit {
                    "total" => pool.timeouts.total = SHORT,
                    _ => pool.timeouts.first_byte = SHORT,
                });
                let split = Split::start_with(flavour, |_| {}, short).await;
                Split::all_behave(split.prefills(), silent()).await;
                let answer = split.ask(COMPLETIONS, &completion(1, &json!({"stream": stream}))).await;
                assert_eq!(answer.status, 504, "{flavour} {limit}: {}", answer.text());
                let message = answer.error()["message"].to_string();
                assert!(message.contains(&format!("timeouts.{limit}")), "{flavour}: {message}");
                match limit {
                    "total" => assert_eq!(
                        blamed(&split).await,
                        [""; 0],
                        "{flavour}: a long request is nobody's fault"
                    ),
                    _ => ends(&split, split.prefills(), &answer.error(), flavour).await,
                }
                let books = split.books().await;
                assert_eq!(books.attempts("prefill", "failed"), 1, "{flavour} {limit}: nobody else is asked");
                split.fleet.stop().await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decode_that_never_answers_meets_its_limit() {
    for flavour in FLAVOURS {
        for stream in [false, true] {
            let short = only(|pool| pool.timeouts.first_byte = SHORT);
            let split = Split::start_with(flavour, |_| {}, short).await;
            Split::all_behave(split.decodes(), silent()).await;
            let answer = split.ask(COMPLETIONS, &completion(1, &json!({"stream": stream}))).await;
            assert_eq!(answer.status, 504, "{flavour}: {}", answer.text());
            ends(&split, split.decodes(), &answer.error(), flavour).await;
            assert_eq!(
                split.books().await.attempts("decode", "failed"),
                1,
                "{flavour}: nobody else is asked"
            );
            split.fleet.stop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decode_that_stops_in_the_middle_of_its_stream_meets_the_limit_between_two_pieces() {
    for flavour in FLAVOURS {
        let short = only(|pool| pool.timeouts.idle = SHORT);
        let split = Split::start_with(flavour, |_| {}, short).await;
        let stalling = Faults { stall_after_chunks: Some(3), ..Faults::default() };
        Split::all_behave(split.decodes(), stalling).await;
        let answer = split.ask(COMPLETIONS, &completion(1, &json!({"stream": true}))).await;
        assert_eq!(answer.status, 200, "{flavour}: {}", answer.text());
        let text = answer.text();
        let last = text.trim_end().rsplit_once("data: ").unwrap().1;
        let last: Value = serde_json::from_str(last).unwrap();
        ends(&split, split.decodes(), &last["error"], flavour).await;
        let books = split.books().await;
        let counted = (books.attempts("prefill", "completed"), books.attempts("decode", "failed"));
        assert_eq!((counted, books.stranded()), ((1, 1), 0), "{flavour}");
        split.fleet.stop().await;
    }
}

/// Where a prompt may be computed where it is answered, the worker that has just kept its client waiting is the last to
/// get it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_one_decode_worker_sat_on_is_served_whole_by_another() {
    let split = Split::start_with(
        Flavour::Vllm,
        |_| {},
        |pool| {
            pool.timeouts.first_byte = SHORT;
            pool.breaker.enabled = false;
        },
    );
    let split = split.await;
    split.decodes()[0].set_faults(silent()).await.unwrap();
    for seed in 0..12 {
        let answer = split.ask(COMPLETIONS, &completion(seed, &json!({}))).await;
        assert_eq!(answer.status, 200, "{seed}: {}", answer.text());
    }
    let books = split.books().await;
    assert!(books.fallbacks("failed") > 0, "the silent one is never asked");
    assert_eq!(books.attempts("decode", "failed"), books.fallbacks("failed"));
    assert_eq!(books.attempts("aggregated", "failed"), 0, "and it does not get the whole of it");
    split.fleet.stop().await;
}
