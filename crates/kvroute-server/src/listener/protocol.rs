//! Which protocol a client speaks, found out before the first request.

use std::io;

use tokio_rustls::server::TlsStream;

use super::client::ClientStream;
use crate::tls::ServerTls;
use kvroute_engine::tls::ALPN_H2;

/// A connection that is open for requests.
pub(super) enum Opened {
    /// As it is; over HTTP/2 where the flag says so.
    Plain(ClientStream, bool),
    /// Inside of TLS; over HTTP/2 where the flag says so.
    Secured(Box<TlsStream<ClientStream>>, bool),
}

// === impl Opened ===

impl Opened {
    /// By TLS and what its handshake agrees on, where a plane has it; else by the client's first bytes.
    pub(super) async fn by(mut stream: ClientStream, tls: Option<&ServerTls>) -> io::Result<Self> {
        let Some(tls) = tls else {
            let is_http2 = stream.speaks_http2().await?;
            return Ok(Self::Plain(stream, is_http2));
        };
        let secured = tls.acceptor().accept(stream).await?;
        let is_http2 = secured.get_ref().1.alpn_protocol() == Some(ALPN_H2);
        Ok(Self::Secured(Box::new(secured), is_http2))
    }
}
