//! A running engine: its sockets, its tasks, and their end.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use kvroute_zmtp::ZmtpError;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::SimConfig;
use crate::encoder::PromptEncoder;
use crate::events::EventPublisher;
use crate::http::App;
use crate::runner::{EngineHandle, Runner};
use crate::scheduler::Scheduler;
use crate::stats::EngineStats;
use crate::words::Words;

/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// One simulated engine, running until it is stopped or dropped. Many may run in one process.
#[derive(Debug)]
pub struct SimEngine {
    address: SocketAddr,
    handle: EngineHandle,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// An engine that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting that makes no sense.
    #[error("engine settings: {0}")]
    Config(String),
    /// An HTTP address that cannot be bound.
    #[error("cannot listen on {address}: {source}; choose another address or stop what uses it")]
    Listen {
        /// What was to be bound.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// An event socket that cannot be bound.
    #[error("KV events: {0}")]
    Events(#[from] ZmtpError),
}

// === impl SimEngine ===

impl SimEngine {
    /// Checks the settings, binds all sockets and starts to serve.
    ///
    /// # Errors
    /// Settings that make no sense, and addresses that cannot be bound.
    pub async fn start(config: SimConfig, encoder: Arc<dyn PromptEncoder>) -> Result<Self, StartError> {
        config.validate().map_err(StartError::Config)?;
        config.faults.validate().map_err(StartError::Config)?;
        let words = Words::new(encoder.as_ref()).ok_or_else(|| {
            StartError::Config(String::from("the tokenizer has no ids to compose answers from"))
        })?;
        let words = Arc::new(words);
        let failed = |source| StartError::Listen { address: config.listen, source };
        let listener = TcpListener::bind(config.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let publisher = EventPublisher::bind(&config, config.listen.ip()).await?;
        let sources = publisher.sources();
        let scheduler = Scheduler::new(&config, Arc::clone(&words));
        let (runner, handle) = Runner::new(scheduler, config.seed, publisher);
        let app = App::new(config, handle.clone(), encoder, words, sources);
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        tasks.spawn(runner.run(stop.clone()));
        tasks.spawn(serve(listener, app.router(), tasks.clone(), stop.clone()));
        tasks.close();
        Ok(Self { address, handle, stop, tasks })
    }

    /// Where HTTP is served, with the real port.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL for a client on this machine, without a slash at its end.
    pub fn url(&self) -> String {
        let ip = match self.address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
            ip => ip,
        };
        format!("http://{}", SocketAddr::new(ip, self.address.port()))
    }

    /// What the engine did so far.
    pub fn stats(&self) -> EngineStats {
        self.handle.stats()
    }

    /// Stops like a process that is killed: connections are cut, streams break off. Returns when every socket is
    /// closed, so that the same addresses can be bound again.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.wait().await;
    }
}

impl Drop for SimEngine {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn serve(listener: TcpListener, router: Router, tasks: TaskTracker, stop: CancellationToken) {
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "connection not accepted");
                // The causes (no file descriptors left) do not pass at once.
                stop.run_until_cancelled(tokio::time::sleep(ACCEPT_PAUSE)).await;
                continue;
            }
        };
        let (router, stop) = (router.clone(), stop.clone());
        tasks.spawn(async move { stop.run_until_cancelled(serve_connection(stream, router)).await });
    }
}

async fn serve_connection(stream: TcpStream, router: Router) {
    // Tokens are small and must not wait for more.
    let _ = stream.set_nodelay(true);
    let service = TowerToHyperService::new(router);
    // A client that goes away in the middle is nothing to report.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}
