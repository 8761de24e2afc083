//! TLS of a plane: what it shows its clients, and whether they have to show something themselves.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use kvroute_engine::TlsError;
use kvroute_engine::tls::{ALPN_H2, ALPN_HTTP1, Identity, authorities, provider};
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::SingleCertAndKey;
use tokio_rustls::TlsAcceptor;

/// What the handshakes of a plane are made with.
#[derive(Clone)]
pub struct ServerTls(Arc<ServerConfig>);

// === impl ServerTls ===

impl ServerTls {
    /// Shows the certificate of one file with the key of another, and where `client_ca` is there serves only clients with a
    /// certificate of one of its authorities.
    ///
    /// # Errors
    /// A file cannot be used, the certificate is not valid now, or it and the key are no pair.
    pub fn load(certificate: &Path, key: &Path, client_ca: Option<&Path>) -> Result<Self, TlsError> {
        let identity = Identity::load(certificate, key)?.certified()?;
        let builder = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Unsupported(error.to_string()))?;
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(file) => builder.with_client_cert_verifier(verifier(file)?),
        };
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(identity)));
        config.alpn_protocols = vec![ALPN_H2.to_vec(), ALPN_HTTP1.to_vec()];
        Ok(Self(Arc::new(config)))
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.0))
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").finish_non_exhaustive()
    }
}

fn verifier(client_ca: &Path) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let roots = Arc::new(authorities(client_ca)?);
    WebPkiClientVerifier::builder_with_provider(roots, provider())
        .build()
        .map_err(|error| TlsError::Unsupported(error.to_string()))
}
