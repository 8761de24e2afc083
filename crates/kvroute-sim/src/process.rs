//! One process of an engine: everything that a restart ends and begins anew.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cache::CacheChange;
use crate::config::SimConfig;
use crate::encoder::PromptEncoder;
use crate::engine::StartError;
use crate::events::{EventPublisher, EventSource};
use crate::faults::FaultBoard;
use crate::runner::{EngineHandle, Runner};
use crate::scheduler::Scheduler;
use crate::words::Words;

/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What every process of an engine is made from.
#[derive(Clone)]
pub(crate) struct Blueprint {
    pub(crate) config: SimConfig,
    pub(crate) encoder: Arc<dyn PromptEncoder>,
    pub(crate) words: Arc<Words>,
    pub(crate) board: Arc<FaultBoard>,
}

/// Sockets that are bound and a task that runs; nobody is served yet.
pub(crate) struct Process {
    pub(crate) address: SocketAddr,
    pub(crate) handle: EngineHandle,
    pub(crate) sources: Vec<EventSource>,
    listener: TcpListener,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// A process that serves.
#[derive(Debug)]
pub(crate) struct RunningProcess {
    stop: CancellationToken,
    tasks: TaskTracker,
}

// === impl Blueprint ===

impl Blueprint {
    /// Binds every socket and starts the engine's task. From then on the addresses in the settings are the real
    /// ones, so that the next process has the same.
    pub(crate) async fn build(&mut self, stop: &CancellationToken) -> Result<Process, StartError> {
        let config = &mut self.config;
        let failed = |source| StartError::Listen { address: config.listen, source };
        let listener = TcpListener::bind(config.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let host: IpAddr = config.listen.ip();
        let publisher = EventPublisher::bind(config, host, Arc::clone(&self.board)).await?;
        let sources = publisher.sources();
        config.listen = address;
        (config.kv_events, config.kv_replay) = publisher.addresses();
        if config.announces_start {
            publisher.publish(&[CacheChange::Cleared]);
        }
        let scheduler = Scheduler::new(config, Arc::clone(&self.words));
        let (runner, handle) = Runner::new(scheduler, config.seed, publisher);
        let (tasks, stop) = (TaskTracker::new(), stop.child_token());
        tasks.spawn(runner.run(stop.clone()));
        Ok(Process { address, handle, sources, listener, stop, tasks })
    }
}

// === impl Process ===

impl Process {
    /// Serves until it is stopped.
    pub(crate) fn serve(self, router: Router) -> RunningProcess {
        let Self { listener, stop, tasks, .. } = self;
        tasks.spawn(serve(listener, router, tasks.clone(), stop.clone()));
        tasks.close();
        RunningProcess { stop, tasks }
    }
}

// === impl RunningProcess ===

impl RunningProcess {
    /// Ends it as a kill does; returns when every socket is closed.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.tasks.wait().await;
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
