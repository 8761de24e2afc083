//! A worker that speaks HTTP by hand, for what no engine here does by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

pub(crate) const MODEL: &str = "scripted";

const ANSWER: &str = r#"{"id":"x","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#;

/// What becomes of a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// The first one on a connection is answered, the second one finds it closed.
    CloseOnSecondRequest,
    /// SGLang: a stream whose only event is an error with this code.
    ErrorFirst(u16),
    /// SGLang: a stream of one chunk.
    Stream,
}

/// Serves until it is dropped.
pub(crate) struct Scripted {
    url: String,
    asked: Arc<AtomicUsize>,
    _serving: JoinSet<()>,
}

impl Scripted {
    pub(crate) async fn start(behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (asked, mut serving) = (Arc::new(AtomicUsize::new(0)), JoinSet::new());
        let counted = Arc::clone(&asked);
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _peer)) = listener.accept().await {
                connections.spawn(serve(stream, behaviour, Arc::clone(&counted)));
            }
        });
        Self { url, asked, _serving: serving }
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    /// Chats that it was asked for.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

async fn serve(mut stream: TcpStream, behaviour: Behaviour, asked: Arc<AtomicUsize>) {
    let mut chats = 0;
    while let Some(request) = read_request(&mut stream).await {
        let owner = if behaviour == Behaviour::CloseOnSecondRequest { "someone" } else { "sglang" };
        let models = format!(r#"{{"object":"list","data":[{{"id":"{MODEL}","owned_by":"{owner}"}}]}}"#);
        let answer = match request.as_str() {
            "GET /v1/models" => whole("200 OK", &models),
            "GET /health" => whole("200 OK", "{}"),
            "POST /v1/chat/completions" => {
                asked.fetch_add(1, Ordering::Relaxed);
                chats += 1;
                match behaviour {
                    Behaviour::CloseOnSecondRequest if chats > 1 => return,
                    Behaviour::CloseOnSecondRequest => whole("200 OK", ANSWER),
                    Behaviour::ErrorFirst(code) => error_first(code),
                    Behaviour::Stream => one_chunk(),
                }
            }
            _ => whole("404 Not Found", r#"{"error":{"message":"not found"}}"#),
        };
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Method and path of the next request, once all of it has come.
async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let (mut seen, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        if let Some(end) = seen.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&seen[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if seen.len() >= end + 4 + length.map_or(0, |length| length.trim().parse().unwrap()) {
                let line = String::from_utf8_lossy(&seen).lines().next().unwrap().to_owned();
                return Some(line.split(' ').take(2).collect::<Vec<_>>().join(" "));
            }
        }
        match stream.read(&mut piece).await {
            Ok(length @ 1..) => seen.extend_from_slice(&piece[..length]),
            _ => return None,
        }
    }
}

fn whole(status: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
}

fn error_first(code: u16) -> String {
    events(&[
        &format!(
            r#"{{"error":{{"object":"error","message":"told in the stream","type":"Error","param":null,"code":{code}}}}}"#
        ),
        "[DONE]",
    ])
}

fn one_chunk() -> String {
    events(&[
        r#"{"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}"#,
        r#"{"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
        "[DONE]",
    ])
}

fn events(data: &[&str]) -> String {
    let body: String = data.iter().map(|data| format!("data: {data}\n\n")).collect();
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {length}\r\n\r\n{body}")
}
