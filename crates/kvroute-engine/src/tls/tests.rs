use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Version};
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use rustls::sign::SingleCertAndKey;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::connector::Connector;

const PATIENCE: Duration = Duration::from_secs(30);

/// Somebody who issues certificates, and the folder where they are.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: TempDir,
}

/// The two files of one end.
struct Pair {
    certificate: PathBuf,
    key: PathBuf,
}

impl Authority {
    fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(folder.path().join("ca.pem"), certificate.pem()).unwrap();
        Self { issuer: Issuer::new(params, key), folder }
    }

    fn ca(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    fn issue(&self, name: &str) -> Pair {
        self.issue_as(name, |_| {})
    }

    fn issue_as(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Pair {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let stem = name.replace([':', '.'], "-");
        let pair = Pair {
            certificate: self.folder.path().join(format!("{stem}.pem")),
            key: self.folder.path().join(format!("{stem}.key")),
        };
        std::fs::write(&pair.certificate, certificate.pem()).unwrap();
        std::fs::write(&pair.key, key.serialize_pem()).unwrap();
        pair
    }
}

impl Pair {
    fn load(&self) -> Result<Identity, TlsError> {
        Identity::load(&self.certificate, &self.key)
    }
}

/// A server that answers each request with the protocol that it came by.
struct Worker {
    address: SocketAddr,
    _served: JoinSet<()>,
}

impl Worker {
    async fn start(pair: &Pair, client_ca: Option<PathBuf>, alpn: &[&[u8]]) -> Self {
        let builder =
            ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().unwrap();
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(file) => {
                let roots = Arc::new(authorities(&file).unwrap());
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider()).build();
                builder.with_client_cert_verifier(verifier.unwrap())
            }
        };
        let certified = pair.load().unwrap().certified().unwrap();
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut served = JoinSet::new();
        served.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                connections.spawn(serve(acceptor.clone(), socket));
            }
        });
        Self { address, _served: served }
    }

    /// What a client that is made as `tls` says is answered.
    async fn asked_by(&self, tls: &UpstreamTls, host: &str) -> Result<String, String> {
        let client: Client<_, Full<Bytes>> =
            Client::builder(TokioExecutor::new()).build(Connector::new(PATIENCE, tls));
        let url = format!("https://{host}:{}/", self.address.port());
        let request = Request::get(url).body(Full::default()).unwrap();
        let answer = client.request(request).await.map_err(|error| format!("{error:?}"))?;
        let body = answer.into_body().collect().await.map_err(|error| format!("{error:?}"))?;
        Ok(String::from_utf8(body.to_bytes().to_vec()).unwrap())
    }
}

async fn serve(acceptor: TlsAcceptor, socket: tokio::net::TcpStream) {
    let Ok(stream) = acceptor.accept(socket).await else { return };
    let answer = service_fn(|request: Request<hyper::body::Incoming>| async move {
        let version = if request.version() == Version::HTTP_2 { "HTTP/2" } else { "HTTP/1.1" };
        Ok::<_, std::convert::Infallible>(http::Response::new(Full::new(Bytes::from(version))))
    });
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(ALPN_H2);
    let stream = TokioIo::new(stream);
    if is_http2 {
        let served = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        let _ended = served.serve_connection(stream, answer).await;
    } else {
        let _ended = hyper::server::conn::http1::Builder::new().serve_connection(stream, answer).await;
    }
}

#[tokio::test]
async fn a_worker_is_asked_by_the_protocol_that_it_offers() {
    let authority = Authority::new("alpn");
    let tls = UpstreamTls::load(Some(&authority.ca()), None).unwrap();
    let pair = authority.issue("localhost");
    for (offered, expected) in
        [(&[ALPN_H2, ALPN_HTTP1][..], "HTTP/2"), (&[ALPN_HTTP1], "HTTP/1.1"), (&[], "HTTP/1.1")]
    {
        let worker = Worker::start(&pair, None, offered).await;
        assert_eq!(worker.asked_by(&tls, "localhost").await.as_deref(), Ok(expected), "{offered:?}");
    }
}

