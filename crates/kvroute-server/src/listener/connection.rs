//! One client's connection, from the accepted socket until it is closed.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use http::header::CONNECTION;
use http::{HeaderValue, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::PARTING;
use super::client::{ClientStream, Peer};
use super::executor::Streams;
use super::held::{HeldBody, Running};
use super::pace::{Overdue, Pace};
use super::protocol::Opened;
use super::refusals::Refusals;
use super::unread::RequestBody;
use crate::limits::Limits;
use crate::tls::ServerTls;
use crate::trust::TrustedPeer;

/// Largest head of a request, all of its headers together; also what is kept of an answer that its client does not read.
const LARGEST_HEAD: usize = 64 << 10;

/// How long an idle connection stays open once the router stops: longer than a request of a client that has many is on its
/// way.
const LAST_CALL: Duration = Duration::from_millis(100);

/// How often a client that says nothing over HTTP/2 is asked whether it is still there, and how long it may think.
const PING: Duration = Duration::from_secs(30);

/// What holds for one connection.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    pub(super) is_trusted: bool,
    pub(super) tls: Option<ServerTls>,
    pub(super) limits: Limits,
    pub(super) peer: IpAddr,
    pub(super) refusals: Refusals,
}

/// A connection of either protocol.
trait Serving: Future<Output = hyper::Result<()>> {
    /// Takes no new requests, and ends once those that run are answered.
    fn wind_down(self: Pin<&mut Self>);
}

/// Serves one connection until the client closes it. After `stop`, until its running requests have been answered.
///
/// A client that leaves before it has its answer ends the connection, and with it the request.
pub(super) async fn serve(socket: TcpStream, bounds: Bounds, app: Router, stop: CancellationToken) {
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%error, "cannot switch off Nagle's algorithm on an accepted connection");
    }
    let stream = ClientStream::new(socket);
    let peer = stream.peer();
    let opening = timeout(bounds.limits.head, Opened::by(stream, bounds.tls.as_ref()));
    let opened = match stop.run_until_cancelled(opening).await {
        None => return,
        Some(Err(_elapsed)) => {
            return tracing::debug!("a client did not open its connection within server.limits.head");
        }
        Some(Ok(Err(error))) => return tracing::debug!(%error, "a client's connection could not be opened"),
        Some(Ok(Ok(opened))) => opened,
    };
    let app = counted(app, bounds.is_trusted, Arc::clone(&peer), stop.clone());
    let attended = Attended { peer, bounds, stop };
    match opened {
        Opened::Plain(stream, false) => attended.serve_http1(stream, app).await,
        Opened::Plain(stream, true) => attended.serve_http2(stream, app).await,
        Opened::Secured(stream, false) => attended.serve_http1(*stream, app).await,
        Opened::Secured(stream, true) => attended.serve_http2(*stream, app).await,
    }
}

/// What is looked at beside the connection itself.
struct Attended {
    peer: Arc<Peer>,
    bounds: Bounds,
    stop: CancellationToken,
}

// === impl Attended ===

