//! A NATS server of its own: on a free port, with a folder of its own, gone when the test ends.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// Looks until something holds; only a machine that stands still needs as many.
pub(crate) const LOOKS: usize = 6_000;
pub(crate) const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// A running server.
pub(crate) struct Server {
    process: Child,
    port: u16,
    folder: TempDir,
}

/// Whether the program is there; says so if not.
pub(crate) fn is_there() -> bool {
    let is_there = std::env::var_os("KVROUTE_NATS_SERVER").is_some();
    if !is_there {
        let required = std::env::var_os("KVROUTE_REQUIRE_PEERS").is_some();
        assert!(!required, "KVROUTE_NATS_SERVER is not set");
        eprintln!("skipped: set KVROUTE_NATS_SERVER (`cargo xtask peers` fetches a nats-server)");
    }
    is_there
}

/// A port that nobody listens on.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

// === impl Server ===

impl Server {
    /// One as it comes.
    pub(crate) async fn start() -> Self {
        Self::with("").await
    }

    /// One with more lines in its configuration.
    pub(crate) async fn with(configuration: &str) -> Self {
        Self::at(free_port(), configuration).await
    }

    pub(crate) async fn at(port: u16, configuration: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("nats.conf"), format!("listen: 127.0.0.1:{port}\n{configuration}\n"))
            .unwrap();
        let process = spawn(&folder);
        let server = Self { process, port, folder };
        server.until_ready().await;
        server
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// As a log names it.
    pub(crate) fn name(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://{}", self.name())
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts it again at its old place.
    pub(crate) async fn restart(&mut self) {
        self.process = spawn(&self.folder);
        self.until_ready().await;
    }

    async fn until_ready(&self) {
        for _ in 0..LOOKS {
            if let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await {
                let mut greeting = [0; 5];
                if stream.read_exact(&mut greeting).await.is_ok() && greeting == *b"INFO " {
                    return;
                }
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
        panic!("nats-server does not answer at {}", self.name());
    }
}

fn spawn(folder: &TempDir) -> Child {
    Command::new(std::env::var_os("KVROUTE_NATS_SERVER").unwrap())
        .arg("-c")
        .arg(folder.path().join("nats.conf"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