#[tokio::test]
async fn a_worker_is_believed_by_its_authority_and_its_name() {
    let (authority, other) = (Authority::new("ours"), Authority::new("theirs"));
    let tls = UpstreamTls::load(Some(&authority.ca()), None).unwrap();
    let worker = Worker::start(&authority.issue("localhost"), None, &[]).await;
    assert_eq!(worker.asked_by(&tls, "localhost").await.as_deref(), Ok("HTTP/1.1"));
    let wrong_name = worker.asked_by(&tls, "127.0.0.1").await.unwrap_err();
    assert!(wrong_name.contains("NotValidForName"), "{wrong_name}");
    let by_address = Worker::start(&authority.issue("127.0.0.1"), None, &[]).await;
    assert_eq!(by_address.asked_by(&tls, "127.0.0.1").await.as_deref(), Ok("HTTP/1.1"));

    let tls = UpstreamTls::load(Some(&other.ca()), None).unwrap();
    let stranger = worker.asked_by(&tls, "localhost").await.unwrap_err();
    assert!(stranger.contains("UnknownIssuer"), "{stranger}");
    tls.replace_by(&UpstreamTls::load(Some(&authority.ca()), None).unwrap());
    assert_eq!(worker.asked_by(&tls, "localhost").await.as_deref(), Ok("HTTP/1.1"), "made anew");
}

#[tokio::test]
async fn a_worker_that_asks_for_a_certificate_is_shown_the_pools() {
    let authority = Authority::new("mutual");
    let worker = Worker::start(&authority.issue("localhost"), Some(authority.ca()), &[ALPN_H2]).await;
    let anonymous = UpstreamTls::load(Some(&authority.ca()), None).unwrap();
    assert!(worker.asked_by(&anonymous, "localhost").await.is_err());
    let identity = authority.issue("router").load().unwrap();
    let known = UpstreamTls::load(Some(&authority.ca()), Some(identity)).unwrap();
    assert_eq!(worker.asked_by(&known, "localhost").await.as_deref(), Ok("HTTP/2"));
}

#[tokio::test]
async fn a_handshake_that_does_not_go_on_counts_as_a_connection_that_does_not_stand() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let authority = Authority::new("silent");
    let tls = UpstreamTls::load(Some(&authority.ca()), None).unwrap();
    let client: Client<_, Full<Bytes>> =
        Client::builder(TokioExecutor::new()).build(Connector::new(Duration::from_millis(50), &tls));
    let url = format!("https://localhost:{}/", listener.local_addr().unwrap().port());
    let error = client.request(Request::get(url).body(Full::default()).unwrap()).await.unwrap_err();
    assert!(error.is_connect(), "{error:?}");
    let mut cause = std::error::Error::source(&error);
    let mut kinds = Vec::new();
    while let Some(error) = cause {
        kinds.extend(error.downcast_ref::<std::io::Error>().map(std::io::Error::kind));
        cause = error.source();
    }
    assert_eq!(kinds, [std::io::ErrorKind::TimedOut]);
}

#[test]
fn files_that_cannot_be_used_are_named_with_what_is_wrong() {
    let authority = Authority::new("files");
    let (one, other) = (authority.issue("one"), authority.issue("other"));
    let old = authority.issue_as("old", |params| {
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 1, 1);
    });
    let early = authority.issue_as("early", |params| {
        params.not_before = date_time_ymd(2901, 1, 1);
        params.not_after = date_time_ymd(2902, 1, 1);
    });
    let garbage = authority.folder.path().join("garbage.pem");
    std::fs::write(&garbage, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    let empty = authority.folder.path().join("empty.pem");
    std::fs::write(&empty, "nothing\n").unwrap();
    let missing = authority.folder.path().join("missing.pem");
    for (certificate, key, file, problem) in [
        (&missing, &one.key, "missing.pem", "cannot be read"),
        (&one.certificate, &missing, "missing.pem", "cannot be read"),
        (&empty, &one.key, "empty.pem", "holds no certificate"),
        (&one.certificate, &empty, "empty.pem", "holds no private key"),
        (&one.key, &one.key, "one.key", "holds no certificate"),
        (&garbage, &one.key, "garbage.pem", "cannot be used"),
        (&one.certificate, &other.key, "other.key", "does not belong to"),
        (&old.certificate, &old.key, "old.pem", "is not valid now"),
        (&early.certificate, &early.key, "early.pem", "is not valid now"),
    ] {
        let error = Identity::load(certificate, key).unwrap_err().to_string();
        assert!(error.contains(file) && error.contains(problem), "{file}, {problem}: {error}");
    }
    assert!(one.load().is_ok());
    let all = authority.folder.path().join("all.pem");
    let text = [&one.key, &one.certificate].map(|file| std::fs::read_to_string(file).unwrap()).concat();
    std::fs::write(&all, text).unwrap();
    assert!(Identity::load(&all, &all).is_ok(), "one file may hold both");
    assert!(!format!("{:?}", one.load().unwrap()).contains("PrivateKey"));
}
