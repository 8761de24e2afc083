//! Requests that come all the time, from several clients that each send the next one once the last one is answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::caller::{Answer, Caller, until};

const CLIENTS: u64 = 4;

/// Runs until [`Load::end`].
pub(crate) struct Load {
    clients: JoinSet<()>,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    ends: AtomicBool,
    served: AtomicU64,
    failures: parking_lot::Mutex<Vec<String>>,
}

// === impl Load ===

impl Load {
    /// Asks these routers. What one of them refuses for now, and what it does not take at all, goes to the next one, as a
    /// load balancer does it.
    pub(crate) fn on(routers: Vec<String>) -> Self {
        let (mut clients, state, routers) = (JoinSet::new(), Arc::new(State::default()), Arc::new(routers));
        for client in 0..CLIENTS {
            clients.spawn(ask_always(client, Arc::clone(&routers), Arc::clone(&state)));
        }
        Self { clients, state }
    }

    /// Returns once so many more have been served.
    pub(crate) async fn more(&self, requests: u64) {
        let goal = self.state.served.load(Ordering::Relaxed) + requests;
        until("requests are served", async || {
            self.state.served.load(Ordering::Relaxed) >= goal || !self.state.failures.lock().is_empty()
        })
        .await;
    }

    /// Lets the last ones be answered. Fails with those that were not served.
    pub(crate) async fn end(self) -> u64 {
        self.state.ends.store(true, Ordering::Relaxed);
        self.clients.join_all().await;
        let failures = self.state.failures.lock().clone();
        assert!(failures.is_empty(), "{} failed, the first: {}", failures.len(), failures[0]);
        self.state.served.load(Ordering::Relaxed)
    }
}

async fn ask_always(client: u64, routers: Arc<Vec<String>>, state: Arc<State>) {
    let caller = Caller::new();
    let mut number = client;
    while !state.ends.load(Ordering::Relaxed) {
        number += CLIENTS;
        match ask_any(&caller, &routers, number).await {
            Ok(()) => {
                state.served.fetch_add(1, Ordering::Relaxed);
            }
            Err(failure) => state.failures.lock().push(failure),
        }
    }
}

async fn ask_any(caller: &Caller, routers: &[String], number: u64) -> Result<(), String> {
    let body = chat(number);
    let mut last = String::new();
    for router in (number..).take(routers.len()).map(|at| &routers[at as usize % routers.len()]) {
        match caller.ask(Method::POST, &format!("{router}/v1/chat/completions"), &body).await {
            Ok(answer) if answer.status == 200 && is_whole(&answer, &body) => return Ok(()),
            Ok(answer) if answer.status == 503 && answer.headers.contains_key("retry-after") => {
                last = format!("{}: {:?}", answer.status, answer.body);
            }
            Ok(answer) => return Err(format!("{}: {:?}", answer.status, answer.body)),
            Err(error) if is_refused(&error) => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

/// Whether nothing of the request can have been begun.
fn is_refused(error: &str) -> bool {
    error.contains("ConnectionRefused") || error.contains("ConnectionReset") && error.contains("Connect")
}

/// Streams and whole answers take turns.
fn chat(number: u64) -> Value {
    let text = format!("request {number}: tell me something about the weather of this place");
    json!({
        "model": "sim", "messages": [{"role": "user", "content": text}], "max_tokens": 6,
        "stream": number.is_multiple_of(2),
    })
}

fn is_whole(answer: &Answer, body: &Value) -> bool {
    match body["stream"].as_bool() {
        Some(true) => {
            answer.body.ends_with(b"data: [DONE]\n\n")
                && !answer.body.windows(7).any(|part| part == b"\"error\"")
        }
        _ => answer.json()["choices"][0]["finish_reason"].is_string(),
    }
}
