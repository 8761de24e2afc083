//! One direction of a connection ends and the other one goes on.

use kvroute_testkit::Fault;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::site::{COMPLETIONS, Question, Site};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_closes_its_half_has_given_no_answer() {
    let site = Site::start(|_| {}).await;
    site.spoiled().set(Fault::HalfClose);
    for question in Question::all() {
        assert_eq!(site.ask(question.of_the_spoiled()).await.error(), (502, "upstream_broke"));
        assert!(site.ask(question).await.is_whole(), "another worker has it");
        assert!(site.ask(question).await.is_whole(), "another worker has it");
    }
    site.spoiled().set(Fault::None);
    site.is_sound().await;
    site.stop().await;
}

/// Some programs say that they have nothing more to ask, and read on. That looks like a client that leaves, and may be noticed
/// before its request is read. They are served, or turned away; they are never half served, and nothing stays behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_closes_its_half_leaves_nothing_behind() {
    let site = Site::start(|_| {}).await;
    let body = r#"{"model": "sim", "prompt": "hello", "max_tokens": 3}"#;
    for _ in 0..4 {
        let mut client = TcpStream::connect(site.fleet.server.data_address()).await.unwrap();
        let length = body.len();
        let request = format!(
            "POST {COMPLETIONS} HTTP/1.1\r\nhost: router\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        client.write_all(request.as_bytes()).await.unwrap();
        client.shutdown().await.unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        let answer = String::from_utf8(answer).unwrap();
        if let Some((_, body)) = answer.split_once("\r\n\r\n") {
            serde_json::from_str::<serde_json::Value>(body).unwrap();
        }
    }
    site.fleet.at_rest().await;
    for question in Question::all() {
        assert!(site.ask(question).await.is_whole());
    }
    site.stop().await;
}
