//! One listening socket: accept, serve, and stop without cutting what is in flight.
//!
//! Written on hyper rather than on axum's `serve`, because stopping has to know every connection: new ones are
//! refused at once, running ones may finish until the drain time is over, and what is left then is closed.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A socket that could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} ({option}): {source}; choose another address or stop what uses it")]
pub struct ListenError {
    /// The address that was asked for.
    pub address: SocketAddr,
    /// The setting that named it.
    pub option: &'static str,
    /// The operating system's words.
    pub source: io::Error,
}

/// A bound socket that does not serve yet.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpListener,
    address: SocketAddr,
}

/// Time a client has to send its request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Pause after a failed accept (out of file descriptors), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

// === impl Listener ===

impl Listener {
    /// Binds the address that `option` names.
    pub(crate) async fn bind(address: SocketAddr, option: &'static str) -> Result<Self, ListenError> {
        let failed = |source| ListenError { address, option, source };
        let socket = TcpListener::bind(address).await.map_err(failed)?;
        let bound = socket.local_addr().map_err(failed)?;
        Ok(Self { socket, address: bound })
    }

    /// The address with its real port.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop`, then lets running requests finish for at most `drain`.
    pub(crate) async fn serve(self, app: Router, stop: CancellationToken, drain: Duration) {
        let graceful = GracefulShutdown::new();
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                accepted = self.socket.accept() => match accepted {
                    Ok((stream, _peer)) => serve_connection(stream, &app, &graceful, &mut connections),
                    Err(error) => pause_after(&error).await,
                },
                Some(_ended) = connections.join_next() => {}
            }
        }
        drop(self.socket);
        if tokio::time::timeout(drain, graceful.shutdown()).await.is_err() {
            tracing::warn!(?drain, "drain time is over, closing the connections that are left");
        }
        connections.shutdown().await;
    }
}

fn serve_connection(
    stream: TcpStream,
    app: &Router,
    graceful: &GracefulShutdown,
    connections: &mut JoinSet<()>,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot switch off Nagle's algorithm on an accepted connection");
    }
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app.clone()));
    let watched = graceful.watch(connection);
    connections.spawn(async move {
        if let Err(error) = watched.await {
            tracing::debug!(%error, "a client connection ended early");
        }
    });
}

async fn pause_after(error: &io::Error) {
    tracing::warn!(%error, "cannot accept a connection");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}
