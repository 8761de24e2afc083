//! A server that answers fixed bodies, for what no simulated engine says.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Serves until dropped.
pub(crate) struct Stub {
    address: SocketAddr,
    _serving: JoinSet<()>,
}

/// `GET /path`, status, body. What is not listed is 404.
pub(crate) type Answer = (&'static str, u16, String);

// === impl Stub ===

impl Stub {
    pub(crate) async fn start(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(serve(stream, answers.clone()));
            }
        });
        Self { address, _serving: serving }
    }

    /// An SGLang that says this of itself.
    pub(crate) async fn sglang(info: &serde_json::Value) -> Self {
        let models = r#"{"data":[{"id":"m","owned_by":"sglang","max_model_len":4096}]}"#;
        Self::start(vec![
            ("GET /v1/models", 200, models.to_owned()),
            ("GET /server_info", 200, info.to_string()),
            (
                "GET /v1/loads",
                200,
                r#"{"loads":[{"dp_rank":0,"num_running_reqs":0,"num_waiting_reqs":0}]}"#.to_owned(),
            ),
            ("POST /tokenize", 200, r#"{"tokens":[5]}"#.to_owned()),
        ])
        .await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// One request a connection, its head and body in one piece or several.
async fn serve(mut stream: TcpStream, answers: Vec<Answer>) -> Option<()> {
    let mut bytes = Vec::new();
    loop {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length =
            head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() < length.unwrap_or(0) {
            continue;
        }
        let line = head.lines().next()?.trim_end_matches(" HTTP/1.1");
        let found = answers.iter().find(|(asked, _, _)| *asked == line);
        let (status, body) = found.map_or((404, "{}"), |(_, status, body)| (*status, body.as_str()));
        let length = body.len();
        let answer =
            format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
        return stream.write_all(answer.as_bytes()).await.ok();
    }
}
