//! Equal engines behind a network that a test can spoil, and what must hold whatever it did.

use std::collections::BTreeMap;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body_util::BodyExt;
use kvroute_router::config::PoolConfig;
use kvroute_sim::SimConfig;
use kvroute_testkit::{Client, Exposition, Fault, FaultyProxy, Fleet, Ledger, server_config};
use parking_lot::Mutex;
use serde_json::{Value, json};

pub(crate) const COMPLETIONS: &str = "/v1/completions";
pub(crate) const CHAT: &str = "/v1/chat/completions";

/// Nothing takes longer unless it hangs.
const HANGS_AFTER: Duration = Duration::from_secs(60);

/// A router, and the network in front of each of its engines. The last one's is never spoiled without the others'.
pub(crate) struct Site {
    pub(crate) fleet: Fleet,
    pub(crate) proxies: Vec<FaultyProxy>,
    sent: AtomicU64,
    /// The right answers, by path and number.
    expected: Mutex<BTreeMap<(&'static str, u32), String>>,
}

/// What is asked, and of whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    pub(crate) path: &'static str,
    pub(crate) stream: bool,
    /// The number of the engine that must answer; `None` leaves it to the router.
    pub(crate) pin: Option<usize>,
    /// Each number has a prompt of its own.
    pub(crate) number: u32,
}

/// What a client saw; whatever else it can see is none of both, and fails the test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The right answer, to its end.
    Whole,
    /// An error, by its status and code.
    Error(u16, String),
}

const OUTCOMES: [&str; 4] = ["completed", "failed", "cancelled", "rejected"];

/// Panics of this process.
static PANICS: AtomicUsize = AtomicUsize::new(0);

// === impl Question ===

impl Question {
    /// Both ways to ask each of both endpoints.
    pub(crate) fn all() -> impl Iterator<Item = Self> + Clone {
        let of_path = |path| [false, true].map(|stream| Self { path, stream, pin: None, number: 0 });
        [COMPLETIONS, CHAT].into_iter().flat_map(of_path)
    }

    /// The same, of the engine behind the spoiled network and nobody else.
    pub(crate) const fn of_the_spoiled(self) -> Self {
        Self { pin: Some(0), ..self }
    }

    pub(crate) fn body(self) -> Value {
        let mut body = json!({"model": "sim", "max_tokens": 6, "stream": self.stream});
        let text = format!("question {} of some words, and what belongs to it", self.number);
        match self.path {
            CHAT => body["messages"] = json!([{"role": "user", "content": text}]),
            _ => body["prompt"] = text.into(),
        }
        body
    }
}

// === impl Seen ===

impl Seen {
    pub(crate) fn is_whole(&self) -> bool {
        *self == Self::Whole
    }

    /// The error that it must be.
    pub(crate) fn error(&self) -> (u16, &str) {
        match self {
            Self::Error(status, code) => (*status, code),
            Self::Whole => panic!("the answer is whole"),
        }
    }
}

// === impl Site ===

impl Site {
    /// Workers that fail stay in the choice, so that every request of a test meets what it is to meet.
    pub(crate) async fn start(change: impl FnOnce(&mut PoolConfig)) -> Self {
        Self::of(2, change).await
    }

    /// The same with so many engines.
    pub(crate) async fn of(engines: usize, change: impl FnOnce(&mut PoolConfig)) -> Self {
        count_panics();
        let config = |urls: &[String]| {
            let mut config = server_config(urls, "round-robin");
            config.trusted = vec!["127.0.0.0/8".parse().unwrap()];
            let pool = &mut config.router.pools[0];
            pool.breaker.enabled = false;
            (pool.health.interval, pool.health.successes) = (Duration::from_millis(50), 1);
            (pool.retries.share, pool.retries.floor) = (1.0, 1_000.0);
            change(pool);
            config
        };
        let engines = vec![SimConfig::default(); engines];
        let (fleet, proxies) = Fleet::start_behind(engines, Fault::None, config).await;
        Self { fleet, proxies, sent: AtomicU64::new(0), expected: Mutex::default() }
    }

    /// The network of the first engine.
    pub(crate) fn spoiled(&self) -> &FaultyProxy {
        &self.proxies[0]
    }

    /// The network of the other one.
    pub(crate) fn other(&self) -> &FaultyProxy {
        &self.proxies[1]
    }

    /// The next request will have been sent, though not by [`Self::ask`].
    pub(crate) fn counts_one_more(&self) {
        self.sent.fetch_add(1, Ordering::Relaxed);
    }

    /// Sends a request and judges what comes of it.
    pub(crate) async fn ask(&self, question: Question) -> Seen {
        self.counts_one_more();
        let pin = question.pin.map(|engine| self.proxies[engine].address().to_string());
        let headers: Vec<_> = pin.iter().map(|pin| ("x-kvroute-worker", pin.as_str())).collect();
        let (status, body) = collect(&self.fleet.data(question.path), &headers, &question.body()).await;
        match (status, question.stream) {
            (StatusCode::OK, true) => streamed(&body, &self.expected(question).await),
            (StatusCode::OK, false) => whole(&body, &self.expected(question).await),
            _ => Seen::Error(status.as_u16(), code_of(&serde_json::from_slice(&body).unwrap())),
        }
    }

