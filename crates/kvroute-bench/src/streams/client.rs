//! Streams that are begun at an even pace and read to their ends.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::fleet::MODEL;
use super::record::{Record, Seen};

/// So many streams, each of so many tokens, so many begun a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) streams: usize,
    pub(crate) tokens: u32,
    pub(crate) rate: usize,
}

/// Sends the load to these addresses in turn.
pub(crate) async fn run(load: &Load, addresses: &[SocketAddr]) -> Result<Record> {
    let mut streams = JoinSet::new();
    let start = tokio::time::Instant::now();
    for (number, address) in addresses.iter().copied().cycle().take(load.streams).enumerate() {
        tokio::time::sleep_until(start + Duration::from_secs_f64(number as f64 / load.rate as f64)).await;
        streams.spawn(stream(address, number, load.tokens));
    }
    let mut record = Record::default();
    while let Some(ended) = streams.join_next().await {
        match ended.context("the client's own task failed")? {
            Ok(seen) => record.note(&seen),
            Err(error) => record.failed(format!("{error:#}")),
        }
    }
    Ok(record.sorted())
}

async fn stream(address: SocketAddr, number: usize, tokens: u32) -> Result<Seen> {
    let socket = TcpStream::connect(address).await.context("cannot connect")?;
    socket.set_nodelay(true)?;
    let (mut sender, connection) = handshake(TokioIo::new(socket)).await?;
    let mut driving = JoinSet::new();
    driving.spawn(connection);
    let question = format!("This is question {number} of many. ").repeat(20);
    let body = serde_json::json!({
        "model": MODEL,
        "stream": true,
        "max_tokens": tokens,
        "messages": [{"role": "system", "content": "You are one of many."}, {"role": "user", "content": question}],
    });
    let request = Request::post("/v1/chat/completions")
        .header("host", "router")
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body.to_string())))?;
    let sent = Instant::now();
    let answer = sender.send_request(request).await.context("no answer")?;
    ensure!(answer.status().is_success(), "status {}", answer.status());
    let mut body = answer.into_body();
    let (mut seen, mut last, mut tail) = (Seen::default(), None::<Instant>, Vec::new());
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame.context("the stream broke")?.into_data() else { continue };
        tail.extend_from_slice(&piece);
        let is_over = holds(&tail, b"[DONE]");
        tail.drain(..tail.len().saturating_sub(OVERLAP));
        if !holds(&piece, b"\"content\":\"") || holds(&piece, b"\"content\":\"\"") && !is_over {
            continue;
        }
        let now = Instant::now();
        match last {
            None => seen.first = Some(now - sent),
            Some(before) => seen.between.push(now - before),
        }
        last = Some(now);
        if is_over {
            return Ok(seen);
        }
    }
    ensure!(holds(&tail, b"[DONE]"), "the stream ended without its last event");
    Ok(seen)
}

/// What of a piece may belong to a word that ends in the next one.
const OVERLAP: usize = 64;

fn holds(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}
