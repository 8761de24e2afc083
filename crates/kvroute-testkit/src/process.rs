//! A real process of this project, started by its path and stopped when the test ends.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

/// A running process; killed when it is dropped.
#[derive(Debug)]
pub struct RunningProcess {
    child: Child,
    log: Arc<Mutex<String>>,
    reading: JoinSet<()>,
}

// === impl RunningProcess ===

impl RunningProcess {
    /// Starts a program and collects what it writes to standard error.
    pub fn start(program: impl AsRef<Path>, arguments: &[&str]) -> Self {
        let program = program.as_ref();
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", program.display()));
        let stderr = child.stderr.take().expect("standard error is piped");
        let log = Arc::new(Mutex::new(String::new()));
        let sink = Arc::clone(&log);
        let mut reading = JoinSet::new();
        reading.spawn(async move {
            let mut lines = BufReader::new(stderr).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let mut log = sink.lock();
                log.push_str(&line);
                log.push('\n');
            }
        });
        Self { child, log, reading }
    }

    /// Everything it has written to standard error.
    pub fn log(&self) -> String {
        self.log.lock().clone()
    }

    /// Waits until its log is as it should be, which may be a moment behind what it tells; gives the log.
    pub async fn until_logged(&self, is_there: impl Fn(&str) -> bool) -> String {
        for _ in 0..3_000 {
            let log = self.log();
            if is_there(&log) {
                return log;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("it never logged what the test waits for: {}", self.log());
    }

    /// Waits for a line of its log that holds `key=` and gives the word behind it.
    pub async fn announced(&mut self, key: &str) -> String {
        let marker = format!("{key}=");
        for _ in 0..1_500 {
            let log = self.log();
            if let Some((_, rest)) = log.split_once(&marker) {
                return rest.split_whitespace().next().unwrap_or_default().to_owned();
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                tokio::time::sleep(Duration::from_millis(100)).await;
                panic!("the process ended with {status} before it announced {key}: {}", self.log());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the process never announced {key}: {}", self.log());
    }

    /// Its process id, for a signal.
    pub fn id(&self) -> u32 {
        self.child.id().expect("the process runs")
    }

    /// Waits until it ends by itself, and its log is whole.
    pub async fn ended(&mut self) -> ExitStatus {
        let ended = tokio::time::timeout(Duration::from_secs(60), self.child.wait()).await;
        let status = ended.expect("the process never ended").expect("the process can be waited for");
        while self.reading.join_next().await.is_some() {}
        status
    }
}
