//! One listening socket: accept, serve, and stop without cutting what is in flight.
//!
//! Written on hyper rather than on axum's `serve`, because stopping has to know every connection: new ones are
//! refused at once, running ones may finish until the drain time is over, and what is left then is closed.

mod client;
mod connection;
mod executor;
mod held;
mod pace;
mod protocol;
mod reading;
mod refusals;
mod turned_away;
mod unread;

#[cfg(test)]
mod tests;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use axum::Router;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use connection::Bounds;
pub(crate) use refusals::Refusals;
use turned_away::TurnedAway;

use crate::limits::Limits;
use crate::server::{Security, ServeConfig};
use crate::threads::Place;
use crate::tls::ServerTls;
use crate::trust::TrustedNetworks;

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
    terms: Arc<ArcSwap<Terms>>,
    place: Place,
}

/// What holds for connections that are made from here on.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    trusted: TrustedNetworks,
    tls: Option<ServerTls>,
    limits: Limits,
}

/// Time in which a client may read how its stream was ended.
const PARTING: Duration = Duration::from_secs(1);

/// Pause after a failed accept (out of file descriptors), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

// === impl Listener ===

impl Listener {
    /// Binds the address that `option` names.
    pub(crate) async fn bind(
        address: SocketAddr,
        option: &'static str,
        terms: &Arc<ArcSwap<Terms>>,
    ) -> Result<Self, ListenError> {
        let failed = |source| ListenError { address, option, source };
        let socket = TcpListener::bind(address).await.map_err(failed)?;
        let bound = socket.local_addr().map_err(failed)?;
        Ok(Self { socket, address: bound, terms: Arc::clone(terms), place: Place::Here })
    }

    /// The same, whose connections are served there.
    pub(crate) fn serving_on(self, place: Place) -> Self {
        Self { place, ..self }
    }

    /// The address with its real port.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop`, then lets running requests finish for at most `drain`. Calls `expired` when that was
    /// not enough: what it ends by itself can still be read by its clients before the connections are closed.
    pub(crate) async fn serve(
        self,
        app: Router,
        stop: CancellationToken,
        drain: Duration,
        refusals: Refusals,
        expired: impl FnOnce(),
    ) {
        let (mut connections, mut turned_away) = (JoinSet::new(), TurnedAway::default());
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                accepted = self.socket.accept() => match accepted {
                    Ok((socket, peer)) => {
                        let terms = self.terms.load();
                        if connections.len() >= terms.limits.connections {
                            refusals.beyond_limit();
                            turned_away.add(socket, terms.tls.is_none(), connections.len());
                            continue;
                        }
                        turned_away.over();
                        let bounds = terms.bounds(peer.ip(), &refusals);
                        let (app, stop) = (app.clone(), stop.clone());
                        let serve = |socket| connection::serve(socket, bounds, app, stop);
                        self.place.serve(&mut connections, socket, serve);
                    }
                    Err(error) => pause_after(&error).await,
                },
                Some(_ended) = connections.join_next() => {}
            }
        }
        drop(self.socket);
        if tokio::time::timeout(drain, all_ended(&mut connections)).await.is_err() {
            tracing::warn!(?drain, "drain time is over, closing the connections that are left");
            expired();
            let _all_read = tokio::time::timeout(PARTING, all_ended(&mut connections)).await;
        }
        connections.shutdown().await;
    }
}

// === impl Terms ===

impl Terms {
    /// Of the data plane.
    pub(crate) fn of_data(config: &ServeConfig) -> Self {
        let Security { tls, limits, .. } = &config.security;
        Self { trusted: TrustedNetworks::new(&config.trusted), tls: tls.clone(), limits: *limits }
    }

    /// Of the admin plane, where no caller is trusted more than another.
    pub(crate) fn of_admin(config: &ServeConfig) -> Self {
        let Security { admin_tls, limits, .. } = &config.security;
        Self { trusted: TrustedNetworks::default(), tls: admin_tls.clone(), limits: *limits }
    }

    fn bounds(&self, peer: IpAddr, refusals: &Refusals) -> Bounds {
        Bounds {
            is_trusted: self.trusted.hold(peer),
            tls: self.tls.clone(),
            limits: self.limits,
            peer,
            refusals: refusals.clone(),
        }
    }
}

async fn all_ended(connections: &mut JoinSet<()>) {
    while connections.join_next().await.is_some() {}
}

async fn pause_after(error: &io::Error) {
    tracing::warn!(%error, "cannot accept a connection");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}
