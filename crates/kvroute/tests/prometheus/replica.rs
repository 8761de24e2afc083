//! What a router with a history may have beside it: a NATS server, and another router that serves the same engines.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use kvroute_metrics::rows;
use kvroute_router::config::ClusterConfig;
use kvroute_server::Server;
use kvroute_testkit::{RunningProcess, server_config};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::database::Database;
use super::faults::until_moved;
use super::world::{Engine, KV, World, body, prompt};

/// A NATS server of its own: on a free port, gone when the test ends.
pub(crate) struct Nats {
    process: RunningProcess,
    address: SocketAddr,
}

/// Looks until it answers; only a machine that stands still needs as many.
const LOOKS: usize = 3_000;
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// Prompts that nobody has sent before, until one of them is too much.
const TRIES: u32 = 64;

/// Another router learns something, and this one hears of it; then the connection is lost.
pub(crate) async fn come_and_go(world: &mut World, database: &Database) {
    let Some(nats) = world.nats.take() else { return };
    let other = Server::start(replica(world, &nats)).await.unwrap();
    until_moved(world, rows::CLUSTER_PEERS, &[]).await;
    let learned = prompt(700, 160);
    let url = format!("http://{}", other.data_address());
    let ready = |answer: &kvroute_testkit::Answer| answer.status == 200;
    world.fleet.client.until(&format!("{url}/ready"), ready).await;
    let answer = world.fleet.client.post(&format!("{url}/v1/completions"), &body(KV, &learned, false)).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    until_moved(world, rows::HISTORY_SYNC_MESSAGES, &[("direction", "received"), ("result", "ok")]).await;
    // A gauge that falls again between two scrapes was never there.
    database.until(&format!("max({})", rows::CLUSTER_PEERS.name), |value| value > 0.0).await;
    other.stop().await;

    drop(nats);
    for number in 701..701 + TRIES {
        world.complete(KV, &prompt(number, 160), false).await;
        if world.sum(rows::HISTORY_SYNC_DROPPED, &[]).await > 0.0 {
            break;
        }
    }
    let degraded = format!("{}{{state=\"degraded\"}}", rows::HISTORY_SHARING.name);
    database.until(&degraded, |value| value == 1.0).await;
    // The history is written to its file once a minute.
    for row in [rows::HISTORY_SYNC_DROPPED, rows::HISTORY_SNAPSHOT_SECONDS] {
        database.until(&format!("max({})", row.name), |value| value > 0.0).await;
    }
}

/// The same pool of the same engines, in another router.
fn replica(world: &World, nats: &Nats) -> kvroute_server::ServeConfig {
    let urls = [Engine::First, Engine::Second].map(|engine| world.engine(engine).url());
    let mut config = server_config(&urls, "kv");
    config.router.pools[0].history.enabled = true;
    config.router.cluster = nats.cluster();
    config
}

// === impl Nats ===

impl Nats {
    /// Whether the program is there; says so if not.
    pub(crate) fn is_there() -> bool {
        let is_there = std::env::var_os("KVROUTE_NATS_SERVER").is_some();
        if !is_there {
            let is_required = std::env::var_os("KVROUTE_REQUIRE_PEERS").is_some();
            assert!(!is_required, "KVROUTE_NATS_SERVER is not set");
            eprintln!("skipped: set KVROUTE_NATS_SERVER (`cargo xtask peers` fetches a nats-server)");
        }
        is_there
    }

    pub(crate) async fn start() -> Self {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let program = std::env::var_os("KVROUTE_NATS_SERVER").unwrap();
        let port = address.port().to_string();
        let process = RunningProcess::start(program, &["--addr", "127.0.0.1", "--port", &port]);
        let nats = Self { process, address };
        nats.answers().await;
        nats
    }

    /// What makes a router a replica over it.
    pub(crate) fn cluster(&self) -> ClusterConfig {
        ClusterConfig { nats: Some(format!("nats://{}", self.address)), replica_sync: true }
    }

    async fn answers(&self) {
        for _ in 0..LOOKS {
            if let Ok(mut stream) = TcpStream::connect(self.address).await {
                let mut greeting = [0; 5];
                if stream.read_exact(&mut greeting).await.is_ok() && greeting == *b"INFO " {
                    return;
                }
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
        panic!("nats-server does not answer at {}: {}", self.address, self.process.log());
    }
}
