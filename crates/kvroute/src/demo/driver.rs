//! Sends the workload through the router, with a bound on what is in flight.
//!
//! Conversations are a closed loop: the next question follows the answer, which becomes part of it. A trace is
//! an open loop: requests leave at their recorded times, whatever became of earlier ones, unless the bound is
//! reached. Past the deadline nothing new is sent; what is in flight may finish.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use kvroute_openai::Endpoint;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::client::Client;
use super::conversations::Conversation;
use super::pace::Pace;
use super::progress::Progress;
use super::recording::Recording;

/// What every request of a run shares.
#[derive(Clone, Debug)]
pub(crate) struct Driver {
    pub(crate) client: Client,
    /// Base address of the router's data plane.
    pub(crate) base: String,
    pub(crate) model: String,
    /// Requests in flight at most.
    pub(crate) concurrency: usize,
    pub(crate) deadline: Option<Instant>,
    pub(crate) progress: Arc<Progress>,
}

// === impl Driver ===

impl Driver {
    /// Holds all conversations, so many at a time.
    pub(crate) async fn hold(&self, conversations: &[Conversation], answer_tokens: u64) {
        let queue = Arc::new(Mutex::new(conversations.iter().cloned().collect::<VecDeque<_>>()));
        let mut speakers = JoinSet::new();
        for _ in 0..self.concurrency.min(conversations.len()) {
            let (driver, queue) = (self.clone(), Arc::clone(&queue));
            speakers.spawn(async move {
                while let Some(conversation) = driver.next_conversation(&queue) {
                    driver.converse(&conversation, answer_tokens).await;
                }
            });
        }
        speakers.join_all().await;
    }

    fn next_conversation(&self, queue: &Mutex<VecDeque<Conversation>>) -> Option<Conversation> {
        if self.is_over() { None } else { queue.lock().pop_front() }
    }

    /// One conversation, turn by turn. A failed turn ends it: there is no answer to go on from.
    async fn converse(&self, conversation: &Conversation, answer_tokens: u64) {
        let mut messages = vec![json!({"role": "system", "content": &*conversation.system})];
        for turn in &conversation.turns {
            tokio::time::sleep(turn.pause).await;
            if self.is_over() {
                return;
            }
            messages.push(json!({"role": "user", "content": turn.question}));
            let body = json!({
                "model": self.model,
                "messages": messages,
                "max_tokens": answer_tokens,
                "stream": true,
            });
            let Some(answer) = self.ask(Endpoint::ChatCompletions, Bytes::from(body.to_string())).await
            else {
                return;
            };
            messages.push(json!({"role": "assistant", "content": answer}));
        }
    }

    /// Replays a recording at a pace.
    pub(crate) async fn replay(&self, recording: &Arc<Recording>, pace: Pace) {
        let slots = Arc::new(Semaphore::new(self.concurrency));
        let started = Instant::now();
        let mut requests = JoinSet::new();
        for position in 0..recording.len() {
            tokio::time::sleep_until(started + pace.arrival(recording.arrival(position))).await;
            let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { break };
            if self.is_over() {
                break;
            }
            let (driver, recording) = (self.clone(), Arc::clone(recording));
            requests.spawn(async move {
                match recording.body(position, &driver.model) {
                    Ok(body) => drop(driver.ask(Endpoint::Completions, body).await),
                    Err(error) => {
                        driver.progress.sent();
                        driver.progress.failed(error.to_string());
                    }
                }
                drop(slot);
            });
            while requests.try_join_next().is_some() {}
        }
        requests.join_all().await;
    }

    /// Sends one request and keeps count of it; the answer's text if it came to its end.
    async fn ask(&self, endpoint: Endpoint, body: Bytes) -> Option<String> {
        self.progress.sent();
        match self.client.stream(&self.base, endpoint, body).await {
            Ok(answer) => {
                self.progress.answered(answer.first_token);
                Some(answer.text)
            }
            Err(message) => {
                self.progress.failed(message);
                None
            }
        }
    }

    fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}
