//! One process of an engine: everything that a restart ends and begins anew.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use kvroute_core::WorkerRole;
use kvroute_zmtp::ZmtpError;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cache::CacheChange;
use crate::config::{EventEndpoint, Flavour, SimConfig};
use crate::encoder::PromptEncoder;
use crate::engine::StartError;
use crate::events::{EventPublisher, EventSource, PolledEvents};
use crate::faults::FaultBoard;
use crate::ranks::Ranks;
use crate::runner::Runner;
use crate::scheduler::Scheduler;
use crate::transfer::{TransferDesk, TransferServer};
use crate::words::Words;

/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often ports in a row are looked for.
const PORT_TRIALS: u32 = 20;

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
    pub(crate) ranks: Ranks,
    pub(crate) sources: Vec<EventSource>,
    pub(crate) polled: Option<Arc<PolledEvents>>,
    pub(crate) transfer: Option<Transfer>,
    listener: TcpListener,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// Where a process hands KV over.
#[derive(Clone, Debug)]
pub(crate) struct Transfer {
    pub(crate) port: u16,
    pub(crate) desk: Arc<TransferDesk>,
    /// Runs until the process ends; for what must not outlive it.
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
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
        let publishers = bind_publishers(config, host, &self.board).await?;
        let sources = publishers.iter().filter_map(EventPublisher::source).collect();
        let polled = publishers.iter().find_map(EventPublisher::polled);
        let server = bind_transfer(config, host).await?;
        config.listen = address;
        if let Some(first) = publishers.first().filter(|_| polled.is_none()) {
            (config.kv_events, config.kv_replay) = first.addresses();
        }
        let (tasks, stop) = (TaskTracker::new(), stop.child_token());
        let transfer = server.map(|server| {
            config.transfer_port = server.port();
            let transfer = Transfer {
                port: server.port(),
                desk: server.desk(),
                tasks: tasks.clone(),
                stop: stop.clone(),
            };
            tasks.spawn(server.run(tasks.clone(), stop.clone()));
            transfer
        });
        let mut handles = Vec::with_capacity(publishers.len());
        for publisher in publishers {
            if config.tells_start() {
                publisher.publish(&[CacheChange::Cleared]);
            }
            let scheduler = Scheduler::new(config, Arc::clone(&self.words));
            let (runner, handle) = Runner::new(scheduler, config.seed, publisher);
            tasks.spawn(runner.run(stop.clone()));
            handles.push(handle);
        }
        Ok(Process { address, ranks: Ranks::new(handles), sources, polled, transfer, listener, stop, tasks })
    }
}

/// One publisher a rank, on ports in a row.
async fn bind_publishers(
    config: &SimConfig,
    host: IpAddr,
    board: &Arc<FaultBoard>,
) -> Result<Vec<EventPublisher>, ZmtpError> {
    let mut trials = PORT_TRIALS;
    loop {
        trials -= 1;
        let mut publishers = vec![EventPublisher::bind(config, 0, host, Arc::clone(board)).await?];
        let Err(error) = bind_others(config, host, board, &mut publishers).await else {
            return Ok(publishers);
        };
        for publisher in publishers {
            publisher.close().await;
        }
        let is_free_choice =
            config.kv_events == EventEndpoint::Auto || config.kv_replay == EventEndpoint::Auto;
        if trials == 0 || !is_free_choice {
            return Err(error);
        }
    }
}

async fn bind_others(
    config: &SimConfig,
    host: IpAddr,
    board: &Arc<FaultBoard>,
    publishers: &mut Vec<EventPublisher>,
) -> Result<(), ZmtpError> {
    let (kv_events, kv_replay) = publishers[0].addresses();
    let behind_first = SimConfig { kv_events, kv_replay, ..config.clone() };
    for rank in 1..config.dp_ranks {
        publishers.push(EventPublisher::bind(&behind_first, rank, host, Arc::clone(board)).await?);
    }
    Ok(())
}

/// The port where KV is handed over, for engines that do.
async fn bind_transfer(config: &SimConfig, host: IpAddr) -> Result<Option<TransferServer>, StartError> {
    if config.role != WorkerRole::Prefill {
        return Ok(None);
    }
    // SGLang sends both legs at once, so the second may be first.
    let waits_for_unknown = config.flavour == Flavour::Sglang;
    let bound = TransferServer::bind(host, config.transfer_port, waits_for_unknown).await;
    bound.map(Some).map_err(|source| StartError::Transfer { port: config.transfer_port, source })
}

// === impl Process ===

impl Process {
    /// The port where KV is handed over.
    pub(crate) fn transfer_port(&self) -> Option<u16> {
        self.transfer.as_ref().map(|transfer| transfer.port)
    }

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
