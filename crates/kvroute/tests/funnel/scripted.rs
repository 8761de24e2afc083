//! An engine that says what it is told to say: adapters, events and reports that the simulated one has not.
//!
//! What it answers stands in the request: `"said"` is what it reports, word for word, `"stalls_after"` how many pieces of its answer it
//! sends before it falls silent (the first one is the head), and `"hangs_up"` the engine that closes the connection instead of answering. So a test knows of each request
//! what the engine made of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use kvroute_zmtp::{Endpoint, Publisher};
use rmp::encode;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A running engine; it ends with its handle.
#[derive(Debug)]
pub(crate) struct Scripted {
    /// Its address, which is the worker's name.
    pub(crate) name: String,
    nature: Arc<Nature>,
    publisher: Publisher,
    next_message: AtomicU64,
    _serving: JoinSet<()>,
}

/// What it says of itself.
#[derive(Debug)]
struct Nature {
    name: String,
    models: Vec<&'static str>,
    events: String,
    /// Answers in the middle of which it fell silent.
    stalled: AtomicU64,
}

/// One request as it came.
struct Request {
    line: String,
    body: Value,
}

const TOPIC: &str = "kv-events";

// === impl Scripted ===

impl Scripted {
    /// The first model is the base of the others.
    pub(crate) async fn start(models: &[&'static str]) -> Self {
        let publisher = Publisher::bind(&Endpoint::new("127.0.0.1", 0), 1_000).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let name = listener.local_addr().unwrap().to_string();
        let events = Endpoint::from(publisher.local_addr()).to_string();
        let nature = Arc::new(Nature {
            name: name.clone(),
            models: models.to_vec(),
            events,
            stalled: AtomicU64::new(0),
        });
        let (mut serving, served) = (JoinSet::new(), Arc::clone(&nature));
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _peer)) = listener.accept().await {
                connections.spawn(converse(stream, Arc::clone(&served)));
            }
        });
        Self { name, nature, publisher, next_message: AtomicU64::new(0), _serving: serving }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.name)
    }

    /// Waits until it has fallen silent in so many answers.
    pub(crate) async fn until_stalled(&self, answers: u64) {
        while self.nature.stalled.load(Ordering::Relaxed) < answers {
            tokio::task::yield_now().await;
        }
    }

    /// Publishes that the blocks of a prompt became cached, for an adapter or the model itself.
    pub(crate) async fn stores(&self, prompt: &[u32], block_size: usize, adapter: Option<&str>) {
        let blocks = prompt.len() / block_size;
        let names: Vec<_> = (1..=blocks).map(|block| block + prompt[0] as usize * 1_000).collect();
        let keys = adapter.map(|adapter| [adapter]);
        self.publishes(&json!({
            "type": "BlockStored", "block_hashes": names, "parent_block_hash": null,
            "token_ids": prompt[..blocks * block_size], "block_size": block_size, "lora_id": null, "medium": "GPU",
            "lora_name": adapter, "extra_keys": vec![json!(keys); blocks],
        }))
        .await;
    }

    async fn publishes(&self, event: &Value) {
        while self.publisher.subscribers() == 0 {
            tokio::task::yield_now().await;
        }
        let number = self.next_message.fetch_add(1, Ordering::Relaxed);
        let mut payload = Vec::new();
        pack(&mut payload, &json!([1_700_000_000.5 + number as f64, [event], 0]));
        let frames =
            [Bytes::from(TOPIC), Bytes::copy_from_slice(&number.to_be_bytes()), Bytes::from(payload)];
        self.publisher.send(&frames.into());
    }
}

/// Writes JSON as MessagePack.
fn pack(to: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => encode::write_nil(to).unwrap(),
        Value::Bool(flag) => encode::write_bool(to, *flag).unwrap(),
        Value::Number(number) => match number.as_u64() {
            Some(number) => drop(encode::write_uint(to, number).unwrap()),
            None => encode::write_f64(to, number.as_f64().unwrap()).unwrap(),
        },
        Value::String(text) => encode::write_str(to, text).unwrap(),
        Value::Array(items) => {
            encode::write_array_len(to, items.len() as u32).unwrap();
            items.iter().for_each(|item| pack(to, item));
        }
        Value::Object(members) => {
            encode::write_map_len(to, members.len() as u32).unwrap();
            for (key, member) in members {
                encode::write_str(to, key).unwrap();
                pack(to, member);
            }
        }
    }
}

