use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::*;

/// What a worker does with a request.
#[derive(Clone, Copy)]
enum Reply {
    Whole,
    /// An answer, behind which it closes the connection without having said so.
    Last,
    /// An answer without an end.
    Endless,
    /// It closes the connection without a word.
    None,
}

/// A worker that replies by the numbers of the connection and of the request on it, from 0.
struct Worker {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    /// A message for each connection that ended.
    ended: mpsc::UnboundedReceiver<()>,
    _tasks: JoinSet<()>,
}

impl Worker {
    async fn start(reply: fn(usize, usize) -> Reply) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, connections) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
        let (sender, ended) = mpsc::unbounded_channel();
        let counted = Arc::clone(&connections);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut talks = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                let (number, sender) = (counted.fetch_add(1, Ordering::Relaxed), sender.clone());
                talks.spawn(async move {
                    talk(socket, |request| reply(number, request)).await;
                    let _is_awaited = sender.send(());
                });
            }
        });
        Self { address, connections, ended, _tasks: tasks }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    async fn asked(&self, upstream: &Upstream) -> Result<Response<AnswerBody>, Unanswered> {
        let request = Request::builder().uri(format!("http://{}/v1/models", self.address));
        upstream.send(request.body(Full::default()).unwrap()).await
    }

    /// An answer that is read to its end.
    async fn answers(&self, upstream: &Upstream) {
        let answer = self.asked(upstream).await.unwrap();
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "hello");
    }
}

async fn talk(mut socket: TcpStream, reply: impl Fn(usize) -> Reply) {
    let mut asked = Vec::new();
    for request in 0.. {
        while !asked.ends_with(b"\r\n\r\n") {
            if matches!(socket.read_buf(&mut asked).await, Ok(0) | Err(_)) {
                return;
            }
        }
        let head = String::from_utf8(std::mem::take(&mut asked)).unwrap();
        assert!(head.starts_with("GET /v1/models HTTP/1.1\r\n"), "{head}");
        assert!(head.contains(&format!("host: {}", socket.local_addr().unwrap())), "{head}");
        let (answer, is_last): (&[u8], bool) = match reply(request) {
            Reply::Whole => (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", false),
            Reply::Last => (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", true),
            Reply::Endless => (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n", false),
            Reply::None => (b"", true),
        };
        socket.write_all(answer).await.unwrap();
        if is_last {
            return;
        }
    }
}

fn upstream() -> Upstream {
    Upstream::new(Duration::from_secs(5), &UpstreamTls::default())
}

#[tokio::test]
async fn a_line_is_used_again_once_its_answer_was_read_to_its_end() {
    let (worker, upstream) = (Worker::start(|_, _| Reply::Whole).await, upstream());
    for _ in 0..3 {
        worker.answers(&upstream).await;
    }
    assert_eq!(worker.connections(), 1);
    let (unread, other) = (worker.asked(&upstream).await.unwrap(), worker.asked(&upstream).await.unwrap());
    drop((unread, other));
    worker.answers(&upstream).await;
    assert_eq!(
        worker.connections(),
        3,
        "one for the other request at the same time, one after both were given up"
    );
}

#[tokio::test]
async fn an_answer_that_is_given_up_closes_its_line() {
    let (mut worker, upstream) = (Worker::start(|_, _| Reply::Endless).await, upstream());
    let mut answer = worker.asked(&upstream).await.unwrap().into_body();
    assert_eq!(answer.frame().await.unwrap().unwrap().into_data().unwrap(), "hello");
    drop(answer);
    worker.ended.recv().await.unwrap();
}

#[tokio::test]
async fn a_line_that_its_worker_closed_is_not_used() {
    let (mut worker, upstream) = (Worker::start(|_, _| Reply::Last).await, upstream());
    for request in 1..4 {
        worker.answers(&upstream).await;
        worker.ended.recv().await.unwrap();
        assert_eq!(worker.connections(), request);
    }
}

#[tokio::test]
async fn a_request_is_stale_on_a_line_that_had_answered_and_ends_so_are_the_lines_like_it() {
    let reply = |_, request| if request == 0 { Reply::Whole } else { Reply::None };
    let (worker, upstream) = (Worker::start(reply).await, upstream());
    let both = tokio::join!(worker.asked(&upstream), worker.asked(&upstream));
    for answer in [both.0, both.1] {
        answer.unwrap().into_body().collect().await.unwrap();
    }
    let unanswered = worker.asked(&upstream).await.unwrap_err();
    assert!(unanswered.is_stale() && !unanswered.is_connect(), "{unanswered:?}");
    worker.answers(&upstream).await;
    assert_eq!(worker.connections(), 3);
}

#[tokio::test]
async fn a_first_request_that_gets_no_answer_may_have_killed_its_worker() {
    let (worker, upstream) = (Worker::start(|_, _| Reply::None).await, upstream());
    let unanswered = worker.asked(&upstream).await.unwrap_err();
    assert!(!unanswered.is_stale() && !unanswered.is_connect(), "{unanswered:?}");
}

#[tokio::test(start_paused = true)]
async fn a_line_that_nobody_takes_is_closed() {
    let (mut worker, upstream) = (Worker::start(|_, _| Reply::Whole).await, upstream());
    worker.answers(&upstream).await;
    worker.ended.recv().await.unwrap();
    worker.answers(&upstream).await;
    worker.ended.recv().await.unwrap();
    assert_eq!(worker.connections(), 2, "whoever sweeps had gone home in between");
}

#[tokio::test]
async fn a_line_stays_with_the_thread_that_waits_for_it() {
    let (worker, upstream) = (Arc::new(Worker::start(|_, _| Reply::Whole).await), Arc::new(upstream()));
    worker.answers(&upstream).await;
    let elsewhere = {
        let (worker, upstream) = (Arc::clone(&worker), Arc::clone(&upstream));
        tokio::task::spawn_blocking(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(worker.answers(&upstream));
        })
    };
    elsewhere.await.unwrap();
    worker.answers(&upstream).await;
    assert_eq!(worker.connections(), 2);
}
