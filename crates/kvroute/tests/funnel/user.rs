//! Whoever sends the requests, and what they saw of the answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use kvroute_testkit::Client;
use serde_json::Value;
use tokio::task::JoinSet;

use super::request::{PIN, Patience, Plan};
use super::world::Setting;

/// Numbers of the requests that are still to be sent, and of those that are over.
#[derive(Debug)]
pub(crate) struct Progress {
    next: AtomicU64,
    over: AtomicU64,
    requests: u64,
}

/// Who sends what to whom.
#[derive(Clone, Debug)]
pub(crate) struct Sending {
    pub(crate) setting: &'static Setting,
    pub(crate) seed: u64,
    pub(crate) users: usize,
    /// The router.
    pub(crate) url: String,
    /// Names of the workers of each pool, by the order of its casts.
    pub(crate) workers: Arc<Vec<Vec<String>>>,
}

/// One request and what its client saw of its answer.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) plan: Plan,
    pub(crate) seen: Seen,
}

#[derive(Clone, Debug)]
pub(crate) enum Seen {
    /// The client did not stay to the end.
    Left,
    /// A status other than success.
    Refused(u16),
    /// The answer broke off, or told of an error.
    Broken,
    /// All of it. The usage, where it was told.
    Whole(Option<Value>),
}

// === impl Progress ===

impl Progress {
    pub(crate) const fn new(requests: u64) -> Self {
        Self { next: AtomicU64::new(0), over: AtomicU64::new(0), requests }
    }

    fn take(&self) -> Option<u64> {
        Some(self.next.fetch_add(1, Ordering::Relaxed)).filter(|number| *number < self.requests)
    }

    /// Waits until so many of a thousand requests are over.
    pub(crate) async fn reaches(&self, permille: u64) {
        while self.over.load(Ordering::Relaxed) * 1_000 < self.requests * permille {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

// === impl Sending ===

impl Sending {
    /// Sends all requests of a run and gives what became of them.
    pub(crate) async fn all(self, progress: &Arc<Progress>) -> Vec<Record> {
        let mut users = JoinSet::new();
        for _ in 0..self.users {
            let (sending, progress) = (self.clone(), Arc::clone(progress));
            users.spawn(async move { sending.one_after_the_other(&progress).await });
        }
        users.join_all().await.into_iter().flatten().collect()
    }

    async fn one_after_the_other(&self, progress: &Progress) -> Vec<Record> {
        let (client, mut records) = (Client::default(), Vec::new());
        while let Some(number) = progress.take() {
            let mut plan = Plan::of(self.setting, self.seed, number);
            self.name_the_worker(&mut plan);
            let seen = send(&client, &self.url, &plan).await;
            progress.over.fetch_add(1, Ordering::Relaxed);
            records.push(Record { plan, seen });
        }
        records
    }

    fn name_the_worker(&self, plan: &mut Plan) {
        let position = self.setting.casts.iter().position(|cast| cast.model == plan.cast.model);
        for (name, value) in &mut plan.headers {
            if *name == PIN {
                *value = self.workers[position.unwrap()][value.parse::<usize>().unwrap()].clone();
            }
        }
    }
}

async fn send(client: &Client, url: &str, plan: &Plan) -> Seen {
    let headers: Vec<_> = plan.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let url = format!("{url}{}", plan.path);
    let opened = client.open_with(&url, &headers, &plan.body);
    let (head, body) = match plan.patience {
        Patience::Milliseconds(patience) => {
            match tokio::time::timeout(Duration::from_millis(patience), opened).await {
                Ok(answer) => answer.into_parts(),
                Err(_elapsed) => return Seen::Left,
            }
        }
        _ => opened.await.into_parts(),
    };
    let is_success = head.status.is_success();
    match (plan.patience, read(body, plan.patience).await) {
        (Patience::Pieces(_), None) => Seen::Left,
        (_, None) => Seen::Broken,
        (_, Some(_)) if !is_success => Seen::Refused(head.status.as_u16()),
        (_, Some(text)) => understand(plan, &text),
    }
}

/// The whole body; `None` if it breaks off, or its reader leaves.
async fn read(mut body: Incoming, patience: Patience) -> Option<Vec<u8>> {
    let mut left = match patience {
        Patience::Pieces(pieces) => Some(pieces),
        _ => None,
    };
    let mut text = Vec::new();
    while let Some(frame) = body.frame().await {
        text.extend_from_slice(frame.ok()?.data_ref().map_or(&[], |data| &data[..]));
        if let Some(left) = &mut left {
            *left -= 1;
            if *left == 0 {
                return None;
            }
        }
    }
    Some(text)
}

fn understand(plan: &Plan, text: &[u8]) -> Seen {
    if !plan.is_stream() {
        let answer: Value = serde_json::from_slice(text).unwrap();
        return Seen::Whole(answer.get("usage").filter(|_| plan.tells_usage()).cloned());
    }
    let mut usage = None;
    for line in text.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"data: ")) {
        let chunk: Value = serde_json::from_slice(line).unwrap_or_default();
        if !chunk["error"].is_null() || chunk["type"] == "error" || chunk["type"] == "response.failed" {
            return Seen::Broken;
        }
        usage = chunk.get("usage").filter(|usage| usage.is_object()).cloned().or(usage);
    }
    Seen::Whole(usage.filter(|_| plan.tells_usage()))
}
