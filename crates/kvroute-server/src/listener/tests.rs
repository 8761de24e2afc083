use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::routing::get;
use futures_util::{FutureExt, stream};
use kvroute_metrics::{Metrics, MetricsOptions, Plane, RefusedConnection};
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
    metrics: Metrics,
    stop: CancellationToken,
    served: JoinSet<()>,
}

impl Running {
    async fn start(app: Router) -> Self {
        Self::trusting(&[], app).await
    }

    async fn trusting(networks: &[&str], app: Router) -> Self {
        let networks: Vec<_> = networks.iter().map(|network| network.parse().unwrap()).collect();
        Self::under(Terms { trusted: TrustedNetworks::new(&networks), ..terms(Limits::default()) }, app).await
    }

    async fn under(terms: Terms, app: Router) -> Self {
        let terms = Arc::new(ArcSwap::from_pointee(terms));
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), "test", &terms).await.unwrap();
        let (address, stop) = (listener.address(), CancellationToken::new());
        let mut served = JoinSet::new();
        let metrics = Metrics::new(&MetricsOptions::default()).unwrap();
        let refusals = Refusals::new(Plane::Data, metrics.connections().clone());
        served.spawn(listener.serve(app, stop.clone(), HOUR, refusals, || ()));
        Self { address, metrics, stop, served }
    }

    async fn sent(&self, request: &str) -> TcpStream {
        let mut client = TcpStream::connect(self.address).await.unwrap();
        client.write_all(request.as_bytes()).await.unwrap();
        client
    }

    /// Refused connections of this plane, by why.
    fn refused(&self, reason: RefusedConnection) -> usize {
        let (text, reason) = (self.metrics.render(), reason.as_str());
        let series = format!("kvroute_refused_connections_total{{plane=\"data\",reason=\"{reason}\"}} ");
        let value = text.lines().find_map(|line| line.strip_prefix(&series));
        value.unwrap_or_else(|| panic!("{series} in {text}")).parse().unwrap()
    }

    async fn stopped(mut self) {
        self.stop.cancel();
        self.served.join_next().await.unwrap().unwrap();
    }
}

