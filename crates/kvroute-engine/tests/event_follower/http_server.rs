//! The HTTP side of an engine: when it was started, and the events that it keeps.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Serves until dropped.
pub(crate) struct HttpServer {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
    _tasks: JoinSet<()>,
}

#[derive(Default)]
struct State {
    start: Option<u64>,
    /// Events that nobody has asked for yet.
    events: Vec<String>,
    is_failing: bool,
    asked: usize,
}

impl HttpServer {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Self { url, state, _tasks: tasks }
    }

    /// Seconds since the epoch, or nothing told.
    pub(crate) fn set_start(&self, start: Option<u64>) {
        self.state.lock().start = start;
    }

    /// Keeps events until they are asked for.
    pub(crate) fn keep(&self, events: &[serde_json::Value]) {
        self.state.lock().events.extend(events.iter().map(ToString::to_string));
    }

    /// Somebody else asks first.
    pub(crate) fn steal(&self) {
        self.state.lock().events.clear();
    }

    /// Every answer is an error from now on, or is none.
    pub(crate) fn fail(&self, is_failing: bool) {
        self.state.lock().is_failing = is_failing;
    }

    /// Waits until so many answers were given and read.
    pub(crate) async fn until_asked(&self, times: usize) {
        while self.state.lock().asked < times {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }
}

/// One request a connection.
async fn serve(mut stream: TcpStream, state: Arc<Mutex<State>>) {
    let mut request = Vec::new();
    while !request.windows(4).any(|window| window == b"\r\n\r\n") {
        if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let answer = state.lock().answer(&request);
    let _ = stream.write_all(answer.as_bytes()).await;
    // Whoever asked has read all of it once it closes the connection.
    while stream.read_buf(&mut request).await.unwrap_or(0) > 0 {}
    state.lock().asked += 1;
}

impl State {
    fn answer(&mut self, request: &[u8]) -> String {
        let body = if request.starts_with(b"GET /metrics ") {
            self.start.map_or_else(String::new, |start| format!("process_start_time_seconds {start}.5\n"))
        } else if self.is_failing || !request.starts_with(b"POST /kv_cache_events ") {
            return "HTTP/1.1 500 Internal Server Error\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
                .to_owned();
        } else {
            format!("[{}]", std::mem::take(&mut self.events).join(","))
        };
        format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    }
}
