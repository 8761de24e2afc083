//! Workers that answer at once, and the two routers before them.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kvroute_metrics::MetricsOptions;
use kvroute_router::config::{
    BusyThreshold, ClusterConfig, IndexSource, PoolConfig, ReadyWhen, RouterConfig, WorkerConfig,
};
use kvroute_server::{Security, ServeConfig, Server};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The model of every worker.
pub(crate) const MODEL: &str = "m";

const MODELS: &[u8] = br#"{"object":"list","data":[{"id":"m","object":"model"}]}"#;
const ANSWER: &[u8] = br#"{"id":"c","object":"text_completion","model":"m","choices":[{"index":0,"text":"x","finish_reason":"length"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}"#;

/// A thousand workers join within it, on a busy machine as well.
const ALL_JOIN_WITHIN: Duration = Duration::from_secs(120);

/// Workers on loopback, one port each.
#[derive(Debug)]
pub(crate) struct Fleet {
    urls: Vec<String>,
    _serving: JoinSet<()>,
}

/// One router without a history, one with it.
#[derive(Debug)]
pub(crate) struct Routers {
    without: Server,
    with: Server,
}

// === impl Fleet ===

impl Fleet {
    pub(crate) async fn start(workers: usize) -> Result<Self> {
        let (mut urls, mut serving) = (Vec::new(), JoinSet::new());
        for _ in 0..workers {
            let listener =
                TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("no port for a worker")?;
            urls.push(format!("http://{}", listener.local_addr()?));
            serving.spawn(accept(listener));
        }
        Ok(Self { urls, _serving: serving })
    }
}

async fn accept(listener: TcpListener) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(serve(stream));
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(stream: TcpStream) {
    // The router may close it at any time.
    let _set = stream.set_nodelay(true);
    let serving =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer));
    let _ended = serving.await;
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, body): (u16, &'static [u8]) = match (request.method(), request.uri().path()) {
        (&Method::POST, "/v1/completions") => (200, ANSWER),
        (&Method::GET, "/v1/models") => (200, MODELS),
        (&Method::GET, "/health") => (200, b""),
        _ => (404, b"{}"),
    };
    // Read to its end, as a worker does.
    let mut incoming = request.into_body();
    while let Some(Ok(_)) = incoming.frame().await {}
    let mut response = Response::new(Full::new(Bytes::from_static(body)));
    *response.status_mut() = http::StatusCode::from_u16(status).unwrap_or_default();
    response.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
    Ok(response)
}

// === impl Routers ===

impl Routers {
    pub(crate) async fn start(fleet: &Fleet) -> Result<Self> {
        let without = Server::start(config(fleet, false)).await.context("the router does not start")?;
        let with = Server::start(config(fleet, true)).await.context("the router does not start")?;
        let routers = Self { without, with };
        for server in [&routers.without, &routers.with] {
            all_joined(server, fleet.urls.len()).await?;
        }
        Ok(routers)
    }

    pub(crate) fn addresses(&self) -> [SocketAddr; 2] {
        [self.without.data_address(), self.with.data_address()]
    }

    pub(crate) async fn stop(self) {
        self.without.stop().await;
        self.with.stop().await;
    }
}

fn config(fleet: &Fleet, has_history: bool) -> ServeConfig {
    let free_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut pool = PoolConfig::of_workers(fleet.urls.iter().map(WorkerConfig::at).collect());
    pool.index.source = IndexSource::Remembered;
    pool.queue.threshold = BusyThreshold::Off;
    pool.history.enabled = has_history;
    ServeConfig {
        listen: free_port,
        admin_listen: free_port,
        api_keys: None,
        trusted: Vec::new(),
        max_body: 1 << 20,
        ready: ReadyWhen::default(),
        drain: Duration::from_secs(5),
        metrics: MetricsOptions::default(),
        router: RouterConfig {
            pools: vec![pool],
            seed: 7,
            trace_sample: 0.0,
            cluster: ClusterConfig::default(),
        },
        security: Security::default(),
    }
}

/// Waits until every worker may be chosen.
async fn all_joined(server: &Server, workers: usize) -> Result<()> {
    let joined = async {
        loop {
            let ready = ready_workers(server.admin_address()).await?;
            if ready >= workers {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    match tokio::time::timeout(ALL_JOIN_WITHIN, joined).await {
        Ok(joined) => joined,
        Err(_) => bail!("the workers do not join"),
    }
}

async fn ready_workers(admin: SocketAddr) -> Result<usize> {
    let stream = TcpStream::connect(admin).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let mut driving = JoinSet::new();
    driving.spawn(async move {
        let _ended = connection.await;
    });
    let request = Request::get("/api/workers").header("host", "router").body(Full::<Bytes>::default())?;
    let answer = sender.send_request(request).await?.into_body().collect().await?.to_bytes();
    let workers: serde_json::Value = serde_json::from_slice(&answer)?;
    let list = workers.as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(list.iter().filter(|worker| worker["state"] == "ready").count())
}
