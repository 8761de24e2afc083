//! One client's connection, from the accepted socket until it is closed.

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use http::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::client::ClientStream;
use super::held::HeldBody;
use crate::trust::TrustedPeer;

/// Time a client has to send its request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Serves one connection until the client closes it. After `stop`, until its running request has been answered.
///
/// A client that leaves before it has its answer ends the connection, and with it the request.
pub(super) async fn serve(socket: TcpStream, is_trusted: bool, app: Router, stop: CancellationToken) {
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%error, "cannot switch off Nagle's algorithm on an accepted connection");
    }
    let stream = ClientStream::new(socket);
    let peer = stream.peer();
    let running = TaskTracker::new();
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), counted(app, is_trusted, running.clone()));
    let mut connection = pin!(connection);
    let mut left = pin!(peer.left(|| !running.is_empty()));
    // The connection comes first: what it has done when it waits is whole, so that nothing is judged in between.
    tokio::select! {
        biased;
        ended = &mut connection => return report(ended),
        () = &mut left => return tracing::debug!("a client left before it had its answer"),
        () = stop.cancelled() => {}
    }
    if running.is_empty() && !peer.is_write_blocked() {
        return;
    }
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        biased;
        ended = &mut connection => report(ended),
        () = &mut left => tracing::debug!("a client left before it had its answer"),
    }
}

/// The app as a service whose requests say whether their peer is trusted, and are in `running` for as long as they are
/// not answered.
fn counted(
    app: Router,
    is_trusted: bool,
    running: TaskTracker,
) -> impl Service<http::Request<Incoming>, Response = Response<HeldBody>, Error = Infallible, Future: Future + Send>
{
    let app = TowerToHyperService::new(app);
    service_fn(move |mut request: http::Request<Incoming>| {
        if is_trusted {
            request.extensions_mut().insert(TrustedPeer);
        }
        let token = running.token();
        let answer = app.call(request);
        async move { Ok(answer.await?.map(|body| HeldBody::new(body, token))) }
    })
}

fn report(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a client's connection ended early");
    }
}
