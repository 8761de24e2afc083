//! The processes: engines and the router before them.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::machine;

/// The model of every engine.
pub(crate) const MODEL: &str = "sim";

/// How long processes may take to be ready, and the router to be at rest.
const PATIENCE: Duration = Duration::from_secs(60);

/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(250);

/// Blocks of an engine's cache: streams that find no room in it would wait for others to end.
const ROOM: &str = "131072";

/// A process that ends with the run.
#[derive(Debug)]
struct Process(Child);

/// Engines and a router.
#[derive(Debug)]
pub(crate) struct Fleet {
    engines: Vec<SocketAddr>,
    router: SocketAddr,
    admin: SocketAddr,
    router_process: Process,
    _engine_processes: Vec<Process>,
}

// === impl Process ===

impl Process {
    fn start(kvroute: &Path, arguments: &[String]) -> Result<Self> {
        let mut command = Command::new(kvroute);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().with_context(|| {
            format!("{} cannot be started; build it with cargo build --release", kvroute.display())
        })?;
        Ok(Self(child))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _killed = self.0.kill();
        let _ended = self.0.wait();
    }
}

// === impl Fleet ===

impl Fleet {
    pub(crate) async fn start(kvroute: &Path, engines: usize, policy: &str) -> Result<Self> {
        let addresses = free_addresses(engines + 2)?;
        let (engines, [router, admin]) = addresses.split_at(engines) else { bail!("no two addresses") };
        let engine = |address: &SocketAddr| {
            let arguments = [
                "engine",
                "--listen",
                &address.to_string(),
                "--decode-tps",
                "1",
                "--kv-blocks",
                ROOM,
                "--log",
                "warn",
            ];
            Process::start(kvroute, &arguments.map(str::to_owned))
        };
        let engine_processes = engines.iter().map(engine).collect::<Result<Vec<_>>>()?;
        let mut arguments = vec!["serve".to_owned(), "--policy".to_owned(), policy.to_owned()];
        for (flag, address) in [("--listen", router), ("--admin-listen", admin)] {
            arguments.extend([flag.to_owned(), address.to_string()]);
        }
        for address in engines {
            arguments.extend(["--worker".to_owned(), format!("http://{address}")]);
        }
        arguments.extend(["--set".to_owned(), "pool.queue.threshold=off".to_owned()]);
        arguments.extend(["--log".to_owned(), "warn".to_owned()]);
        let router_process = Process::start(kvroute, &arguments)?;
        let fleet = Self {
            engines: engines.to_vec(),
            router: *router,
            admin: *admin,
            router_process,
            _engine_processes: engine_processes,
        };
        fleet.until(|metrics| ready_workers(metrics) == fleet.engines.len(), "all engines ready").await?;
        Ok(fleet)
    }

    pub(crate) fn engines(&self) -> &[SocketAddr] {
        &self.engines
    }

    pub(crate) const fn router(&self) -> SocketAddr {
        self.router
    }

    /// Resident bytes of the router.
    pub(crate) fn router_memory(&self) -> Result<u64> {
        machine::resident_bytes_of(self.router_process.0.id()).context("the router has ended")
    }

    /// The most of it within a time.
    pub(crate) async fn most_memory(&self, time: Duration) -> u64 {
        let end = tokio::time::Instant::now() + time;
        let mut most = 0;
        while tokio::time::Instant::now() < end {
            most = most.max(self.router_memory().unwrap_or_default());
            tokio::time::sleep(LOOK).await;
        }
        most
    }

    /// Waits until nothing is in flight, which shows that nothing was lost on the way.
    pub(crate) async fn until_at_rest(&self) -> Result<()> {
        self.until(|metrics| in_flight(metrics) == Some(0.0), "nothing in flight").await
    }

    pub(crate) fn stop(self) -> Result<()> {
        drop(self);
        Ok(())
    }

    async fn until(&self, is_so: impl Fn(&str) -> bool, what: &str) -> Result<()> {
        let looks = async {
            loop {
                if let Ok(metrics) = scrape(self.admin).await
                    && is_so(&metrics)
                {
                    return;
                }
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::time::timeout(PATIENCE, looks).await.with_context(|| format!("the router never shows {what}"))
    }
}

fn ready_workers(metrics: &str) -> usize {
    let is_ready =
        |line: &&str| line.starts_with("kvroute_worker_state{") && line.contains("state=\"ready\"");
    metrics.lines().filter(is_ready).filter(|line| line.ends_with(" 1")).count()
}

/// Requests under way, and what they occupy.
fn in_flight(metrics: &str) -> Option<f64> {
    let gauges = ["dynamo_frontend_stage_requests{", "dynamo_frontend_worker_active_decode_blocks{"];
    let of_load = |line: &&str| gauges.iter().any(|gauge| line.starts_with(gauge));
    let values = metrics.lines().filter(of_load).map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    values.sum()
}

async fn scrape(admin: SocketAddr) -> Result<String> {
    let mut socket = TcpStream::connect(admin).await?;
    socket.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// Addresses that were free a moment ago: all are taken at once, so that they differ.
fn free_addresses(count: usize) -> Result<Vec<SocketAddr>> {
    let listeners = (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
    let listeners = listeners.collect::<Result<Vec<_>, _>>().context("no free port")?;
    Ok(listeners.iter().map(TcpListener::local_addr).collect::<Result<_, _>>()?)
}
