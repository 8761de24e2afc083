//! What a pool remembers of requests that were sent again: how many, and on which connections they broke.
//!
//! An engine closes connections that were idle for a while, and a request may be on its way when it does. Such a request
//! was not read by anybody, and its worker is well: it is sent once more to the same worker. It cannot be told from a
//! request that killed its engine, but by two signs: the connection had brought an answer before, and it ended without a
//! byte. So it counts as one that broke a worker if it breaks another one.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;

use http::{Extensions, Response};
use hyper_util::client::legacy::Error as ClientError;
use hyper_util::client::legacy::connect::HttpInfo;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::config::RetryConfig;
use crate::log_gate::LogGate;
use crate::retry_budget::RetryBudget;

/// Connections that are known to have brought an answer. One that is forgotten costs a retry, so all are at once.
const MOST_CONNECTIONS: usize = 4096;

/// The retries of one pool.
#[derive(Debug)]
pub(crate) struct Resending {
    budget: Mutex<RetryBudget>,
    clock: Instant,
    /// Own addresses of the connections that have brought an answer.
    proven: Mutex<HashSet<SocketAddr>>,
    /// Lets a complaint about a spent budget through once in a while.
    pub(crate) spent: LogGate,
    /// The same about prefills that could not be called off.
    pub(crate) call_offs: LogGate,
}

// === impl Resending ===

impl Default for Resending {
    fn default() -> Self {
        Self {
            budget: Mutex::default(),
            clock: Instant::now(),
            proven: Mutex::default(),
            spent: LogGate::new(),
            call_offs: LogGate::new(),
        }
    }
}

impl Resending {
    /// A request is sent for the first time.
    pub(crate) fn asked(&self) {
        self.budget.lock().asked(self.now());
    }

    /// Whether the budget lets one be sent again.
    pub(crate) fn is_allowed(&self, config: &RetryConfig) -> bool {
        self.budget.lock().allows(config, self.now())
    }

    /// One is sent again.
    pub(crate) fn resent(&self) {
        self.budget.lock().resent(self.now());
    }

    /// A connection brought an answer.
    pub(crate) fn brought<T>(&self, answer: &Response<T>) {
        let Some(info) = answer.extensions().get::<HttpInfo>() else { return };
        let mut proven = self.proven.lock();
        if proven.len() >= MOST_CONNECTIONS {
            proven.clear();
        }
        proven.insert(info.local_addr());
    }

    /// Whether the connection that ended so without an answer had brought one before; it does not count a second time.
    pub(crate) fn was_proven(&self, error: &ClientError) -> bool {
        let mut about = Extensions::new();
        if let Some(connection) = error.connect_info() {
            connection.get_extras(&mut about);
        }
        let info = about.get::<HttpInfo>();
        info.is_some_and(|info| self.proven.lock().remove(&info.local_addr()))
    }

    fn now(&self) -> Duration {
        self.clock.elapsed()
    }
}
