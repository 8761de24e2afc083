//! Clients that send slowly, deeply or too much.

use std::time::Duration;

use kvroute_openai::Endpoint;
use kvroute_server::Server;
use kvroute_testkit::{Client, ClosedPort, server_config};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Deep enough to overflow the stack of whoever follows it by calling itself.
const DEEP: usize = 200_000;

#[tokio::test]
async fn a_body_that_does_not_come_in_time_is_refused_and_its_connection_closed() {
    let mut config = server_config(&[ClosedPort::take().url()], "kv");
    config.security.limits.body = Duration::from_millis(100);
    let server = Server::start(config).await.unwrap();
    for address in [server.data_address(), server.admin_address()] {
        let path = if address == server.data_address() { "/v1/completions" } else { "/api/route" };
        let mut client = TcpStream::connect(address).await.unwrap();
        let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{{");
        client.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
        assert!(
            answer.contains("\"code\":\"body_timeout\"") && answer.contains("server.limits.body"),
            "{answer}"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn no_body_is_nested_so_deeply_that_reading_it_ends_the_process() {
    let mut config = server_config(&[ClosedPort::take().url()], "kv");
    config.max_body = 16 << 20;
    let server = Server::start(config).await.unwrap();
    let (data, admin) = (server.data_address(), server.admin_address());
    let client = Client::default();
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = format!("{}1{}", open.repeat(DEEP), close.repeat(DEEP));
        for endpoint in Endpoint::ALL {
            for member in ["messages", "prompt", "input", "tools", "x"] {
                let body = format!("{{\"model\":\"sim\",\"{member}\":{deep}}}");
                let path = endpoint.path();
                let answer = client.post_bytes(&format!("http://{data}{path}"), body.clone()).await;
                assert!(matches!(answer.status.as_u16(), 400 | 503), "{path} {member}: {}", answer.text());
                let question = format!("{{\"endpoint\":\"{path}\",\"body\":{body}}}");
                let answer = client.post_bytes(&format!("http://{admin}/api/route"), question).await;
                assert!(matches!(answer.status.as_u16(), 400 | 503), "{path} {member}: {}", answer.text());
            }
        }
        let answer = client.post_bytes(&format!("http://{admin}/api/workers"), deep.clone()).await;
        assert_eq!(answer.status, 400);
    }
    server.stop().await;
}