/// Serves one connection until the peer leaves.
async fn converse(stream: TcpStream, nature: Arc<Nature>) {
    let mut stream = BufReader::new(stream);
    while let Some(request) = Request::read(&mut stream).await {
        let pieces = nature.answer(&request);
        if request.body["hangs_up"] == nature.name.as_str() {
            return;
        }
        let stalls_after = request.body["stalls_after"].as_u64().unwrap_or(u64::MAX);
        for (number, piece) in pieces.iter().map(String::as_bytes).chain([request.ending()]).enumerate() {
            if number as u64 == stalls_after {
                nature.stalled.fetch_add(1, Ordering::Relaxed);
                return silence(&mut stream).await;
            }
            if stream.write_all(piece).await.is_err() {
                return;
            }
        }
    }
}

/// Says nothing more until the peer has gone.
async fn silence(stream: &mut BufReader<TcpStream>) {
    let _gone = stream.read_to_end(&mut Vec::new()).await;
}

// === impl Request ===

impl Request {
    async fn read(stream: &mut BufReader<TcpStream>) -> Option<Self> {
        let (mut line, mut length) = (String::new(), 0);
        stream.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
        loop {
            let mut header = String::new();
            stream.read_line(&mut header).await.ok().filter(|read| *read > 0)?;
            if header.trim().is_empty() {
                break;
            }
            let (name, value) = header.split_once(':')?;
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().ok()?;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.ok()?;
        Some(Self { line, body: serde_json::from_slice(&body).unwrap_or_default() })
    }

    fn is_stream(&self) -> bool {
        self.body["stream"] == true
    }

    /// The end of a body whose length nobody told.
    fn ending(&self) -> &'static [u8] {
        if self.line.starts_with("POST /v1/") { b"0\r\n\r\n" } else { b"" }
    }
}

// === impl Nature ===

impl Nature {
    /// The head and the pieces of the body.
    fn answer(&self, request: &Request) -> Vec<String> {
        let path = request.line.split(' ').nth(1).unwrap_or_default();
        let json = match path {
            "/v1/models" => self.models(),
            "/version" => json!({"version": "0.32.0"}),
            "/health" => json!({}),
            "/kv_event_sources" => {
                json!([{"data_parallel_rank": 0, "endpoint": self.events, "topic": TOPIC}])
            }
            "/metrics" => {
                let text = "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"1000\"} 1.0\n";
                return whole(200, "text/plain", text);
            }
            _ if path.starts_with("/v1/") => return generate(request),
            _ => return whole(404, "application/json", "{}"),
        };
        whole(200, "application/json", &json.to_string())
    }

    fn models(&self) -> Value {
        let entry = |(position, id)| json!({"id": id, "parent": (position > 0).then(|| self.models[0])});
        json!({"object": "list", "data": self.models.iter().enumerate().map(entry).collect::<Vec<_>>()})
    }
}

fn generate(request: &Request) -> Vec<String> {
    let choice = json!({"index": 0, "text": "x", "finish_reason": "stop"});
    let mut answer = json!({"id": "x", "object": "text_completion", "choices": [choice]});
    let mut report = json!({"id": "x", "object": "text_completion", "choices": []});
    let told = if request.is_stream() { &mut report } else { &mut answer };
    for field in ["usage", "engine_data"] {
        if let Some(said) = request.body["said"].get(field) {
            told[field] = said.clone();
        }
    }
    let kind = if request.is_stream() { "text/event-stream" } else { "application/json" };
    let head = format!("HTTP/1.1 200 X\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n");
    if request.is_stream() {
        let events = [answer.to_string(), report.to_string(), "[DONE]".to_owned()];
        let chunks = events.map(|event| chunk(&format!("data: {event}\n\n")));
        return [head].into_iter().chain(chunks).collect();
    }
    let text = answer.to_string();
    let (one, other) = text.split_at(text.len() / 2);
    vec![head, chunk(one), chunk(other)]
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

fn whole(status: u16, kind: &str, body: &str) -> Vec<String> {
    let length = body.len();
    vec![format!("HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}")]
}
