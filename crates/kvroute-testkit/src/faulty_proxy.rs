//! A TCP layer in front of a server that does to its answers what networks and dying servers do.
//!
//! It knows no more of HTTP than where a request begins, which is where bytes of the client follow bytes of the server, and
//! whether it asks for an answer (a `POST` to a path of the API). All others are probes, which have a fault of their own, none by default:
//! an engine whose probes fail leaves the pool, and then there is nothing left to be tested. Bytes of the server are counted from the first one behind a request on, so
//! that the fault happens at the same byte whatever connection it happens on.

mod connection;
mod fault;
mod spoiler;

use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use socket2::SockRef;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::ClosedPort;
use connection::Connection;
pub use fault::Fault;

/// Stands between a client and a server until it is dropped.
#[derive(Debug)]
pub struct FaultyProxy {
    port: ClosedPort,
    shared: Arc<Shared>,
    /// Nobody while connections are refused.
    serving: Mutex<Option<Serving>>,
}

/// Whoever accepts connections, and these.
#[derive(Debug)]
struct Serving {
    listener: Arc<TcpListener>,
    _tasks: JoinSet<()>,
}

/// What all connections look at.
#[derive(Debug)]
pub(crate) struct Shared {
    upstream: SocketAddr,
    faults: watch::Sender<Faults>,
    open: AtomicUsize,
    suffered: AtomicUsize,
    length: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
struct Faults {
    /// Of whatever is no probe.
    requests: Fault,
    probes: Fault,
}

// === impl FaultyProxy ===

impl FaultyProxy {
    /// Listens on a free port of loopback, in front of a server by its URL or `host:port`. The fault is that of every
    /// request that asks for an answer.
    pub async fn start(upstream: &str, fault: Fault) -> Self {
        let authority = upstream.strip_prefix("http://").unwrap_or(upstream).trim_end_matches('/');
        let mut addresses =
            tokio::net::lookup_host(authority).await.unwrap_or_else(|error| panic!("{upstream}: {error}"));
        let upstream = addresses.next().unwrap_or_else(|| panic!("{upstream} has no address"));
        let shared = Shared {
            upstream,
            faults: watch::Sender::new(Faults { requests: Fault::None, probes: Fault::None }),
            open: AtomicUsize::new(0),
            suffered: AtomicUsize::new(0),
            length: AtomicU64::new(0),
        };
        let proxy = Self { port: ClosedPort::take(), shared: Arc::new(shared), serving: Mutex::default() };
        proxy.set(fault);
        proxy
    }

    /// Where it listens, as a URL.
    pub fn url(&self) -> String {
        self.port.url()
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Changes what becomes of the answers to requests that begin from now on. [`Fault::Refuse`] ends every connection
    /// too, whoever uses it.
    pub fn set(&self, fault: Fault) {
        self.shared.faults.send_modify(|faults| faults.requests = fault);
        let mut serving = self.serving.lock();
        match fault {
            Fault::Refuse => *serving = None,
            _ if serving.is_none() => *serving = Some(Serving::start(self.port.listen(), &self.shared)),
            _ => {}
        }
    }

    /// The same for probes. They cannot be refused alone.
    pub fn set_for_probes(&self, fault: Fault) {
        assert!(fault != Fault::Refuse, "connections are refused before anything is asked");
        self.shared.faults.send_modify(|faults| faults.probes = fault);
    }

    /// Connections of clients that are open at the moment.
    pub fn open(&self) -> usize {
        self.shared.open.load(Ordering::Relaxed)
    }

    /// Answers that a fault was done to. A request that was refused is not known of.
    pub fn suffered(&self) -> usize {
        self.shared.suffered.load(Ordering::Relaxed)
    }

    /// Bytes that the server has sent so far to the request that was the last to begin, probes aside.
    pub fn length(&self) -> u64 {
        self.shared.length.load(Ordering::Relaxed)
    }
}

// === impl Serving ===

impl Serving {
    fn start(listener: TcpListener, shared: &Arc<Shared>) -> Self {
        let listener = Arc::new(listener);
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(Arc::clone(&listener), Arc::clone(shared)));
        Self { listener, _tasks: tasks }
    }
}

impl Drop for Serving {
    /// A task is ended a moment later; the port is closed at once.
    fn drop(&mut self) {
        let _ = SockRef::from(&*self.listener).shutdown(Shutdown::Both);
    }
}

async fn accept(listener: Arc<TcpListener>, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((client, _peer)) = accepted else { return };
                connections.spawn(Connection::new(client, Arc::clone(&shared)).run());
            }
            Some(_ended) = connections.join_next() => {}
        }
    }
}

// === impl Shared ===

impl Shared {
    /// The fault of a request that begins, and whether it is a probe.
    fn begin(&self, request: &[u8]) -> (Fault, bool) {
        let faults = *self.faults.borrow();
        if is_probe(request) {
            return (faults.probes, true);
        }
        self.length.store(0, Ordering::Relaxed);
        (faults.requests, false)
    }

    /// Waits until requests are no longer held back.
    async fn released(&self) {
        let mut faults = self.faults.subscribe();
        // Whoever sets them lives as long as the connections.
        let _ = faults.wait_for(|faults| faults.requests != Fault::Hold).await;
    }
}

/// What a router asks of its own accord: whatever an engine is, and how it counts.
fn is_probe(request: &[u8]) -> bool {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let generates = line.starts_with(b"POST /v1/") && !line.windows(7).any(|word| word == b"/render");
    line.starts_with(b"GET ") || (line.starts_with(b"POST /") && !generates)
}

#[cfg(test)]
mod tests;
