//! Requests over connections that stay open.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::prompts::Prompts;
use super::report::Window;

/// Connections to one router, as many as requests are under way at once.
#[derive(Debug)]
pub(crate) struct Connections {
    idle: Vec<SendRequest<Full<Bytes>>>,
    _driving: JoinSet<()>,
}

// === impl Connections ===

impl Connections {
    pub(crate) async fn open(address: SocketAddr, count: usize) -> Result<Self> {
        let (mut idle, mut driving) = (Vec::new(), JoinSet::new());
        for _ in 0..count {
            let stream = TcpStream::connect(address).await.context("the router does not listen")?;
            stream.set_nodelay(true)?;
            let (sender, connection) = handshake(TokioIo::new(stream)).await?;
            driving.spawn(async move {
                // Its end shows in the next request.
                let _ended = connection.await;
            });
            idle.push(sender);
        }
        Ok(Self { idle, _driving: driving })
    }

    /// Each of the prompts that are sent again, once.
    pub(crate) async fn send_each(&mut self, prompts: &Prompts) -> Result<()> {
        for body in prompts.repeated() {
            complete(&mut self.idle[0], body.clone()).await?;
        }
        Ok(())
    }

    /// Requests over all connections until the time is over.
    pub(crate) async fn window(&mut self, prompts: &Prompts, time: Duration) -> Result<Window> {
        let worked = worked_by_process();
        let start = Instant::now();
        let sent = self.idle.iter_mut().map(|sender| send_until(sender, prompts, start + time));
        let sent: Vec<Result<usize>> = futures_util::future::join_all(sent).await;
        let took = start.elapsed();
        let worked = worked_by_process().saturating_sub(worked);
        let requests = sent.into_iter().sum::<Result<usize>>()?;
        Ok(Window { requests, took, worked })
    }
}

async fn send_until(sender: &mut SendRequest<Full<Bytes>>, prompts: &Prompts, end: Instant) -> Result<usize> {
    let mut sent = 0;
    while Instant::now() < end {
        complete(sender, prompts.next()).await?;
        sent += 1;
    }
    Ok(sent)
}

async fn complete(sender: &mut SendRequest<Full<Bytes>>, body: Bytes) -> Result<()> {
    let request = http::Request::post("/v1/completions")
        .header("host", "router")
        .header("content-type", "application/json")
        .body(Full::new(body))?;
    sender.ready().await?;
    let answer = sender.send_request(request).await?;
    let status = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    ensure!(status.is_success(), "the router answers {status}: {}", String::from_utf8_lossy(&body));
    Ok(())
}

/// Time that all threads of this process ran.
fn worked_by_process() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let ran = tasks.filter_map(|task| {
        let numbers = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        numbers.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(ran.sum())
}
