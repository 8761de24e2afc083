//! TLS towards workers, and the files that both ends of a TLS connection are made of.
//!
//! Whatever can be wrong with a file is found when it is read and names the file, not at the first handshake. There is no
//! switch that leaves a worker unverified: whoever could stand between router and worker reads every prompt, and a
//! certificate of one's own is one setting (`ca`) away.

mod error;
mod identity;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use rustls::client::WantsClientCert;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};

pub use error::TlsError;
pub use identity::Identity;

/// What HTTP/2 is called in a handshake.
pub const ALPN_H2: &[u8] = b"h2";

/// What HTTP/1.1 is called in a handshake.
pub const ALPN_HTTP1: &[u8] = b"http/1.1";

/// How the workers of a pool are verified and what the router shows them. Clones share what it is replaced by.
#[derive(Clone, Debug, Default)]
pub struct UpstreamTls {
    /// Empty until somebody needs the certificates of the system: most fleets speak plain HTTP.
    config: Arc<ArcSwapOption<ClientConfig>>,
}

// === impl UpstreamTls ===

impl UpstreamTls {
    /// Trusts the authorities of the file `ca` and no others; those of the system where there is none. Shows `identity` to
    /// workers that ask for a certificate.
    ///
    /// # Errors
    /// A file cannot be used.
    pub fn load(ca: Option<&Path>, identity: Option<Identity>) -> Result<Self, TlsError> {
        let roots = match ca {
            Some(file) => Arc::new(authorities(file)?),
            None => system_authorities()?,
        };
        let config = client_config(roots, identity)?;
        Ok(Self { config: Arc::new(ArcSwapOption::from_pointee(config)) })
    }

    /// Handshakes from here on are made as `other` says; connections that stand go on.
    pub fn replace_by(&self, other: &Self) {
        self.config.store(other.config.load_full());
    }

    /// What the next handshake is made with.
    ///
    /// # Errors
    /// The system's certificates are needed and there are none.
    pub(crate) fn current(&self) -> Result<Arc<ClientConfig>, TlsError> {
        if let Some(config) = self.config.load_full() {
            return Ok(config);
        }
        let config = Arc::new(client_config(system_authorities()?, None)?);
        self.config.compare_and_swap(&None::<Arc<ClientConfig>>, Some(Arc::clone(&config)));
        Ok(config)
    }
}

/// The cryptography of both ends.
pub fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    Arc::clone(PROVIDER.get_or_init(|| Arc::new(rustls::crypto::ring::default_provider())))
}

/// The authorities of a PEM file, at least one.
///
/// # Errors
/// It cannot be read, or holds no certificate that could be an authority.
pub fn authorities(file: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|error| TlsError::unusable(file, &error))?;
    }
    Ok(roots)
}

/// The certificates of a PEM file, at least one.
fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read(file)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|error| TlsError::unusable(file, &error))?;
    if found.is_empty() { Err(TlsError::NoCertificate(file.to_owned())) } else { Ok(found) }
}

fn read(file: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(file).map_err(|source| TlsError::Unreadable { file: file.to_owned(), source })
}

fn client_config(roots: Arc<RootCertStore>, identity: Option<Identity>) -> Result<ClientConfig, TlsError> {
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| TlsError::Unsupported(error.to_string()))?;
    let mut config = with_identity(builder.with_root_certificates(roots), identity)?;
    config.alpn_protocols = vec![ALPN_H2.to_vec(), ALPN_HTTP1.to_vec()];
    Ok(config)
}

fn with_identity(
    builder: ConfigBuilder<ClientConfig, WantsClientCert>,
    identity: Option<Identity>,
) -> Result<ClientConfig, TlsError> {
    let Some(Identity { chain, key }) = identity else { return Ok(builder.with_no_client_auth()) };
    builder.with_client_auth_cert(chain, key).map_err(|error| TlsError::Unsupported(error.to_string()))
}

/// The system's authorities, read once. Some that cannot be read are no trouble where others can.
fn system_authorities() -> Result<Arc<RootCertStore>, TlsError> {
    static SYSTEM: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    if let Some(roots) = SYSTEM.get() {
        return Ok(Arc::clone(roots));
    }
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let reason = found.errors.first().map_or_else(|| "none were found".to_owned(), ToString::to_string);
        return Err(TlsError::NoSystemAuthorities(reason));
    }
    Ok(Arc::clone(SYSTEM.get_or_init(|| Arc::new(roots))))
}
