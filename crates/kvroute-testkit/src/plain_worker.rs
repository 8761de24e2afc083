//! A worker of which only the plain OpenAI interface is known: no events, no cache size, no report of reuse. It keeps the
//! heads of the requests that it was given, which the simulated engine does not.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::kept_address;

/// What becomes of a text completion.
#[derive(Clone, Debug)]
pub enum PlainAnswer {
    /// This body is its answer.
    Body(Value),
    /// The connection is closed without a byte, as an engine's is that dies of the request.
    HangUp,
}

/// Serves one model until it is dropped.
#[derive(Debug)]
pub struct PlainWorker {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    _serving: JoinSet<()>,
}

// === impl PlainAnswer ===

impl PlainAnswer {
    /// One token of text, and what is further in the body: a usage object, or nothing.
    pub fn text(further: Value) -> Self {
        let mut body = json!({"id": "x", "choices": [{"index": 0, "text": "x", "finish_reason": "stop"}]});
        if let (Some(body), Value::Object(further)) = (body.as_object_mut(), further) {
            body.extend(further);
        }
        Self::Body(body)
    }
}

// === impl PlainWorker ===

impl PlainWorker {
    /// Listens on a free port of loopback.
    pub async fn start(model: &'static str, answer: PlainAnswer) -> Self {
        let address = kept_address();
        let listener = TcpListener::bind(address).await.expect("nobody else listens at a kept address");
        let heads = Arc::default();
        let kept = Arc::clone(&heads);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _peer)) = listener.accept().await {
                connections.spawn(serve(stream, model, answer.clone(), Arc::clone(&kept)));
            }
        });
        Self { address, heads, _serving: serving }
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many completions it was asked for.
    pub fn asked(&self) -> usize {
        self.heads.lock().len()
    }

    /// Every value of a header in the completions that it was asked for, request by request.
    pub fn given(&self, header: &str) -> Vec<Vec<String>> {
        let values = |head: &String| {
            let lines = head.lines().filter_map(|line| line.split_once(": "));
            let of_header = lines.filter(|(name, _)| name.eq_ignore_ascii_case(header));
            of_header.map(|(_, value)| value.to_owned()).collect()
        };
        self.heads.lock().iter().map(values).collect()
    }
}

async fn serve(mut stream: TcpStream, model: &str, answer: PlainAnswer, heads: Arc<Mutex<Vec<String>>>) {
    let mut request = vec![0; 65_536];
    while let Ok(length @ 1..) = stream.read(&mut request).await {
        let text = String::from_utf8_lossy(&request[..length]);
        let (status, body) = match text.split(' ').take(2).collect::<Vec<_>>().as_slice() {
            ["GET", "/v1/models"] => (200, json!({"object": "list", "data": [{"id": model}]})),
            ["GET", "/health"] => (200, json!({})),
            ["POST", "/v1/completions"] => {
                heads.lock().push(text.split("\r\n\r\n").next().unwrap_or_default().to_owned());
                match &answer {
                    PlainAnswer::Body(body) => (200, body.clone()),
                    PlainAnswer::HangUp => return,
                }
            }
            ["GET" | "POST", _] => (404, json!({"error": "not found"})),
            _ => continue, // The rest of a body.
        };
        let body = body.to_string();
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        if stream.write_all(format!("{head}{body}").as_bytes()).await.is_err() {
            return;
        }
    }
}
