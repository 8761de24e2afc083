//! The HTTP client towards the workers.

use std::time::Duration;

use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kvroute_engine::{Connector, HttpClient, UpstreamTls};

/// A pooled client; one a pool, because the connect timeout and the certificates are the pool's.
pub(crate) type UpstreamClient = HttpClient;

/// Below the 5 s after which uvicorn closes an idle connection: a socket that the engine is about to close must
/// not be taken for a request.
const IDLE: Duration = Duration::from_secs(4);

/// Builds a client whose connections stand within `connect` or fail. Those to `https` addresses are made as `tls` says,
/// and speak HTTP/2 where the worker offers it.
pub(crate) fn client(connect: Duration, tls: &UpstreamTls) -> UpstreamClient {
    Client::builder(TokioExecutor::new())
        .pool_idle_timeout(IDLE)
        .pool_timer(TokioTimer::new())
        .build(Connector::new(connect, tls))
}
