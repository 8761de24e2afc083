//! An HTTP server that answers with bytes that a real engine sent.

use std::io::Read;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A request and the bytes that answer it.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    /// `GET /path`.
    line: String,
    /// Only for this body; any body where there is none.
    body: Option<Value>,
    response: Vec<u8>,
}

/// Serves until dropped.
pub(crate) struct CapturedServer {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<(String, Value)>>>,
    _tasks: JoinSet<()>,
}

/// Everything captured from one engine that matters to a probe and to tokenizing.
pub(crate) fn captured(engine: &str) -> Vec<Exchange> {
    let path = format!("{}/../../fixtures/{engine}/http.jsonl.gz", env!("CARGO_MANIFEST_DIR"));
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    let exchanges = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    exchanges.filter_map(|exchange| Exchange::captured(&exchange)).collect()
}

/// A documented exchange that was not captured.
pub(crate) fn documented(line: &str, body: Option<Value>, status: &str, answer: &str) -> Exchange {
    let response = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{answer}", answer.len());
    Exchange { line: line.to_owned(), body, response: response.into_bytes() }
}

// === impl Exchange ===

impl Exchange {
    fn captured(exchange: &Value) -> Option<Self> {
        let (head, body) = exchange["request"].as_str()?.split_once("\r\n\r\n")?;
        let line = head.lines().next()?.trim_end_matches(" HTTP/1.1").to_owned();
        let answer = exchange["response_body"].as_str()?;
        let response_head = exchange["response_head"].as_str()?;
        let is_whole = response_head.to_lowercase().contains(&format!("content-length: {}", answer.len()));
        let response = format!("{response_head}\r\n\r\n{answer}").into_bytes();
        is_whole.then(|| Self { line, body: serde_json::from_str(body).ok(), response })
    }

    /// What was asked, and the body of the answer.
    pub(crate) fn body_to(&self, line: &str) -> Option<(&Value, &str)> {
        let answer = std::str::from_utf8(&self.response).ok()?.split_once("\r\n\r\n")?.1;
        self.body.as_ref().filter(|_| self.line == line).map(|asked| (asked, answer))
    }

    /// True for a request line and a body.
    pub(crate) fn is(&self, line: &str, body: &Value) -> bool {
        self.line == line && self.body.as_ref() == Some(body)
    }

    /// The same answer to every body.
    pub(crate) fn for_any_body(self) -> Self {
        Self { body: None, ..self }
    }
}

// === impl CapturedServer ===

impl CapturedServer {
    pub(crate) async fn start(exchanges: Vec<Exchange>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (exchanges, seen) = (Arc::new(exchanges), Arc::clone(&requests));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(serve(stream, Arc::clone(&exchanges), Arc::clone(&seen)));
            }
        });
        Self { url, requests, _tasks: tasks }
    }

    /// Bodies that were posted to a path.
    pub(crate) fn posted(&self, path: &str) -> Vec<Value> {
        let requests = self.requests.lock();
        let line = format!("POST {path}");
        requests.iter().filter(|(asked, _)| *asked == line).map(|(_, body)| body.clone()).collect()
    }
}

/// One request a connection: captured heads say `connection: close`.
async fn serve(
    mut stream: TcpStream,
    exchanges: Arc<Vec<Exchange>>,
    seen: Arc<Mutex<Vec<(String, Value)>>>,
) -> Option<()> {
    let (line, body) = read_request(&mut stream).await?;
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    seen.lock().push((line.clone(), body.clone()));
    let fitting = || exchanges.iter().filter(|exchange| exchange.line == line);
    let exact = fitting().find(|exchange| exchange.body.as_ref() == Some(&body));
    let response = match exact.or_else(|| fitting().find(|exchange| exchange.body.is_none())) {
        Some(exchange) => exchange.response.clone(),
        None => documented(&line, None, "404 Not Found", "{\"detail\":\"Not Found\"}").response,
    };
    stream.write_all(&response).await.ok()
}

async fn read_request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let length =
            head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        let body = &bytes[end + 4..];
        if body.len() >= length.unwrap_or(0) {
            return Some((head.lines().next()?.trim_end_matches(" HTTP/1.1").to_owned(), body.to_vec()));
        }
    }
}
