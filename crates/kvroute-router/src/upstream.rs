//! Requests to the workers of one pool, over connections that whoever waits for an answer drives himself.
//!
//! A client library gives each connection a task of its own, so that each piece of a stream is handed from one task to
//! another before it is written on. Here the connection is part of the answer's body: what its worker has sent is read,
//! looked at and written to the client in one go, and a request that is given up closes it at once.

mod body;
mod line;
mod lines;
mod shared;

#[cfg(test)]
mod tests;

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Request, Response, Uri, header};
use http_body_util::Full;
use hyper::client::conn::TrySendError;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::Connection as _;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kvroute_engine::{Connector, HttpClient, UpstreamTls};
use kvroute_openai::UpstreamBody;
use tokio::runtime::{self, Handle};
use tower_service::Service;

pub(crate) use self::body::AnswerBody;
use self::line::Line;
use self::lines::Lines;
use self::shared::SharedLine;

/// Below the 5 s after which uvicorn closes an idle connection: a socket that the engine is about to close must
/// not be taken for a request.
const IDLE: Duration = Duration::from_secs(4);

/// What connects to the workers of a pool; one a pool, because the connect timeout and the certificates are the pool's.
#[derive(Debug)]
pub(crate) struct Upstream {
    connector: Connector,
    lines: Arc<Lines>,
}

/// Where a line leads: from this thread to a host and port, by TLS or not.
#[derive(Clone, Debug)]
struct Target {
    /// The runtime that waits for the socket: one that another thread waits for would cost its answers a detour.
    runtime: runtime::Id,
    is_secure: bool,
    authority: Authority,
}

/// Why a worker did not answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unanswered {
    /// There is no connection to it.
    #[error("cannot connect")]
    Unreached(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The connection broke under the request.
    #[error("{source}")]
    Broke {
        source: hyper::Error,
        /// Whether its worker had closed the connection before the request came, as far as can be told.
        is_stale: bool,
    },
}

/// A connection that stands, and who else uses it.
#[derive(Debug)]
enum Way {
    Own(Box<Line>),
    Shared(SharedLine),
}

/// A request that got no answer; itself, if it was not sent.
#[derive(Debug)]
struct NoAnswer {
    error: Unanswered,
    unsent: Option<Request<Full<UpstreamBody>>>,
}

/// A client that keeps its connections to itself, for calls beside the inference path.
pub(crate) fn client(connect: Duration, tls: &UpstreamTls) -> HttpClient {
    Client::builder(TokioExecutor::new())
        .pool_idle_timeout(IDLE)
        .pool_timer(TokioTimer::new())
        .build(Connector::new(connect, tls))
}

// === impl Upstream ===

impl Upstream {
    /// Connections stand within `connect` or fail. Those to `https` addresses are made as `tls` says, and speak HTTP/2 where
    /// the worker offers it.
    pub(crate) fn new(connect: Duration, tls: &UpstreamTls) -> Self {
        Self { connector: Connector::new(connect, tls), lines: Arc::default() }
    }

    /// Sends a request to the absolute address that it names, and returns the head of the answer. What is dropped before the
    /// answer has ended closes its connection.
    pub(crate) async fn send(
        &self,
        mut request: Request<Full<UpstreamBody>>,
    ) -> Result<Response<AnswerBody>, Unanswered> {
        let address = request.uri().clone();
        let target = Target::of(&address)?;
        loop {
            let (way, is_new) = match self.lines.way(&target) {
                Some(way) => (way, false),
                // Boxed: it is rare, and large.
                None => (Box::pin(self.connect(&target, &address)).await?, true),
            };
            match self.over(way, &target, &address, request).await {
                Err(NoAnswer { unsent: Some(unsent), .. }) if !is_new => request = unsent,
                answered => return answered.map_err(|none| none.error),
            }
        }
    }

    async fn connect(&self, target: &Target, address: &Uri) -> Result<Way, Unanswered> {
        let stream = self.connector.clone().call(address.clone()).await.map_err(Unanswered::Unreached)?;
        if !stream.connected().is_negotiated_h2() {
            return Ok(Way::Own(Line::open(target.clone(), stream).await?));
        }
        let (line, connection) = SharedLine::open(stream).await?;
        self.lines.share(target, &line, connection);
        Ok(Way::Shared(line))
    }

