//! Seeded users: conversations of several turns over shared beginnings, repeated questions, clients that leave.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http_body_util::BodyExt;
use kvroute_testkit::Client;
use parking_lot::Mutex;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::asking::COMPLETIONS;

/// Prompts that a user may repeat, whoever sent them; those that are asked for most are the latest ones.
const REPEATABLE: usize = 400;
const LATEST: usize = 24;
/// A conversation ends when it has so many tokens.
const LONGEST: usize = 1_500;

/// One request as its client saw it.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) sent: Instant,
    /// When the answer ended, however it did.
    pub(crate) ended: Instant,
    /// Which engine answered; `None` if none did.
    pub(crate) worker: Option<String>,
    pub(crate) prompt: u64,
    /// What the engine said it reused; `None` without a whole answer.
    pub(crate) reused: Option<u64>,
}

/// Users that send until they are told to stop.
#[derive(Debug)]
pub(crate) struct Traffic {
    shared: Arc<Shared>,
    users: JoinSet<()>,
}

#[derive(Debug)]
struct Shared {
    url: String,
    is_over: AtomicBool,
    beginnings: Vec<Vec<u32>>,
    repeatable: Mutex<VecDeque<Vec<u32>>>,
    records: Mutex<Vec<Record>>,
}

struct User {
    shared: Arc<Shared>,
    client: Client,
    rng: ChaCha8Rng,
    conversation: Vec<u32>,
}

/// What came back of one request.
#[derive(Debug, Default)]
struct Outcome {
    worker: Option<String>,
    reused: Option<u64>,
    generated: Vec<u32>,
}

// === impl Traffic ===

impl Traffic {
    pub(crate) fn start(router: &str, users: u64, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let beginnings = (0..6).map(|_| words(&mut rng, 60..400)).collect();
        let shared = Arc::new(Shared {
            url: format!("{router}{COMPLETIONS}"),
            is_over: AtomicBool::new(false),
            beginnings,
            repeatable: Mutex::default(),
            records: Mutex::default(),
        });
        let user = |number| User {
            shared: Arc::clone(&shared),
            client: Client::default(),
            rng: ChaCha8Rng::seed_from_u64(seed.wrapping_add(1 + number)),
            conversation: Vec::new(),
        };
        Self { users: (0..users).map(|number| user(number).run()).collect(), shared }
    }

    /// Lets every user finish and gives all requests.
    pub(crate) async fn stop(self) -> Vec<Record> {
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.users.join_all().await;
        std::mem::take(&mut self.shared.records.lock())
    }
}

// === impl User ===

impl User {
    async fn run(mut self) {
        while !self.shared.is_over.load(Ordering::Relaxed) {
            let prompt = self.next_prompt();
            let sent = Instant::now();
            let outcome = self.send(&prompt).await;
            let record = Record {
                sent,
                ended: Instant::now(),
                worker: outcome.worker,
                prompt: prompt.len() as u64,
                reused: outcome.reused,
            };
            self.shared.records.lock().push(record);
            self.conversation = [prompt, outcome.generated].concat();
            let pause = self.rng.random_range(0..60);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }

    fn next_prompt(&mut self) -> Vec<u32> {
        let choice = self.rng.random_range(0..100);
        let repeated = if choice < 30 { self.repeated() } else { None };
        let prompt = repeated.unwrap_or_else(|| {
            let starts_anew =
                choice < 45 || self.conversation.is_empty() || self.conversation.len() > LONGEST;
            let beginning = match starts_anew {
                true => {
                    self.shared.beginnings[self.rng.random_range(0..self.shared.beginnings.len())].clone()
                }
                false => std::mem::take(&mut self.conversation),
            };
            [beginning, words(&mut self.rng, 5..160)].concat()
        });
        let mut repeatable = self.shared.repeatable.lock();
        repeatable.push_back(prompt.clone());
        if repeatable.len() > REPEATABLE {
            repeatable.pop_front();
        }
        prompt
    }

    fn repeated(&mut self) -> Option<Vec<u32>> {
        let repeatable = self.shared.repeatable.lock();
        let among = if self.rng.random_range(0..2) == 0 { LATEST } else { REPEATABLE };
        let count = repeatable.len().min(among);
        (count > 0).then(|| repeatable[repeatable.len() - 1 - self.rng.random_range(0..count)].clone())
    }

    async fn send(&mut self, prompt: &[u32]) -> Outcome {
        let stream = self.rng.random_range(0..100) < 40;
        let leaves = stream && self.rng.random_range(0..100) < 8;
        let max_tokens = self.rng.random_range(1..50);
        let mut body = json!({
            "model": "sim", "prompt": prompt, "max_tokens": max_tokens, "return_token_ids": true, "stream": stream,
        });
        if stream {
            body["stream_options"] = json!({"include_usage": true});
        }
        let (head, mut answer) = self.client.open(&self.shared.url, &body).await.into_parts();
        let worker = head.headers.get("x-simulated-engine");
        let worker = worker.map(|name| name.to_str().unwrap().to_owned());
        if leaves {
            let _half_read = answer.frame().await;
            return Outcome { worker, ..Outcome::default() };
        }
        let Ok(whole) = answer.collect().await else { return Outcome { worker, ..Outcome::default() } };
        let text = whole.to_bytes();
        let mut outcome = Outcome { worker, ..Outcome::default() };
        if stream {
            let lines = text.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"data: "));
            lines.for_each(|line| outcome.read(line));
        } else {
            outcome.read(&text);
        }
        outcome
    }
}

// === impl Outcome ===

impl Outcome {
    fn read(&mut self, json: &[u8]) {
        let chunk: Value = serde_json::from_slice(json).unwrap_or_default();
        if let Some(ids) = chunk["choices"][0]["token_ids"].as_array() {
            self.generated.extend(ids.iter().filter_map(Value::as_u64).map(|id| id as u32));
        }
        let reused = chunk["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64();
        self.reused = reused.or(self.reused);
    }
}

/// So many token ids, as text would have them: no special ones.
pub(crate) fn words(rng: &mut ChaCha8Rng, count: std::ops::Range<usize>) -> Vec<u32> {
    let count = rng.random_range(count);
    (0..count).map(|_| rng.random_range(300..2_000)).collect()
}
