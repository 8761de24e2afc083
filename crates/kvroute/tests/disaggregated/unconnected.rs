//! Prefill workers that were started without what hands KV over: they compute, and say nothing of where it lies.

use kvroute_core::WorkerRole;
use kvroute_router::PoolConfig;
use kvroute_router::config::OnNoPrefill;
use kvroute_sim::{Flavour, SimConfig};
use serde_json::json;

use super::split::{CHAT, COMPLETIONS, Split, chat, completion};

/// The engines that answer a prefill with where its KV lies.
const SERIAL: [Flavour; 2] = [Flavour::Vllm, Flavour::TrtLlm];

/// The router is told that they hand over; they know nothing of it.
async fn split(flavour: Flavour, pool: impl FnOnce(&mut PoolConfig)) -> Split {
    let without_connector = |engine: &mut SimConfig| {
        if engine.role == WorkerRole::Prefill {
            engine.role = WorkerRole::Aggregated;
        }
    };
    Split::start_with(flavour, without_connector, pool).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prompts_of_workers_without_a_connector_are_computed_where_they_are_answered_and_that_is_counted() {
    for flavour in SERIAL {
        let split = split(flavour, |_| {}).await;
        let bodies = [(COMPLETIONS, completion(1, &json!({}))), (CHAT, chat(1, &json!({"stream": true})))];
        for (path, body) in bodies {
            let answer = split.ask(path, &body).await;
            assert_eq!(answer.status, 200, "{flavour}: {}", answer.text());
        }
        let books = split.books().await;
        assert_eq!((books.fallbacks("no_connector"), books.fallbacks("failed")), (2, 0), "{flavour}");
        assert_eq!(
            (books.requests("completed"), books.attempts("aggregated", "completed")),
            (2, 2),
            "{flavour}"
        );
        assert_eq!(books.attempts("decode", "completed"), 0, "{flavour}: there is nothing to take over");
        assert_eq!(books.attempts("prefill", "completed"), 0, "{flavour}: what it computed is of no use");
        split.fleet.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strict_pool_whose_workers_have_no_connector_says_so() {
    for flavour in SERIAL {
        let split = split(flavour, |pool| pool.on_no_prefill = OnNoPrefill::Strict).await;
        let answer = split.ask(COMPLETIONS, &completion(1, &json!({}))).await;
        assert_eq!(
            (answer.status.as_u16(), &answer.error()["code"]),
            (502, &json!("not_handed_over")),
            "{flavour}"
        );
        let message = answer.error()["message"].as_str().unwrap().to_owned();
        let names = split.prefills().iter().map(|engine| engine.address().to_string());
        assert!(names.into_iter().any(|name| message.contains(&name)), "{flavour}: {message}");
        let books = split.books().await;
        assert_eq!((books.fallbacks("no_connector"), books.requests("failed")), (0, 1), "{flavour}");
        split.fleet.stop().await;
    }
}
