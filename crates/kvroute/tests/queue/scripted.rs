//! A worker with adapters, which the simulated engine has not: it says what it serves, and does what it is told to.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::*;

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conduct {
    Answers,
    /// Its answer never comes.
    Holds,
    /// Its connection is closed, which makes the router ask again what the worker is.
    Breaks,
}

/// A worker whose first model is the base of all others.
pub(super) struct Scripted {
    pub(super) address: SocketAddr,
    told: Arc<Mutex<(Vec<&'static str>, Conduct)>>,
    _serving: JoinSet<()>,
}

// === impl Scripted ===

impl Scripted {
    pub(super) async fn start(address: SocketAddr, models: &[&'static str]) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let told = Arc::new(Mutex::new((models.to_vec(), Conduct::Answers)));
        let mut serving = JoinSet::new();
        let heard = Arc::clone(&told);
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _peer)) = listener.accept().await {
                connections.spawn(serve(stream, Arc::clone(&heard)));
            }
        });
        Self { address, told, _serving: serving }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn serves(&self, models: &[&'static str]) {
        self.told.lock().0 = models.to_vec();
    }

    pub(super) fn behaves(&self, conduct: Conduct) {
        self.told.lock().1 = conduct;
    }
}

async fn serve(mut stream: TcpStream, told: Arc<Mutex<(Vec<&'static str>, Conduct)>>) {
    let mut request = vec![0; 65_536];
    while let Ok(length @ 1..) = stream.read(&mut request).await {
        let (models, conduct) = told.lock().clone();
        let (status, body) = match &request[..length] {
            head if head.starts_with(b"GET /v1/models ") => (200, list(&models)),
            head if head.starts_with(b"GET /health ") => (200, json!({})),
            head if head.starts_with(b"POST /v1/") => match conduct {
                Conduct::Answers => (200, answer()),
                Conduct::Holds => return std::future::pending().await,
                Conduct::Breaks => return,
            },
            _ => (404, json!({"error": "not found"})),
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

fn list(models: &[&str]) -> Value {
    let entry = |(position, id)| json!({"id": id, "parent": (position > 0).then(|| models[0])});
    json!({"object": "list", "data": models.iter().enumerate().map(entry).collect::<Vec<_>>()})
}

fn answer() -> Value {
    let message = json!({"role": "assistant", "content": "x"});
    json!({
        "id": "x",
        "choices": [{"index": 0, "text": "x", "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    })
}
