//! SIGTERM and Ctrl-C, which both ask for an orderly end, and SIGHUP, which asks for the configuration to be read anew.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// Listens from the moment it is made, so that a signal during start-up is not lost.
#[derive(Debug)]
pub(crate) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

// === impl StopSignals ===

impl StopSignals {
    /// Replaces the default reaction, which is to die at once.
    pub(crate) fn listen() -> Result<Self, Failure> {
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    /// Waits for the next one and gives its name.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Listens from the moment it is made: by default SIGHUP ends a program.
#[derive(Debug)]
pub(crate) struct HangUps(Signal);

// === impl HangUps ===

impl HangUps {
    /// Replaces the default reaction, which is to die at once.
    pub(crate) fn listen() -> Result<Self, Failure> {
        listen(SignalKind::hangup()).map(Self)
    }

    /// Waits for the next one. Several that come at once are one.
    pub(crate) async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

fn listen(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::while_doing("cannot listen for signals", error))
}
