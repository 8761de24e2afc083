//! A program that runs for as long as the value lives.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

pub(crate) struct Process(Child);

// === impl Process ===

impl Process {
    /// Starts `command`; what it logs goes to the test's own error output, which is shown when the test fails.
    pub(crate) fn start(command: &mut Command) -> Self {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        Self(child.unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}")))
    }

    /// Fails the test if the program has ended, which nobody asked it to.
    pub(crate) fn check_alive(&mut self) {
        if let Some(status) = self.0.try_wait().unwrap() {
            panic!("a program of the test ended by itself: {status}");
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already; there is nothing more to do then.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A port that nobody listens on. Both programs want to be told one.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
