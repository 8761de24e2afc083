//! A worker that says word for word what it is told to, and keeps what it was asked.

use std::sync::Arc;
use std::time::Duration;

use kvroute_testkit::{Fleet, server_config};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// What becomes of one request.
#[derive(Clone, Debug)]
pub(crate) enum Conduct {
    /// A whole answer with this status.
    Answers(u16, String),
    /// A stream of these bytes, ended properly.
    Streams(String),
    /// A stream of these bytes that goes on for ever.
    Holds(String),
}

/// Decides by the body of the request and its number.
type Script = dyn Fn(&Value, usize) -> Conduct + Send + Sync;

/// A worker with a script, and a router in front of it.
pub(crate) struct Scripted {
    pub(crate) fleet: Fleet,
    asked: Arc<Mutex<Vec<String>>>,
    serving: JoinSet<()>,
}

const MODELS: &str = r#"{"object":"list","data":[{"id":"sim"}]}"#;

// === impl Scripted ===

impl Scripted {
    /// Starts both. The worker is one of which nothing but the OpenAI API is known.
    pub(crate) async fn start(script: impl Fn(&Value, usize) -> Conduct + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (asked, script): (Arc<Mutex<Vec<String>>>, Arc<Script>) = (Arc::default(), Arc::new(script));
        let mut serving = JoinSet::new();
        let heard = Arc::clone(&asked);
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _peer)) = listener.accept().await {
                connections.spawn(serve(stream, Arc::clone(&script), Arc::clone(&heard)));
            }
        });
        let config = |_: &[String]| {
            let mut config = server_config(&[url], "round-robin");
            config.router.pools[0].timeouts.total = Duration::from_secs(60);
            config
        };
        let fleet = Fleet::start_with(Vec::new(), config).await;
        fleet.client.until(&fleet.data("/ready"), |answer| answer.status == 200).await;
        Self { fleet, asked, serving }
    }

    /// The bodies that the worker got, in order.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }

    /// Closes every socket of the worker.
    pub(crate) async fn end_worker(&mut self) {
        self.serving.shutdown().await;
    }
}

async fn serve(mut stream: TcpStream, script: Arc<Script>, asked: Arc<Mutex<Vec<String>>>) {
    while let Some((head, body)) = read(&mut stream).await {
        let conduct = match head.split(' ').next() {
            Some("POST") => {
                let number = {
                    let mut asked = asked.lock();
                    asked.push(body.clone());
                    asked.len() - 1
                };
                script(&serde_json::from_str(&body).unwrap(), number)
            }
            _ if head.starts_with("GET /v1/models ") => Conduct::Answers(200, MODELS.to_owned()),
            _ => Conduct::Answers(404, "{}".to_owned()),
        };
        if act(&mut stream, conduct).await.is_err() {
            return;
        }
    }
}

/// Head and body of the next request.
async fn read(stream: &mut TcpStream) -> Option<(String, String)> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.to_ascii_lowercase();
            let length = length.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
            if body.len() >= length.map_or(0, |length| length.trim().parse().unwrap()) {
                return Some((head.to_owned(), body.to_owned()));
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

async fn act(stream: &mut TcpStream, conduct: Conduct) -> std::io::Result<()> {
    let chunked = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    match conduct {
        Conduct::Answers(status, body) => {
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
            );
            stream.write_all(format!("{head}{body}").as_bytes()).await
        }
        Conduct::Streams(text) => {
            let answer = format!("{chunked}{:x}\r\n{text}\r\n0\r\n\r\n", text.len());
            stream.write_all(answer.as_bytes()).await
        }
        Conduct::Holds(text) => {
            stream.write_all(format!("{chunked}{:x}\r\n{text}\r\n", text.len()).as_bytes()).await?;
            std::future::pending().await
        }
    }
}
