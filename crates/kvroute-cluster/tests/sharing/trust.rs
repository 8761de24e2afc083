//! Servers that ask who we are, and what of that may be seen.

use std::net::Ipv4Addr;

use kvroute_cluster::{Cluster, ClusterConfig, ClusterError};
use kvroute_core::SharingState;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::log;
use super::replica::{Replica, acquainted, domain, hashes, timing, until};
use super::server::{self, Server};

#[tokio::test]
async fn a_user_and_a_token_open_the_door_and_never_stand_in_a_log() {
    if !server::is_there() {
        return;
    }
    log::capture();
    let asks = [
        ("authorization { user: router, password: \"s3cr3t/\" }", "router:s3cr3t%2F", "router:s3cr3t-wrong"),
        ("authorization { token: s3cr3t }", "s3cr3t", "s3cr3t-wrong"),
    ];
    for (configuration, right, wrong) in asks {
        let server = Server::with(configuration).await;
        let url = |credentials: &str| format!("nats://{credentials}@{}", server.name());
        let (a, b) = (
            Replica::with(&url(right), timing(), domain(), &[]),
            Replica::with(&url(right), timing(), domain(), &[]),
        );
        acquainted(&[&a, &b]).await;
        a.learn(&hashes(1, 3));
        b.until_it_knows(&hashes(1, 3)).await;
        let stranger = Replica::with(&url(wrong), timing(), domain(), &[]);
        until("it is told", || log::warnings(&server.name()) > 0).await;
        assert_eq!(stranger.watch.state(), SharingState::Degraded);
        assert!(log::with("authorization violation").iter().any(log::Entry::is_warning));
        drop(stranger);
    }
    let leaks = log::with("s3cr3t");
    assert!(leaks.is_empty(), "{leaks:?}");
}

#[tokio::test]
async fn an_address_that_is_none_is_an_error_of_the_start() {
    let watch = || std::sync::Arc::<super::replica::Watch>::default();
    let problem = Cluster::start(ClusterConfig::at("nats://router:s3cr3t@host:port"), watch()).unwrap_err();
    assert!(matches!(problem, ClusterError::Address { place: 1, .. }), "{problem}");
    assert!(!format!("{problem} {problem:?}").contains("s3cr3t"));
    let problem = Cluster::start(ClusterConfig::at(""), watch()).unwrap_err();
    assert_eq!(problem, ClusterError::NoServer);
}

#[tokio::test]
async fn a_server_that_refuses_the_subject_is_named_once() {
    if !server::is_there() {
        return;
    }
    log::capture();
    let rights = "publish: { deny: [\"cache-history-v1\"] }, subscribe: { deny: [] }";
    let user = format!("{{ user: reader, password: pw, permissions: {{ {rights} }} }}");
    let server =
        Server::with(&format!("authorization {{ users: [ {user}, {{ user: router, password: pw }} ] }}"))
            .await;
    let url = |user: &str| format!("nats://{user}:pw@{}", server.name());
    let reader = Replica::with(&url("reader"), timing(), domain(), &[]);
    let writer = Replica::with(&url("router"), timing(), domain(), &[]);
    writer.until_on().await;
    reader.until_degraded().await;
    until("it is told", || !refusals().is_empty()).await;
    for seed in 0..20 {
        reader.learn(&hashes(seed, 3));
    }
    writer.learn(&hashes(99, 3));
    reader.until_it_knows(&hashes(99, 3)).await;
    assert_eq!(reader.watch.state(), SharingState::Degraded);
    assert_eq!(writer.watch.peers(), 0);
    assert_eq!(refusals().len(), 1, "{:?}", refusals());
}

fn refusals() -> Vec<log::Entry> {
    log::with("refuses").into_iter().filter(log::Entry::is_warning).collect()
}

/// As docs/replicas.md has them.
#[tokio::test]
async fn the_documented_permissions_are_enough() {
    if !server::is_there() {
        return;
    }
    let subjects = "[\"cache-history-v1\", \"cache-history-v1.snapshot.*\"]";
    let rights = format!("permissions: {{ publish: {subjects}, subscribe: {subjects} }}");
    let server =
        Server::with(&format!("authorization {{ users: [ {{ user: router, password: pw, {rights} }} ] }}"))
            .await;
    let url = format!("nats://router:pw@{}", server.name());
    let a = Replica::with(&url, timing(), domain(), &hashes(1, 3));
    a.until_on().await;
    let b = Replica::with(&url, timing(), domain(), &[]);
    acquainted(&[&a, &b]).await;
    b.until_it_knows(&hashes(1, 3)).await;
    a.learn(&hashes(2, 3));
    b.until_it_knows(&hashes(2, 3)).await;
    a.cluster.stop().await;
    b.until_peers(0).await;
    assert_eq!(b.watch.states(), [SharingState::Degraded, SharingState::On], "a refusal degrades");
}

#[tokio::test]
async fn a_server_that_wants_tls_is_named_and_tried_again() {
    log::capture();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut server = JoinSet::new();
    server.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            stream.write_all(b"INFO {\"server_id\":\"x\",\"tls_required\":true}\r\n").await.unwrap();
        }
    });
    let a = Replica::with(&format!("nats://{address}"), timing(), domain(), &[]);
    until("it is told again", || log::warnings(&address.to_string()) >= 2).await;
    assert!(log::with(&format!("server={address} ")).iter().any(|entry| entry.text.contains("TLS")));
    assert_eq!(a.watch.states(), [SharingState::Degraded]);
}
