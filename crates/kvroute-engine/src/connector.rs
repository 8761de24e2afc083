//! How a connection to a worker is made: plain, or by TLS with HTTP/2 where the worker offers it.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower_service::Service;

use crate::http::PATIENCE;
use crate::tls::{ALPN_H2, UpstreamTls};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Makes connections that stand within a time or fail: the handshake of TLS counts.
#[derive(Clone, Debug)]
pub struct Connector {
    tcp: HttpConnector,
    tls: UpstreamTls,
    patience: Duration,
}

/// A connection to a worker.
#[derive(Debug)]
pub enum WorkerStream {
    /// As it is.
    Plain(TokioIo<TcpStream>),
    /// Inside of TLS.
    Tls(Box<TokioIo<TlsStream<TcpStream>>>),
}

// === impl Connector ===

impl Connector {
    /// Connections that stand within `patience`; those to `https` addresses as `tls` says.
    pub fn new(patience: Duration, tls: &UpstreamTls) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(patience));
        Self { tcp, tls: tls.clone(), patience }
    }

    async fn secured(self, tcp: TcpStream, host: String, until: Instant) -> Result<WorkerStream, BoxError> {
        let config = self.tls.current()?;
        let name = ServerName::try_from(host)?;
        let handshake = TlsConnector::from(config).connect(name, tcp);
        let stream = timeout_at(until, handshake).await.map_err(|_elapsed| {
            io::Error::new(io::ErrorKind::TimedOut, "the TLS handshake did not end in time")
        })??;
        Ok(WorkerStream::Tls(Box::new(TokioIo::new(stream))))
    }
}

impl Default for Connector {
    /// For calls that may take their time, to workers that the system's authorities vouch for.
    fn default() -> Self {
        Self::new(PATIENCE, &UpstreamTls::default())
    }
}

impl Service<Uri> for Connector {
    type Response = WorkerStream;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<WorkerStream, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let until = Instant::now() + self.patience;
        let is_secure = uri.scheme_str() == Some("https");
        let host = is_secure.then(|| bare_host(&uri));
        let connecting = self.tcp.call(uri);
        let connector = self.clone();
        Box::pin(async move {
            let tcp = connecting.await?;
            match host {
                None => Ok(WorkerStream::Plain(tcp)),
                Some(host) => connector.secured(tcp.into_inner(), host, until).await,
            }
        })
    }
}

/// The host as certificates name it: an address of IPv6 without brackets.
fn bare_host(uri: &Uri) -> String {
    uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned()
}

// === impl WorkerStream ===

impl Connection for WorkerStream {
    fn connected(&self) -> Connected {
        match self {
            Self::Plain(tcp) => tcp.connected(),
            Self::Tls(stream) => {
                let (tcp, session) = stream.inner().get_ref();
                let connected = tcp.connected();
                if session.alpn_protocol() == Some(ALPN_H2) { connected.negotiated_h2() } else { connected }
            }
        }
    }
}

impl Read for WorkerStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl Write for WorkerStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }
}
