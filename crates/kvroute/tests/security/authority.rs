//! Certificates that are made for a test, and clients that show and verify them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kvroute_engine::tls::{ALPN_H2, ALPN_HTTP1, Identity, authorities, provider};
use kvroute_server::ServerTls;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Somebody who issues certificates.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: TempDir,
}

/// A certificate and its key, as files.
pub(crate) struct Pair {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(folder.path().join("ca.pem"), certificate.pem()).unwrap();
        Self { issuer: Issuer::new(params, key), folder }
    }

    pub(crate) fn ca(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// A certificate for `localhost`, in files of that name.
    pub(crate) fn issue(&self, name: &str) -> Pair {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let file = |extension: &str| self.folder.path().join(format!("{name}.{extension}"));
        let pair = Pair { certificate: file("pem"), key: file("key") };
        std::fs::write(&pair.certificate, certificate.pem()).unwrap();
        std::fs::write(&pair.key, key.serialize_pem()).unwrap();
        pair
    }
}

impl Pair {
    pub(crate) fn served(&self, client_ca: Option<&Path>) -> ServerTls {
        ServerTls::load(&self.certificate, &self.key, client_ca).unwrap()
    }

    pub(crate) fn identity(&self) -> Identity {
        Identity::load(&self.certificate, &self.key).unwrap()
    }

    pub(crate) fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(&self.certificate).unwrap()
    }
}

/// A connection by TLS of a client that trusts `ca`, shows `shown`, and speaks HTTP/2 or HTTP/1.1.
pub(crate) async fn connect(
    address: SocketAddr,
    ca: &Path,
    shown: Option<&Pair>,
    is_http2: bool,
) -> std::io::Result<TlsStream<TcpStream>> {
    let builder =
        ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(authorities(ca).unwrap());
    let mut config = match shown {
        None => builder.with_no_client_auth(),
        Some(pair) => {
            let key = PrivateKeyDer::from_pem_file(&pair.key).unwrap();
            builder.with_client_auth_cert(vec![pair.der()], key).unwrap()
        }
    };
    config.alpn_protocols = vec![if is_http2 { ALPN_H2 } else { ALPN_HTTP1 }.to_vec()];
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, TcpStream::connect(address).await?).await
}
