use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::routing::get;
use futures_util::{FutureExt, stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::trust::TrustedPeer;

const HOUR: Duration = Duration::from_hours(1);

/// Larger than the buffers of both sockets together.
const LARGE: usize = 32 << 20;

/// A listener at work.
struct Running {
    address: SocketAddr,
    stop: CancellationToken,
    served: JoinSet<()>,
}

impl Running {
    async fn start(app: Router) -> Self {
        Self::trusting(&[], app).await
    }

    async fn trusting(networks: &[&str], app: Router) -> Self {
        let networks: Vec<_> = networks.iter().map(|network| network.parse().unwrap()).collect();
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), "test").await.unwrap();
        let listener = listener.trusting(TrustedNetworks::new(&networks));
        let (address, stop) = (listener.address(), CancellationToken::new());
        let mut served = JoinSet::new();
        served.spawn(listener.serve(app, stop.clone(), HOUR, || ()));
        Self { address, stop, served }
    }

    async fn sent(&self, request: &str) -> TcpStream {
        let mut client = TcpStream::connect(self.address).await.unwrap();
        client.write_all(request.as_bytes()).await.unwrap();
        client
    }

    async fn stopped(mut self) {
        self.stop.cancel();
        self.served.join_next().await.unwrap().unwrap();
    }
}

/// Time for both ends to do all that they can do: every pause hands over to whatever is ready.
async fn settle() {
    for _ in 0..20 {
        sleep(Duration::from_millis(1)).await;
    }
}

/// Says when it is dropped.
struct Dropped(Arc<Semaphore>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.add_permits(1);
    }
}

/// An app that answers nothing at `/`, a head without a body at `/head`, and says when it begins and is dropped.
fn endless(begun: &Arc<Semaphore>, ended: &Arc<Semaphore>) -> Router {
    let (begun, ended) = (Arc::clone(begun), Arc::clone(ended));
    let never = move || {
        let dropped = Dropped(Arc::clone(&ended));
        begun.add_permits(1);
        async move {
            std::future::pending::<()>().await;
            drop(dropped);
            Bytes::new()
        }
    };
    let head = never.clone();
    let stream = || async move { Body::from_stream(stream::once(head().map(io::Result::Ok))) };
    Router::new().route("/", get(never)).route("/head", get(stream))
}

#[tokio::test(start_paused = true)]
async fn a_request_ends_within_a_second_when_its_client_has_left() {
    let (begun, ended) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let listener = Running::start(endless(&begun, &ended)).await;
    let pipelined = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    for (path, behind) in
        ["/", "/head"].iter().flat_map(|path| ["", "\r\n", pipelined].map(|text| (path, text)))
    {
        let client = listener.sent(&format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n{behind}")).await;
        begun.acquire().await.unwrap().forget();
        settle().await;
        assert_eq!(ended.available_permits(), 0, "{path} {behind:?}");
        drop(client);
        timeout(Duration::from_secs(1), ended.acquire()).await.expect(behind).unwrap().forget();
    }
    listener.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn half_a_request_head_does_not_hold_the_drain() {
    let listener = Running::start(Router::new()).await;
    let mut client = listener.sent("GET / HTTP/1.1\r\nhos").await;
    settle().await;
    let stopped_at = Instant::now();
    listener.stopped().await;
    assert_eq!(stopped_at.elapsed(), Duration::ZERO);
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn an_answer_that_waits_for_its_reader_is_not_cut() {
    let large = || async { Bytes::from(vec![b'x'; LARGE]) };
    for behind in ["", "\r\n"] {
        let listener = Running::start(Router::new().route("/", get(large))).await;
        let mut client = listener.sent(&format!("GET / HTTP/1.1\r\nhost: a\r\n\r\n{behind}")).await;
        settle().await;
        let mut answer = Vec::new();
        let read = async { client.read_to_end(&mut answer).await.unwrap() };
        let ((), length) = tokio::join!(listener.stopped(), read);
        assert!(length > LARGE, "{length} bytes before {behind:?}");
    }
}

#[tokio::test]
async fn every_request_of_a_trusted_peer_says_so_and_no_other_whatever_its_headers_claim() {
    let who = |request: Request| async move {
        let is_trusted = request.extensions().get::<TrustedPeer>().is_some();
        if is_trusted { "trusted" } else { "nobody" }
    };
    let first = "GET / HTTP/1.1\r\nhost: a\r\nx-forwarded-for: 10.0.0.1\r\nforwarded: for=10.0.0.1\r\n\r\n";
    let last = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    for (networks, expected) in
        [(&["127.0.0.0/8"][..], "trusted"), (&["10.0.0.0/8"], "nobody"), (&[], "nobody")]
    {
        let listener = Running::trusting(networks, Router::new().route("/", get(who))).await;
        let mut client = listener.sent(&format!("{first}{last}")).await;
        let mut answers = String::new();
        client.read_to_string(&mut answers).await.unwrap();
        assert_eq!(answers.matches("200 OK").count(), 2, "{answers}");
        assert_eq!(answers.matches(expected).count(), 2, "{networks:?}: {answers}");
        listener.stopped().await;
    }
}
