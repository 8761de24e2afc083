//! Certificates that are made for a test, and both ends of connections that show and verify them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kvroute_engine::tls::{ALPN_H2, ALPN_HTTP1, Identity, authorities, provider};
use kvroute_server::ServerTls;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, ServerConfig};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Somebody who issues certificates.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: TempDir,
}

/// A certificate and its key, as files.
#[derive(Debug)]
pub struct Pair {
    /// The certificate's file.
    pub certificate: PathBuf,
    /// Its key's file.
    pub key: PathBuf,
}

// === impl Authority ===

impl Authority {
    /// An authority of this name that nobody knows yet.
    pub fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let mut params = CertificateParams::new(Vec::new()).expect("no name is a wrong one");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = generated();
        let certificate = params.self_signed(&key).expect("a certificate signs itself");
        write(&folder.path().join("ca.pem"), &certificate.pem());
        Self { issuer: Issuer::new(params, key), folder }
    }

    /// The file by which it is trusted.
    pub fn ca(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// A certificate for `localhost`, in files of that name.
    pub fn issue(&self, name: &str) -> Pair {
        let mut params = CertificateParams::new(["localhost".to_owned()]).expect("localhost is a name");
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = generated();
        let certificate = params.signed_by(&key, &self.issuer).expect("an authority signs");
        let file = |extension: &str| self.folder.path().join(format!("{name}.{extension}"));
        let pair = Pair { certificate: file("pem"), key: file("key") };
        write(&pair.certificate, &certificate.pem());
        write(&pair.key, &key.serialize_pem());
        pair
    }
}

fn generated() -> KeyPair {
    KeyPair::generate().expect("a key can be made")
}

fn write(file: &Path, text: &str) {
    std::fs::write(file, text).expect("a test may write into its own folder");
}

// === impl Pair ===

impl Pair {
    /// For a plane that asks its clients for certificates by `client_ca`, if there is one.
    pub fn served(&self, client_ca: Option<&Path>) -> ServerTls {
        ServerTls::load(&self.certificate, &self.key, client_ca).expect("a pair is fit for a server")
    }

    /// For whoever shows it to a server.
    pub fn identity(&self) -> Identity {
        Identity::load(&self.certificate, &self.key).expect("a pair is fit for a client")
    }

    /// The certificate's bytes.
    pub fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(&self.certificate).expect("an own certificate can be read")
    }

    /// For a server that offers these protocols (none: whatever comes) and asks for certificates by `client_ca`.
    pub fn acceptor(&self, client_ca: Option<&Authority>, protocols: &[&[u8]]) -> TlsAcceptor {
        let builder = ServerConfig::builder_with_provider(provider());
        let builder = builder.with_safe_default_protocol_versions().expect("the provider knows TLS");
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let roots = Arc::new(authorities(&authority.ca()).expect("an own authority can be read"));
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider()).build();
                builder.with_client_cert_verifier(verifier.expect("an authority verifies"))
            }
        };
        let certified = self.identity().certified().expect("a key belongs to its certificate");
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Arc::new(config).into()
    }
}

/// A connection by TLS of a client that trusts `ca`, shows `shown`, and speaks HTTP/2 or HTTP/1.1.
///
/// # Errors
/// The server refuses it, or is not who it should be.
pub async fn connect_tls(
    address: SocketAddr,
    ca: &Path,
    shown: Option<&Pair>,
    is_http2: bool,
) -> std::io::Result<TlsStream<TcpStream>> {
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let builder = builder.expect("the provider knows TLS");
    let builder = builder.with_root_certificates(authorities(ca).expect("an own authority can be read"));
    let mut config = match shown {
        None => builder.with_no_client_auth(),
        Some(pair) => {
            let key = PrivateKeyDer::from_pem_file(&pair.key).expect("an own key can be read");
            builder.with_client_auth_cert(vec![pair.der()], key).expect("a key belongs to its certificate")
        }
    };
    config.alpn_protocols = vec![if is_http2 { ALPN_H2 } else { ALPN_HTTP1 }.to_vec()];
    let name = ServerName::try_from("localhost").expect("localhost is a name");
    TlsConnector::from(Arc::new(config)).connect(name, TcpStream::connect(address).await?).await
}