    /// The right answer's length on the network, as the spoiled one would have to carry it.
    pub(crate) async fn length(&self, question: Question) -> u64 {
        self.spoiled().set(Fault::None);
        assert!(self.ask(question.of_the_spoiled()).await.is_whole());
        self.spoiled().length()
    }

    /// Whatever befell it: nothing is booked, in line or under way, every request is counted once, nothing has panicked, and
    /// the next request is served.
    pub(crate) async fn is_sound(&self) {
        let sent = self.sent.load(Ordering::Relaxed);
        let ended = |text: &str| ended(&Exposition::parse(text)).iter().sum::<u64>();
        // A client that left may have done so before the router has read its request.
        self.fleet.client.until(&self.fleet.admin("/metrics"), |answer| ended(&answer.text()) >= sent).await;
        let scrape = self.fleet.at_rest().await;
        Ledger::after_departures(&scrape).assert_closes();
        assert_eq!(self::ended(&scrape).iter().sum::<u64>(), sent, "{OUTCOMES:?} {:?}", self::ended(&scrape));
        assert_eq!(PANICS.load(Ordering::Relaxed), 0, "something panicked");
        let sound = Some(self.proxies.len() - 1);
        for question in Question::all() {
            self.until_whole(Question { pin: sound, ..question }).await;
        }
    }

    /// Asks until the answer is whole: after a limit that is short enough for a test the next one may meet it too, on a machine
    /// that is busy.
    pub(crate) async fn until_whole(&self, question: Question) {
        let mut last = None;
        let served = async {
            loop {
                let seen = self.ask(question).await;
                if seen.is_whole() {
                    return;
                }
                last = Some(seen);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let served = tokio::time::timeout(HANGS_AFTER, served).await;
        served.unwrap_or_else(|_| panic!("{question:?} is never served: {last:?}"));
    }

    pub(crate) async fn stop(self) {
        self.fleet.stop().await;
    }

    /// The right answer, as the last engine gives it to whoever asks it directly.
    async fn expected(&self, question: Question) -> String {
        let key = (question.path, question.number);
        if let Some(known) = self.expected.lock().get(&key) {
            return known.clone();
        }
        let mut body = question.body();
        body["stream"] = json!(false);
        let url = format!("{}{}", self.fleet.engines[self.fleet.engines.len() - 1].url(), question.path);
        let text = text_of(&self.fleet.client.post(&url, &body).await.json());
        self.expected.lock().insert(key, text.clone());
        text
    }
}

/// Requests by their outcomes.
fn ended(scrape: &Exposition) -> [u64; 4] {
    OUTCOMES.map(|outcome| {
        let of_outcome = scrape.sum("kvroute_requests_total", &[("outcome", outcome)]);
        of_outcome.unwrap_or_default() as u64
    })
}

/// Status and body of an answer, which must come to its end in the terms of HTTP: what breaks off has told nobody why. The
/// client is a new one, so that what befell one connection is nothing to the next request.
async fn collect(url: &str, headers: &[(&str, &str)], body: &Value) -> (StatusCode, Bytes) {
    let client = Client::default();
    let reading = async {
        let (head, mut body) = client.open_with(url, headers, body).await.into_parts();
        let mut bytes = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.unwrap_or_else(|error| panic!("an answer broke off without a word: {error}"));
            bytes.extend_from_slice(frame.data_ref().map_or(&[], |data| &data[..]));
        }
        (head.status, bytes.freeze())
    };
    tokio::time::timeout(HANGS_AFTER, reading).await.unwrap_or_else(|_| panic!("an answer hangs"))
}

fn whole(body: &Bytes, expected: &str) -> Seen {
    let answer = serde_json::from_slice(body)
        .unwrap_or_else(|error| panic!("half an answer with status 200: {error} in {body:?}"));
    assert_eq!(text_of(&answer), expected, "another answer: {answer}");
    assert!(answer["usage"].is_object(), "no usage: {answer}");
    Seen::Whole
}

fn streamed(body: &Bytes, expected: &str) -> Seen {
    let stream = std::str::from_utf8(body).unwrap();
    let mut text = String::new();
    let mut events = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    for event in events.by_ref() {
        if event == "[DONE]" {
            assert_eq!(text, expected, "another answer: {stream}");
            assert_eq!(events.next(), None, "something behind the end: {stream}");
            return Seen::Whole;
        }
        let part: Value =
            serde_json::from_str(event).unwrap_or_else(|error| panic!("{error}: half an event in {stream}"));
        if part.get("error").is_some() {
            assert_eq!(events.next(), None, "something behind an error: {stream}");
            return Seen::Error(200, code_of(&part));
        }
        text += &text_of(&part);
    }
    panic!("a silent end: {stream}")
}

fn code_of(answer: &Value) -> String {
    let error = &answer["error"];
    assert!(!error["message"].as_str().unwrap().is_empty() && error["type"].is_string(), "{answer}");
    error["code"].as_str().unwrap_or_else(|| panic!("no code in {answer}")).to_owned()
}

fn text_of(answer: &Value) -> String {
    let choices = answer["choices"].as_array().unwrap_or_else(|| panic!("no choices in {answer}"));
    let texts = choices.iter().flat_map(|choice| {
        [&choice["text"], &choice["delta"]["content"], &choice["message"]["content"]].map(Value::as_str)
    });
    texts.flatten().collect()
}

/// Panics of tasks end in their tasks, where nobody looks.
fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.fetch_add(1, Ordering::Relaxed);
            usual(panic);
        }));
    });
}
