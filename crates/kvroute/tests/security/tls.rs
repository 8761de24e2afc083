//! TLS of the planes: what clients are shown, what they have to show, and that both may change.

use std::net::SocketAddr;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kvroute_server::{Server, ServerTls};
use kvroute_testkit::{Authority, ClosedPort, Pair, connect_tls, server_config};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

async fn started(change: impl FnOnce(&mut kvroute_server::ServeConfig)) -> Server {
    let mut config = server_config(&[ClosedPort::take().url()], "kv");
    change(&mut config);
    Server::start(config).await.unwrap()
}

/// What `/live` or `/health` answers over a connection that is made so.
async fn alive(address: SocketAddr, authority: &Authority, shown: Option<&Pair>) -> std::io::Result<String> {
    let mut stream = connect_tls(address, &authority.ca(), shown, false).await?;
    stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

fn is_well(answer: &std::io::Result<String>) -> bool {
    answer.as_ref().is_ok_and(|text| text.starts_with("HTTP/1.1 200 OK"))
}

#[tokio::test]
async fn both_planes_speak_tls_where_they_are_told_to_and_plain_words_get_nothing() {
    let authority = Authority::new("both");
    let [data, admin] = ["data", "admin"].map(|name| authority.issue(name));
    let server = started(|config| {
        config.security.tls = Some(data.served(None));
        config.security.admin_tls = Some(admin.served(None));
    });
    let server = server.await;
    for address in [server.data_address(), server.admin_address()] {
        let answer = alive(address, &authority, None).await;
        assert!(is_well(&answer), "{answer:?}");
        let mut plain = TcpStream::connect(address).await.unwrap();
        plain.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        let _closed_or_reset = plain.read_to_end(&mut answer).await;
        assert!(!answer.starts_with(b"HTTP/"), "{answer:?}");
        assert!(connect_tls(address, &Authority::new("other").ca(), None, false).await.is_err());
    }
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_offers_http2_gets_it() {
    let authority = Authority::new("alpn");
    let pair = authority.issue("data");
    let server = started(|config| config.security.tls = Some(pair.served(None))).await;
    let stream = connect_tls(server.data_address(), &authority.ca(), None, true).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut requests, connection) = handshake.await.unwrap();
    let mut running = JoinSet::new();
    running.spawn(async move { drop(connection.await) });
    let request = Request::get("https://localhost/live").body(Full::<Bytes>::default()).unwrap();
    let answer = requests.send_request(request).await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.version()), (200, http::Version::HTTP_2));
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), r#"{"status":"live"}"#);
    server.stop().await;
}

#[tokio::test]
async fn where_clients_have_to_show_a_certificate_only_those_of_the_authority_are_served() {
    let (authority, other) = (Authority::new("clients"), Authority::new("strangers"));
    let pair = authority.issue("data");
    let server = started(|config| config.security.tls = Some(pair.served(Some(&authority.ca())))).await;
    let address = server.data_address();
    let (known, stranger) = (authority.issue("known"), other.issue("stranger"));
    assert!(is_well(&alive(address, &authority, Some(&known)).await));
    for shown in [None, Some(&stranger)] {
        let answer = alive(address, &authority, shown).await;
        assert!(answer.as_ref().is_err() || answer.as_ref().is_ok_and(String::is_empty), "{answer:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_certificate_that_is_read_anew_is_shown_to_the_next_client_and_cuts_nobody() {
    let authority = Authority::new("renewed");
    let (old, new) = (authority.issue("old"), authority.issue("new"));
    let mut config = server_config(&[ClosedPort::take().url()], "kv");
    config.security.tls = Some(old.served(None));
    let server = Server::start(config.clone()).await.unwrap();
    let address = server.data_address();
    let mut before = connect_tls(address, &authority.ca(), None, false).await.unwrap();
    assert_eq!(before.get_ref().1.peer_certificates().unwrap()[0], old.der());
    config.security.tls = Some(new.served(None));
    drop(server.reload_handle().prepare(&config).unwrap().commit());
    let after = connect_tls(address, &authority.ca(), None, false).await.unwrap();
    assert_eq!(after.get_ref().1.peer_certificates().unwrap()[0], new.der());
    before.write_all(b"GET /live HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    before.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    server.stop().await;
}

#[test]
fn a_pair_that_is_none_is_found_before_anything_starts() {
    let authority = Authority::new("mixed");
    let (one, other) = (authority.issue("one"), authority.issue("other"));
    let error = ServerTls::load(&one.certificate, &other.key, None).unwrap_err().to_string();
    assert!(error.contains("other.key") && error.contains("does not belong to"), "{error}");
    let error = ServerTls::load(&one.certificate, &one.key, Some(&one.key)).unwrap_err().to_string();
    assert!(error.contains("one.key") && error.contains("holds no certificate"), "{error}");
}
