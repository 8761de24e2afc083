//! A running engine: its processes, one after the other, and their end.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use kvroute_zmtp::ZmtpError;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::SimConfig;
use crate::control::{Controls, RestartOrder};
use crate::encoder::PromptEncoder;
use crate::faults::{FaultBoard, Faults, Incident, InvalidFaults};
use crate::http::App;
use crate::process::{Blueprint, Process, RunningProcess};
use crate::stats::EngineStats;
use crate::unseen::UnseenPeriod;
use crate::words::Words;

/// Pause before an address is tried again that somebody took during a restart.
const BIND_PAUSE: Duration = Duration::from_millis(50);

/// One simulated engine, running until it is stopped or dropped. Many may run in one process.
#[derive(Debug)]
pub struct SimEngine {
    address: SocketAddr,
    transfer_port: Option<u16>,
    controls: Controls,
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
    /// The port where KV is handed over cannot be bound.
    #[error(
        "cannot hand over kv at port {port}: {source}; choose another transfer_port or stop what uses it"
    )]
    Transfer {
        /// What was to be bound.
        port: u16,
        /// What the system said.
        source: io::Error,
    },
}

// === impl SimEngine ===

impl SimEngine {
    /// Checks the settings, binds all sockets and starts to serve.
    ///
    /// # Errors
    /// Settings that make no sense, and addresses that cannot be bound.
    pub async fn start(config: SimConfig, encoder: Arc<dyn PromptEncoder>) -> Result<Self, StartError> {
        config.validate().map_err(StartError::Config)?;
        let words = Words::new(encoder.as_ref()).ok_or_else(|| {
            StartError::Config(String::from("the tokenizer has no ids to compose answers from"))
        })?;
        let board = Arc::new(FaultBoard::new(config.faults.clone(), config.seed));
        let mut blueprint = Blueprint { config, encoder, words: Arc::new(words), board: Arc::clone(&board) };
        let stop = CancellationToken::new();
        let process = blueprint.build(&stop).await?;
        let (address, transfer_port) = (process.address, process.transfer_port());
        let (controls, restarts) = Controls::new(board, process.ranks.clone());
        let tasks = TaskTracker::new();
        let keeper = Keeper { blueprint, controls: controls.clone(), restarts, stop: stop.clone() };
        tasks.spawn(keeper.run(process));
        tasks.close();
        Ok(Self { address, transfer_port, controls, stop, tasks })
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

    /// The port where other engines fetch KV; `None` for an engine that hands none over. SGLang calls it the bootstrap
    /// port.
    pub const fn transfer_port(&self) -> Option<u16> {
        self.transfer_port
    }

    /// What the present process did so far, all ranks together.
    pub fn stats(&self) -> EngineStats {
        self.controls.ranks().stats()
    }

    /// Replaces all switches, as `POST /faults` does. Returns when what was to happen once has happened.
    ///
    /// # Errors
    /// A switch with a value that makes no sense.
    pub async fn set_faults(&self, faults: Faults) -> Result<(), InvalidFaults> {
        self.controls.switch(faults).await
    }

    /// Lets something happen to the cache and leaves the switches as they are. Returns when it has happened.
    pub async fn cause(&self, incident: Incident) {
        self.controls.cause(incident).await;
    }

    /// When the events could not tell what the cache holds, through injected faults; the open times are last.
    pub fn unseen(&self) -> Vec<UnseenPeriod> {
        self.controls.board.unseen.periods()
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

/// Keeps one process running, and starts the next one when it is told to.
struct Keeper {
    blueprint: Blueprint,
    controls: Controls,
    restarts: mpsc::UnboundedReceiver<RestartOrder>,
    stop: CancellationToken,
}

// === impl Keeper ===

impl Keeper {
    async fn run(mut self, first: Process) {
        let mut running = Some(self.serve(first));
        while let Some(Some(order)) = self.stop.run_until_cancelled(self.restarts.recv()).await {
            self.stop.run_until_cancelled(tokio::time::sleep(order.grace)).await;
            if let Some(process) = running.take() {
                process.stop().await;
            }
            if order.starts_again {
                let Some(next) = self.until_built().await else { return };
                self.controls.replace(next.ranks.clone());
                self.blueprint.board.unseen.restarted();
                running = Some(self.serve(next));
            }
            // Whoever ordered it may have gone.
            let _ = order.done.send(());
        }
        if let Some(process) = running {
            process.stop().await;
        }
    }

    fn serve(&self, process: Process) -> RunningProcess {
        let app = App::new(&self.blueprint, &process, self.controls.clone());
        process.serve(app.router())
    }

    /// The next process; `None` if the engine is stopped before its addresses are free.
    async fn until_built(&mut self) -> Option<Process> {
        loop {
            match self.blueprint.build(&self.stop).await {
                Ok(process) => return Some(process),
                Err(error) => tracing::warn!(%error, "restart waits for its addresses"),
            }
            self.stop.run_until_cancelled(tokio::time::sleep(BIND_PAUSE)).await?;
        }
    }
}
