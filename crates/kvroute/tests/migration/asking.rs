//! Two simulated engines, of which the first one breaks, and what a client reads of a stream.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use kvroute_router::config::PoolConfig;
use kvroute_sim::{Faults, SimConfig};
use kvroute_testkit::{Fleet, server_config};
use serde_json::{Value, json};

pub(crate) const COMPLETIONS: &str = "/v1/completions";
pub(crate) const CHAT: &str = "/v1/chat/completions";

/// Both ways to ask for a text.
pub(crate) const BOTH: [&str; 2] = [COMPLETIONS, CHAT];

/// Tokens of an answer that is not cut.
pub(crate) const LENGTH: u64 = 24;

/// Nothing in a test takes longer than this unless it hangs.
const HANGS_AFTER: Duration = Duration::from_secs(60);

/// What a client has of a stream.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) text: String,
    pub(crate) ids: Vec<String>,
    /// `created` and `model` of each part.
    pub(crate) made: Vec<Value>,
    pub(crate) roles: usize,
    pub(crate) finish: Vec<Value>,
    pub(crate) usage: Vec<Value>,
    pub(crate) errors: Vec<Value>,
    pub(crate) is_done: bool,
}

/// An engine whose streams break after so many chunks.
pub(crate) fn breaking(chunks: u32) -> SimConfig {
    SimConfig {
        faults: Faults { break_after_chunks: Some(chunks), ..Faults::default() },
        ..SimConfig::default()
    }
}

pub(crate) async fn fleet(engines: Vec<SimConfig>, change: impl FnOnce(&mut PoolConfig)) -> Fleet {
    Fleet::start_with(engines, |urls| {
        let mut config = server_config(urls, "round-robin");
        config.trusted = vec!["127.0.0.0/8".parse().unwrap()];
        config.router.pools[0].observe = true;
        change(&mut config.router.pools[0]);
        config
    })
    .await
}

/// A request for a stream of [`LENGTH`] tokens, one of its own for each number.
pub(crate) fn request(path: &str, number: usize) -> Value {
    let text = format!("question number {number} of some, and all that belongs to it");
    let mut body = json!({
        "model": "sim", "stream": true, "max_tokens": LENGTH, "stream_options": {"include_usage": true},
    });
    match path {
        CHAT => body["messages"] = json!([{"role": "user", "content": text}]),
        _ => body["prompt"] = text.into(),
    }
    body
}

/// Reads a stream to its end.
pub(crate) async fn read(fleet: &Fleet, url: &str, body: &Value) -> Seen {
    let answer = fleet.client.post(url, body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    Seen::of(&answer.text())
}

/// The same through the router.
pub(crate) async fn ask(fleet: &Fleet, path: &str, body: &Value) -> Seen {
    read(fleet, &fleet.data(path), body).await
}

/// What the engine that does not break answers to the same question.
pub(crate) async fn undisturbed(fleet: &Fleet, path: &str, body: &Value) -> Seen {
    let sound = fleet.engines.last().unwrap();
    let seen = read(fleet, &format!("{}{path}", sound.url()), body).await;
    assert!(seen.is_done && seen.errors.is_empty());
    seen
}

/// Asks until the engine that breaks was asked first, at most twice: turns go round.
pub(crate) async fn until_migrated(fleet: &Fleet, path: &str, body: &Value) -> Seen {
    for _ in 0..2 {
        let before = migrations(fleet).await;
        let seen = ask(fleet, path, body).await;
        if migrations(fleet).await > before {
            return seen;
        }
    }
    panic!("no stream went on with another worker")
}

/// Asks until a stream ends with an error, at most twice.
pub(crate) async fn until_broken(fleet: &Fleet, path: &str, body: &Value) -> Seen {
    for _ in 0..2 {
        let seen = ask(fleet, path, body).await;
        if !seen.errors.is_empty() {
            return seen;
        }
    }
    panic!("no stream broke")
}

pub(crate) async fn migrations(fleet: &Fleet) -> u64 {
    fleet.scrape().await.count("kvroute_migrations_total", &[])
}

/// The next piece of a stream that is read by hand.
pub(crate) async fn piece(stream: &mut Incoming) -> Option<String> {
    let frame = tokio::time::timeout(HANGS_AFTER, stream.frame()).await.expect("the stream hangs")?;
    Some(String::from_utf8(frame.unwrap().into_data().unwrap().to_vec()).unwrap())
}

// === impl Seen ===

impl Seen {
    pub(crate) fn of(stream: &str) -> Self {
        let mut seen = Self::default();
        for data in stream.lines().filter_map(|line| line.strip_prefix("data: ")) {
            if data == "[DONE]" {
                seen.is_done = true;
            } else {
                seen.take(&serde_json::from_str(data).unwrap());
            }
        }
        seen
    }

    fn take(&mut self, part: &Value) {
        if let Some(error) = part.get("error") {
            self.errors.push(error.clone());
            return;
        }
        self.ids.push(part["id"].as_str().unwrap().to_owned());
        self.made.push(json!([part["created"], part["model"]]));
        self.usage.extend(part.get("usage").filter(|usage| usage.is_object()).cloned());
        for choice in part["choices"].as_array().unwrap() {
            assert_eq!(choice["index"], 0);
            assert!(
                choice["token_ids"].is_null() && part["prompt_token_ids"].is_null(),
                "ids nobody asked for: {part}"
            );
            self.roles += usize::from(choice["delta"]["role"].is_string());
            for text in [&choice["text"], &choice["delta"]["content"]] {
                self.text += text.as_str().unwrap_or_default();
            }
            self.finish.extend(Some(choice["finish_reason"].clone()).filter(|reason| !reason.is_null()));
        }
    }

    /// It is one whole answer.
    pub(crate) fn assert_whole(&self, path: &str) {
        assert!(self.is_done && self.errors.is_empty(), "{self:?}");
        assert!(self.ids.iter().all(|id| *id == self.ids[0]), "{:?}", self.ids);
        assert!(self.made.iter().all(|made| *made == self.made[0]), "{:?}", self.made);
        assert_eq!(self.roles, usize::from(path == CHAT));
        assert_eq!((self.finish.len(), self.usage.len()), (1, 1), "{self:?}");
    }

    /// The text of the only error event, which ends the stream.
    pub(crate) fn error(&self) -> &str {
        assert!(!self.is_done, "a stream that broke has no clean end");
        assert_eq!(self.errors.len(), 1, "{self:?}");
        self.errors[0]["message"].as_str().unwrap()
    }
}