fn terms(limits: Limits) -> Terms {
    Terms { trusted: TrustedNetworks::default(), tls: None, limits }
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
    assert!(stopped_at.elapsed() < Duration::from_secs(1), "{:?}", stopped_at.elapsed());
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

/// What a client that does not read on gets until its connection is closed.
async fn until_closed(mut client: TcpStream) -> String {
    let mut text = Vec::new();
    let _closed_or_reset = client.read_to_end(&mut text).await;
    String::from_utf8(text).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_client_without_a_whole_head_is_closed_when_its_time_is_over() {
    let limits = Limits { head: Duration::from_secs(3), keep_alive: HOUR, stall: HOUR, ..Limits::default() };
    let listener = Running::under(terms(limits), Router::new().route("/", get(async || "well"))).await;
    for opening in ["", "P", "PRI * HTTP/2.0\r\n", "GET / HTTP/1.1\r\nhost: a\r\nx: "] {
        let sent_at = Instant::now();
        let client = listener.sent(opening).await;
        assert_eq!(until_closed(client).await, "", "{opening:?}");
        assert_eq!(sent_at.elapsed().as_secs(), 3, "{opening:?}");
    }
    let request = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    let mut client = listener.sent(request).await;
    settle().await;
    client.write_all(b"GET / HT").await.unwrap();
    let answer = until_closed(client).await;
    assert_eq!(answer.matches("200 OK").count(), 1, "the next head has a time, too: {answer}");
    listener.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_asks_for_nothing_more_is_closed_later_than_one_that_is_slow() {
    let (head, keep_alive) = (Duration::from_secs(3), Duration::from_secs(60));
    let limits = Limits { head, keep_alive, stall: HOUR, ..Limits::default() };
    let listener = Running::under(terms(limits), Router::new().route("/", get(async || "well"))).await;
    let client = listener.sent("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    let sent_at = Instant::now();
    assert!(until_closed(client).await.ends_with("well"));
    assert_eq!(sent_at.elapsed().as_secs(), 60);
    listener.stopped().await;
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_cut_and_its_request_with_it() {
    let limits = Limits { stall: Duration::from_millis(100), ..Limits::default() };
    let ended = Arc::new(Semaphore::new(0));
    let dropped = Arc::clone(&ended);
    let endless = move || {
        let dropped = Dropped(Arc::clone(&dropped));
        async move {
            let pieces = stream::repeat_with(move || {
                let _held = &dropped;
                io::Result::Ok(Bytes::from_static(&[b'x'; 65_536]))
            });
            Body::from_stream(pieces)
        }
    };
    let listener = Running::under(terms(limits), Router::new().route("/", get(endless))).await;
    let _client = listener.sent("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    ended.acquire().await.unwrap().forget();
    listener.stopped().await;
}

#[tokio::test]
async fn one_connection_more_than_may_be_is_told_so_and_the_next_one_is_served_when_there_is_room() {
    let (begun, ended) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let limits = Limits { connections: 1, ..Limits::default() };
    let app = endless(&begun, &ended).route("/well", get(async || "well"));
    let listener = Running::under(terms(limits), app).await;
    let first = listener.sent("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    begun.acquire().await.unwrap().forget();
    let request = "GET /well HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let refusal = until_closed(listener.sent(request).await).await;
    let (head, body) = refusal.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
    assert!(head.contains("retry-after: 1") && head.contains(&format!("content-length: {}", body.len())));
    assert!(body.contains("\"code\":\"overloaded\""), "{body}");
    assert_eq!(listener.refused(RefusedConnection::Limit), 1);
    drop(first);
    ended.acquire().await.unwrap().forget();
    loop {
        let answer = until_closed(listener.sent(request).await).await;
        if answer.ends_with("well") {
            break;
        }
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    }
    listener.stopped().await;
}

#[tokio::test]
async fn a_head_that_is_too_large_or_has_too_many_headers_is_refused() {
    let listener = Running::start(Router::new().route("/", get(async || "well"))).await;
    for headers in [format!("x: {}\r\n", "y".repeat(70_000)), "x: y\r\n".repeat(101)] {
        let client = listener.sent(&format!("GET / HTTP/1.1\r\nhost: a\r\n{headers}\r\n")).await;
        let answer = until_closed(client).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
    assert_eq!(listener.refused(RefusedConnection::HeadTooLarge), 2);
    listener.stopped().await;
}

#[tokio::test]
async fn a_head_that_cannot_be_read_is_refused_and_counted_and_a_client_that_leaves_within_one_is_not() {
    let listener = Running::start(Router::new().route("/", get(async || "well"))).await;
    let request = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    for (unreadable, before) in
        [("no head at all\r\n\r\n", ""), ("GET / HTTP/1.1\r\na b: c\r\n\r\n", request)]
    {
        let answer = until_closed(listener.sent(&format!("{before}{unreadable}")).await).await;
        let refusal = answer
            .strip_prefix("HTTP/1.1 200 OK")
            .map_or(&answer[..], |rest| rest.split_once("well").unwrap().1);
        assert!(refusal.starts_with("HTTP/1.1 400 "), "{answer}");
    }
    let mut left = listener.sent("GET / HTTP/1.1\r\nhos").await;
    left.shutdown().await.unwrap();
    assert_eq!(until_closed(left).await, "");
    let answer =
        until_closed(listener.sent("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await).await;
    assert!(answer.ends_with("well"), "{answer}");
    let counted = RefusedConnection::ALL.map(|reason| listener.refused(reason));
    assert_eq!(counted, [0, 0, 2], "by reason: limit, too large, malformed");
    listener.stopped().await;
}

#[tokio::test]
async fn a_client_that_is_answered_before_it_has_sent_everything_reads_its_answer() {
    let app = Router::new().fallback(|| async { http::StatusCode::PAYLOAD_TOO_LARGE });
    let running = Running::start(app).await;
    let mut client =
        running.sent(&format!("POST / HTTP/1.1\r\nhost: router\r\ncontent-length: {LARGE}\r\n\r\n")).await;
    client.write_all(&vec![b'x'; LARGE]).await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("\r\nconnection: close\r\n"), "{answer}");
    drop(client);
    running.stopped().await;
}

#[tokio::test]
async fn a_request_that_was_on_its_way_when_the_router_stopped_found_its_connection_closed() {
    let running = Running::start(Router::new().fallback(|| async { "hello" })).await;
    let request = "GET / HTTP/1.1\r\nhost: router\r\n\r\n";
    let mut client = running.sent(request).await;
    let mut answer = vec![0; 1024];
    let read = client.read(&mut answer).await.unwrap();
    assert!(answer[..read].ends_with(b"hello"));
    running.stop.cancel();
    tokio::task::yield_now().await;
    client.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("\r\nconnection: close\r\n") && answer.ends_with("hello"), "{answer}");
    running.stopped().await;
}
