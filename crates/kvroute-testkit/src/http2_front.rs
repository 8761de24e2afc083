//! An engine's front that speaks HTTP/2 over TLS, and does to its streams and connections what such servers may do.
//!
//! Engines themselves speak HTTP/1.1; it is proxies and meshes in front of them that speak HTTP/2, and that shed load and
//! restart by its means: a stream that is reset with whatever reason, a connection that says which streams it has looked
//! at (`GOAWAY`). What is asked passes to the engine and comes back as it is. Whatever is no request for an answer is a
//! probe and meets no fault.

mod connection;
mod exchange;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{self, Builder};
use hyper_util::rt::TokioExecutor;
use kvroute_engine::tls::ALPN_H2;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

pub use h2::Reason;

use crate::{Pair, kept_address};

/// Streams of one connection at a time, unless a test says otherwise.
const STREAMS: u32 = 1_000;

/// Stands between a router and an engine until it is dropped.
#[derive(Debug)]
pub struct Http2Front {
    address: SocketAddr,
    shared: Arc<Shared>,
    _serving: JoinSet<()>,
}

/// What becomes of a request for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http2Fault {
    /// Nothing.
    None,
    /// Its stream is reset before an answer, and its engine never hears of it.
    Refuse(Reason),
    /// Its stream is reset behind so many bytes of the answer's body.
    ResetAt(usize, Reason),
    /// Its connection ends by a `GOAWAY` which says that this request was not looked at, nor any behind it.
    GoAway,
}

/// What all connections look at.
#[derive(Debug)]
struct Shared {
    engine: SocketAddr,
    client: legacy::Client<HttpConnector, Full<Bytes>>,
    streams: u32,
    faults: Mutex<Faults>,
    /// The numbers of the connections on which an answer was asked for, in the order of the requests.
    asked_on: Mutex<Vec<usize>>,
    /// Why the router has reset streams.
    resets: Mutex<Vec<Reason>>,
    retired: watch::Sender<usize>,
    connections: AtomicUsize,
}

#[derive(Clone, Copy, Debug)]
struct Faults {
    next: Http2Fault,
    /// For so many requests.
    times: usize,
    /// How many have met one.
    suffered: usize,
}

// === impl Http2Front ===

impl Http2Front {
    /// In front of the engine at this address, with this certificate.
    pub async fn start(engine: SocketAddr, pair: &Pair) -> Self {
        Self::with_streams(engine, pair, STREAMS).await
    }

    /// The same with so many streams of one connection at a time.
    pub async fn with_streams(engine: SocketAddr, pair: &Pair, streams: u32) -> Self {
        let address = kept_address();
        let listener = TcpListener::bind(address).await.expect("nobody else listens at a kept address");
        let shared = Arc::new(Shared {
            engine,
            client: Builder::new(TokioExecutor::new()).build_http(),
            streams,
            faults: Mutex::new(Faults { next: Http2Fault::None, times: 0, suffered: 0 }),
            asked_on: Mutex::default(),
            resets: Mutex::default(),
            retired: watch::Sender::new(0),
            connections: AtomicUsize::new(0),
        });
        let mut serving = JoinSet::new();
        serving.spawn(accept(listener, pair.acceptor(None, &[ALPN_H2]), Arc::clone(&shared)));
        Self { address, shared, _serving: serving }
    }

    /// Where it listens, by the name of its certificate.
    pub fn url(&self) -> String {
        format!("https://localhost:{}", self.address.port())
    }

    /// What befalls the next requests for an answer, and how many of them.
    pub fn set(&self, fault: Http2Fault, times: usize) {
        let mut faults = self.shared.faults.lock();
        (faults.next, faults.times) = (fault, times);
    }

    /// How many requests have met a fault.
    pub fn suffered(&self) -> usize {
        self.shared.faults.lock().suffered
    }

    /// Tells the clients of all connections in order that these take no more requests: what runs may end.
    pub fn retire(&self) {
        self.shared.retired.send_modify(|times| *times += 1);
    }

    /// The numbers of the connections on which an answer was asked for, request by request.
    pub fn asked_on(&self) -> Vec<usize> {
        self.shared.asked_on.lock().clone()
    }

    /// Why the router has reset streams of requests for an answer.
    pub fn resets(&self) -> Vec<Reason> {
        self.shared.resets.lock().clone()
    }
}

async fn accept(listener: TcpListener, tls: TlsAcceptor, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((socket, _peer)) = accepted else { return };
                let number = shared.connections.fetch_add(1, Ordering::Relaxed);
                let (tls, shared) = (tls.clone(), Arc::clone(&shared));
                connections.spawn(async move {
                    let _ = socket.set_nodelay(true);
                    let Ok(stream) = tls.accept(socket).await else { return };
                    connection::serve(stream, number, &shared).await;
                });
            }
            Some(_ended) = connections.join_next() => {}
        }
    }
}

// === impl Shared ===

impl Shared {
    /// The fault of a request that has come on this connection; `None` if it is a probe.
    fn begin<T>(&self, request: &Request<T>, connection: usize) -> Option<Http2Fault> {
        let path = request.uri().path();
        let is_probe =
            request.method() != Method::POST || !path.starts_with("/v1/") || path.ends_with("/render");
        if is_probe {
            return None;
        }
        self.asked_on.lock().push(connection);
        let mut faults = self.faults.lock();
        if faults.times == 0 {
            return Some(Http2Fault::None);
        }
        faults.times -= 1;
        faults.suffered += 1;
        Some(faults.next)
    }
}
