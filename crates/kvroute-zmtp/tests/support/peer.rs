//! A libzmq peer in a Python process: the other implementation that ours must agree with.
//!
//! `KVROUTE_PYTHON` names a Python that has `pyzmq`. Without it these tests are skipped with a line that says so,
//! unless `KVROUTE_REQUIRE_PEERS=1`.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking and says on stdout why it was skipped"
)]

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// Killed when dropped.
pub(crate) struct Peer {
    process: Child,
    commands: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

/// The Python to run peers with, or `None` where this test is to be skipped.
pub(crate) fn python() -> Option<String> {
    let python = std::env::var("KVROUTE_PYTHON").ok();
    if python.is_none() {
        let required = std::env::var("KVROUTE_REQUIRE_PEERS").is_ok_and(|value| value == "1");
        assert!(!required, "KVROUTE_REQUIRE_PEERS=1, but KVROUTE_PYTHON names no Python with pyzmq");
        println!("skipped: set KVROUTE_PYTHON to a Python that has pyzmq");
    }
    python
}

// === impl Peer ===

impl Peer {
    /// Starts a peer in one of the roles of `peer.py`.
    pub(crate) fn start(python: &str, arguments: &[&str]) -> Self {
        let mut process = Command::new(python)
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../kvroute-zmtp/tests/support/peer.py"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let commands = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, commands, output }
    }

    /// Starts the `engine` role and waits until it is bound: the peer, its event and its replay address.
    pub(crate) async fn engine(python: &str, arguments: &[&str]) -> (Self, String, String) {
        let mut peer = Self::start(python, &[&["engine"], arguments].concat());
        let bound = peer.line().await;
        let [_, events, replay] = bound.split(' ').collect::<Vec<_>>()[..] else { panic!("{bound}") };
        (peer, events.to_owned(), replay.to_owned())
    }

    /// The next line that it prints.
    pub(crate) async fn line(&mut self) -> String {
        self.output.next_line().await.unwrap().expect("the peer ended")
    }

    /// Sends a command and waits until it is carried out.
    pub(crate) async fn command(&mut self, line: &str) {
        self.commands.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        let verb = line.split(' ').next().unwrap();
        while self.line().await != format!("done {verb}") {}
    }

    /// Kills it as a crash would, and waits until its ports are free.
    pub(crate) async fn kill(mut self) {
        self.process.kill().await.unwrap();
    }
}