    async fn over(
        &self,
        way: Way,
        target: &Target,
        address: &Uri,
        mut request: Request<Full<UpstreamBody>>,
    ) -> Result<Response<AnswerBody>, NoAnswer> {
        match way {
            Way::Own(mut line) => {
                target.address(&mut request);
                match line.exchange(request).await {
                    Ok(answer) => Ok(answer.map(|body| AnswerBody::own(body, line, Arc::clone(&self.lines)))),
                    Err(failure) => Err(self.broke(failure, line.has_answered(), target)),
                }
            }
            Way::Shared(mut line) => {
                *request.uri_mut() = address.clone();
                match line.exchange(request).await {
                    Ok(answer) => Ok(answer.map(AnswerBody::shared)),
                    Err(failure) => Err(self.broke(failure, line.has_answered(), target)),
                }
            }
        }
    }

    /// An engine closes connections that were idle for a while, and a request may be on its way when it does. Such a request
    /// was not read by anybody. It cannot be told from one that killed its engine, but by two signs: the connection had
    /// brought an answer before, and it ended without a byte. Where one is stale its likes are too. Over HTTP/2 an engine may
    /// say that it has not looked at a request.
    fn broke(
        &self,
        mut failure: TrySendError<Request<Full<UpstreamBody>>>,
        has_answered: bool,
        target: &Target,
    ) -> NoAnswer {
        let unsent = failure.take_message();
        let source = failure.into_error();
        let http2 = over_http2(&source);
        let is_of_one_stream = http2.is_some_and(h2::Error::is_reset);
        let is_stale =
            http2.is_some_and(is_unread) || (has_answered && !is_of_one_stream && !source.is_parse());
        if unsent.is_some() || (is_stale && !is_of_one_stream) {
            self.lines.forget(target);
        }
        NoAnswer { error: Unanswered::Broke { source, is_stale }, unsent }
    }
}

/// Whether the worker says of a request that it has not looked at it (RFC 9113, 8.7).
fn is_unread(error: &h2::Error) -> bool {
    let is_leaving = error.is_go_away() && error.is_remote() && error.reason() == Some(h2::Reason::NO_ERROR);
    is_leaving || error.reason() == Some(h2::Reason::REFUSED_STREAM)
}

fn over_http2(error: &hyper::Error) -> Option<&h2::Error> {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            return Some(error);
        }
        cause = error.source();
    }
    None
}

// === impl Target ===

impl Target {
    fn of(address: &Uri) -> Result<Self, Unanswered> {
        let authority = address.authority().cloned();
        let authority = authority.ok_or_else(|| Unanswered::Unreached("its address names no host".into()))?;
        let is_secure = address.scheme() == Some(&Scheme::HTTPS);
        Ok(Self { runtime: Handle::current().id(), is_secure, authority })
    }

    /// What tells it from others. An authority by itself is compared letter by letter, whatever their case.
    fn parts(&self) -> (runtime::Id, bool, &str) {
        (self.runtime, self.is_secure, self.authority.as_str())
    }

    /// Puts the host where a request of HTTP/1 has it.
    fn address(&self, request: &mut Request<Full<UpstreamBody>>) {
        if let Ok(host) = HeaderValue::from_str(self.authority.as_str()) {
            request.headers_mut().insert(header::HOST, host);
        }
        let path = request.uri().path_and_query().cloned();
        *request.uri_mut() = path.unwrap_or_else(|| PathAndQuery::from_static("/")).into();
    }
}

impl PartialEq for Target {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for Target {}

impl Hash for Target {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

// === impl Unanswered ===

impl Unanswered {
    /// Whether there was no connection: then the worker has not seen the request.
    pub(crate) const fn is_connect(&self) -> bool {
        matches!(self, Self::Unreached(_))
    }

    /// Whether the request may be sent once more to the same worker.
    pub(crate) const fn is_stale(&self) -> bool {
        matches!(self, Self::Broke { is_stale: true, .. })
    }
}

impl From<hyper::Error> for Unanswered {
    /// A connection that broke before it was used.
    fn from(source: hyper::Error) -> Self {
        Self::Broke { source, is_stale: false }
    }
}
