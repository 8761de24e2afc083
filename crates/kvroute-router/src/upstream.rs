//! The HTTP client towards the workers.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

/// A pooled client; one a pool, because the connect timeout is the pool's.
pub(crate) type UpstreamClient = Client<HttpConnector, Full<Bytes>>;

/// Below the 5 s after which uvicorn closes an idle connection: a socket that the engine is about to close must
/// not be taken for a request.
const IDLE: Duration = Duration::from_secs(4);

/// Builds a client whose connections stand within `connect` or fail.
pub(crate) fn client(connect: Duration) -> UpstreamClient {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(connect));
    Client::builder(TokioExecutor::new())
        .pool_idle_timeout(IDLE)
        .pool_timer(TokioTimer::new())
        .build(connector)
}
