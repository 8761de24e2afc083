//! The admin plane: who may use it, and that nobody else may use any of it.

use std::time::Duration;

use kvroute_server::{AdminTokens, Server, StartError};
use kvroute_testkit::{Answer, Client, ClosedPort, server_config};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const TOKEN: &str = "the-first-token-of-all";

async fn started(change: impl FnOnce(&mut kvroute_server::ServeConfig)) -> Result<Server, StartError> {
    let mut config = server_config(&[ClosedPort::take().url()], "kv");
    config.drain = Duration::from_secs(1);
    change(&mut config);
    Server::start(config).await
}

fn tokens(text: &str) -> Option<AdminTokens> {
    Some(AdminTokens::parse(text).unwrap())
}

/// Every operation of the admin plane that the document names, as method and path.
async fn operations(client: &Client, admin: &str, headers: &[(&str, &str)]) -> Vec<(String, String)> {
    let document = client.get_with(&format!("{admin}/openapi.json"), headers).await.json();
    let mut operations = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            if operation["tags"].as_array().unwrap().contains(&json!("admin")) {
                operations.push((method.to_uppercase(), path.replace("{id}", "nobody")));
            }
        }
    }
    assert!(operations.len() > 10, "{operations:?}");
    operations
}

async fn asked(
    client: &Client,
    admin: &str,
    (method, path): &(String, String),
    headers: &[(&str, &str)],
) -> Answer {
    client.ask_as(method, &format!("{admin}{path}"), headers, "").await
}

#[tokio::test]
async fn an_admin_plane_that_others_can_reach_does_not_start_without_a_token() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    for address in ["0.0.0.0:0", "[::]:0"] {
        let open = started(|config| {
            config.listen = taken;
            config.admin_listen = address.parse().unwrap();
        });
        let error = open.await.unwrap_err();
        assert!(matches!(error, StartError::AdminOpen(_)), "{error}");
        assert!(error.to_string().contains("server.admin_token_file is not set"), "{error}");
    }
    TcpListener::bind(taken).await.expect("no port is bound before that is found");
    let guarded = started(|config| {
        config.admin_listen = "0.0.0.0:0".parse().unwrap();
        config.security.admin_tokens = tokens(TOKEN);
    });
    guarded.await.unwrap().stop().await;
}

#[tokio::test]
async fn with_a_token_nothing_but_health_is_told_without_it() {
    let server = started(|config| config.security.admin_tokens = tokens(TOKEN)).await.unwrap();
    let (client, admin) = (Client::default(), format!("http://{}", server.admin_address()));
    let bearer = format!("Bearer {TOKEN}");
    let with = [("authorization", bearer.as_str())];
    let served = operations(&client, &admin, &with).await;
    let unserved = [("GET", "/"), ("GET", "/api/none"), ("PUT", "/metrics")];
    let unserved = unserved.map(|(method, path)| (method.to_owned(), path.to_owned()));
    for operation in served.iter().chain(&unserved) {
        for headers in
            [&[][..], &[("authorization", "Bearer the-first-token-of-al")], &[("x-api-key", TOKEN)]]
        {
            let answer = asked(&client, &admin, operation, headers).await;
            if operation.1 == "/health" {
                assert_eq!(answer.status, 200, "{operation:?}");
                continue;
            }
            assert_eq!(answer.status, 401, "{operation:?}");
            assert_eq!(answer.error()["code"], "invalid_admin_token");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        }
        let answer = asked(&client, &admin, operation, &with).await;
        assert_ne!(answer.status, 401, "{operation:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn every_operation_that_the_document_names_is_served() {
    let server = started(|_| {}).await.unwrap();
    let (client, admin) = (Client::default(), format!("http://{}", server.admin_address()));
    for operation in operations(&client, &admin, &[]).await {
        let answer = asked(&client, &admin, &operation, &[]).await;
        let is_missing = answer.status.as_u16() >= 400
            && ["path_not_found", "method_not_allowed"].map(Value::from).contains(&answer.error()["code"]);
        assert!(!is_missing, "{operation:?}: {}", answer.text());
    }
    server.stop().await;
}

#[tokio::test]
async fn a_page_in_a_browser_of_this_machine_cannot_use_an_admin_plane_without_a_token() {
    let server = started(|_| {}).await.unwrap();
    let (client, admin) = (Client::default(), format!("http://{}", server.admin_address()));
    let worker = json!({"url": "http://169.254.169.254:80"}).to_string();
    for (headers, code) in [
        ([("host", "evil.example"), ("content-type", "text/plain")], "foreign_host"),
        ([("origin", "http://evil.example"), ("content-type", "text/plain")], "foreign_origin"),
        ([("origin", "null"), ("content-type", "text/plain")], "foreign_origin"),
        ([("sec-fetch-site", "cross-site"), ("content-type", "text/plain")], "foreign_origin"),
    ] {
        let answer = client.ask_as("POST", &format!("{admin}/api/workers"), &headers, &worker).await;
        assert_eq!((answer.status.as_u16(), &answer.error()["code"]), (403, &json!(code)), "{headers:?}");
    }
    let workers = client.get(&format!("{admin}/api/workers")).await;
    assert_eq!(workers.json().as_array().unwrap().len(), 1, "{}", workers.text());
    let own = [("origin", admin.as_str()), ("sec-fetch-site", "same-origin")];
    assert_eq!(client.get_with(&format!("{admin}/api/workers"), &own).await.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn tokens_that_are_read_anew_count_for_the_next_request() {
    let mut config = server_config(&[ClosedPort::take().url()], "kv");
    config.security.admin_tokens = tokens(TOKEN);
    let server = Server::start(config.clone()).await.unwrap();
    let (client, admin) = (Client::default(), format!("http://{}", server.admin_address()));
    let url = format!("{admin}/api/workers");
    let asked_with = |token: &str| {
        let (client, url, bearer) = (client.clone(), url.clone(), format!("Bearer {token}"));
        async move { client.get_with(&url, &[("authorization", &bearer)]).await.status.as_u16() }
    };
    assert_eq!(asked_with(TOKEN).await, 200);
    config.security.admin_tokens = tokens("another-token-instead");
    config.listen = "127.0.0.1:1".parse().unwrap();
    let kept = server.reload_handle().prepare(&config).unwrap();
    assert_eq!(asked_with(TOKEN).await, 200, "nothing changes before it is committed");
    assert_eq!(kept.commit().needs_restart, ["server.listen"], "what counts only after a restart is named");
    assert_eq!(asked_with(TOKEN).await, 401);
    assert_eq!(asked_with("another-token-instead").await, 200);
    config.security.admin_tokens = None;
    config.admin_listen = "0.0.0.0:9".parse().unwrap();
    let error = server.reload_handle().prepare(&config).unwrap_err();
    assert!(matches!(error, StartError::AdminOpen(_)), "{error}");
    assert_eq!(asked_with("another-token-instead").await, 200, "what cannot be used changes nothing");
    server.stop().await;
}

#[tokio::test]
async fn a_request_with_two_hosts_is_refused_with_a_token_and_without_one() {
    for has_token in [false, true] {
        let server = started(|config| config.security.admin_tokens = tokens(TOKEN).filter(|_| has_token))
            .await
            .unwrap();
        for path in ["/health", "/api/workers"] {
            let mut socket = TcpStream::connect(server.admin_address()).await.unwrap();
            let request = format!(
                "GET {path} HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n\
                 connection: close\r\n\r\n"
            );
            socket.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            socket.read_to_string(&mut answer).await.unwrap();
            assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("\"several_hosts\""), "{answer}");
        }
        server.stop().await;
    }
}