impl Attended {
    async fn serve_http1<S>(&self, stream: S, app: impl App)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let connection = http1::Builder::new()
            .header_read_timeout(None)
            .max_buf_size(LARGEST_HEAD)
            .serve_connection(TokioIo::new(stream), app);
        self.attend(pin!(connection)).await;
        self.peer.drop_unread().await;
    }

    async fn serve_http2<S>(&self, stream: S, app: impl App)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.peer.pace.share();
        let (streams, _ended_with_the_connection) = Streams::new(self.bounds.limits.stall);
        let connection = http2::Builder::new(streams)
            .timer(TokioTimer::new())
            .keep_alive_interval(PING)
            .keep_alive_timeout(PING)
            .max_concurrent_streams(self.bounds.limits.streams)
            .max_header_list_size(u32::try_from(LARGEST_HEAD).unwrap_or(u32::MAX))
            .max_send_buf_size(LARGEST_HEAD)
            .serve_connection(TokioIo::new(stream), app);
        self.attend(pin!(connection)).await;
    }

    /// The connection comes first: what it has done when it waits is whole, so that nothing is judged in between.
    async fn attend(&self, mut connection: Pin<&mut impl Serving>) {
        let pace = &self.peer.pace;
        let mut left = pin!(self.peer.left(|| pace.is_busy()));
        let mut overdue = pin!(pace.overdue(&self.bounds.limits));
        tokio::select! {
            biased;
            ended = &mut connection => return self.report(ended),
            () = &mut left => return tracing::debug!("a client left before it had its answer"),
            overdue = &mut overdue => match overdue {
                Overdue::Quiet => {}
                Overdue::Head | Overdue::Reader => return cut(overdue),
            },
            () = self.stop.cancelled() => {}
        }
        let is_used = pace.is_shared() || pace.is_busy() || pace.is_blocked();
        if is_used || self.asks_once_more(connection.as_mut()).await {
            self.part(connection).await;
        }
    }

    /// A client whose connection is idle may be about to ask, and would find it closed. So it has a moment for one more
    /// request, whose answer tells it to go. Returns whether one runs.
    async fn asks_once_more(&self, mut connection: Pin<&mut impl Serving>) -> bool {
        let asks = poll_fn(|context| match connection.as_mut().poll(context) {
            Poll::Ready(_ended) => Poll::Ready(false),
            Poll::Pending if self.peer.pace.is_busy() => Poll::Ready(true),
            Poll::Pending => Poll::Pending,
        });
        timeout(LAST_CALL, asks).await.unwrap_or(false)
    }

    /// Takes leave of a client: no new requests, and the end once those that run are answered. A client that shares the
    /// connection is told first, and may have sent one more before it heard of it.
    async fn part(&self, mut connection: Pin<&mut impl Serving>) {
        let pace = &self.peer.pace;
        let limits = Limits { keep_alive: Duration::MAX, ..self.bounds.limits };
        connection.as_mut().wind_down();
        tokio::select! {
            biased;
            ended = &mut connection => self.report(ended),
            () = self.peer.left(|| pace.is_busy()) => tracing::debug!("a client left before it had its answer"),
            overdue = pace.overdue(&limits) => cut(overdue),
            () = nothing_left_to_do(pace) => {}
        }
    }

    fn report(&self, ended: hyper::Result<()>) {
        if let Err(error) = ended {
            self.bounds.refusals.ended(self.bounds.peer, &error);
        }
    }
}

/// Nothing has run for a moment, and everything has been read.
async fn nothing_left_to_do(pace: &Pace) {
    loop {
        sleep(PARTING).await;
        if !pace.is_busy() && !pace.is_blocked() {
            return;
        }
    }
}

/// The app as a service.
trait App:
    Service<http::Request<Incoming>, Response = Response<HeldBody>, Error = Infallible, Future: Send + 'static>
{
}

impl<S> App for S where
    S: Service<
            http::Request<Incoming>,
            Response = Response<HeldBody>,
            Error = Infallible,
            Future: Send + 'static,
        >
{
}

impl<S: AsyncRead + AsyncWrite + Unpin, A: App> Serving for http1::Connection<TokioIo<S>, A> {
    fn wind_down(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin, A: App> Serving for http2::Connection<TokioIo<S>, A, Streams> {
    fn wind_down(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

/// Requests say whether their peer is trusted, and run for as long as they are not answered.
fn counted(app: Router, is_trusted: bool, peer: Arc<Peer>, stop: CancellationToken) -> impl App {
    let app = TowerToHyperService::new(app);
    service_fn(move |mut request: http::Request<Incoming>| {
        if is_trusted {
            request.extensions_mut().insert(TrustedPeer);
        }
        let running = Running::new(Arc::clone(&peer));
        let answer = app.call(request.map(|body| RequestBody::new(body, Arc::clone(&peer))));
        let (peer, stop) = (Arc::clone(&peer), stop.clone());
        async move {
            let mut answer = answer.await?;
            let is_last = peer.unread.is_set() || stop.is_cancelled();
            if is_last && !peer.pace.is_shared() {
                answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok(answer.map(|body| HeldBody::new(body, running)))
        }
    })
}

fn cut(overdue: Overdue) {
    tracing::debug!(reason = overdue.reason(), "a client's connection is cut");
}
