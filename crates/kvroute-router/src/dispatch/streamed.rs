//! The body of a worker's stream, whose first event may have been looked at before anybody is answered.
//!
//! An engine that sends the head of a stream before it looks at the request can tell of a failure only in the stream. As
//! long as the client has nothing, such a failure is like any other: another worker may be asked.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout_at};

use super::exchange::Limits;
use super::failure::Failure;
use super::told_error::{first_data, is_own_fault};
use crate::error::error_text;
use crate::upstream::AnswerBody;

/// So much of a stream is kept to look at its first event; a longer event is none of an error.
const LONGEST_LOOK: usize = 64 << 10;

/// No more is joined, so that a worker that is faster than its client fills no memory.
const LARGEST_PIECE: usize = 64 << 10;

/// Holds what most engines write at once.
const ROOM: usize = 4 << 10;

/// What a worker streams.
#[derive(Debug)]
pub(crate) struct Streamed {
    /// What was read already.
    begun: Option<Bytes>,
    /// `None` once it has ended.
    rest: Option<AnswerBody>,
    /// How it broke, behind a piece that is handed on before.
    failed: Option<hyper::Error>,
    began_with_fault: bool,
}

// === impl Streamed ===

impl Streamed {
    /// A body of which nothing was read.
    pub(super) const fn unread(body: AnswerBody) -> Self {
        Self { begun: None, rest: Some(body), failed: None, began_with_fault: false }
    }

    /// The same once its first event has come.
    pub(super) async fn begun(body: AnswerBody, limits: &Limits) -> Result<Self, Failure> {
        let (limit, until) = limits.first_piece(Instant::now());
        let (mut seen, mut rest) = (BytesMut::new(), Some(body));
        while let Some(body) =
            rest.as_mut().filter(|_| seen.len() < LONGEST_LOOK && first_data(&seen).is_none())
        {
            match timeout_at(limits.deadline.min(until), body.frame()).await {
                Ok(Some(Ok(frame))) => seen.extend_from_slice(frame.data_ref().map_or(&[], |data| &data[..])),
                Ok(Some(Err(error))) => return Err(Failure::Broke(error_text(&error))),
                Ok(None) => rest = None,
                Err(_elapsed) if until < limits.deadline => return Err(limit),
                Err(_elapsed) => return Err(limits.total()),
            }
        }
        let began_with_fault = first_data(&seen).is_some_and(is_own_fault);
        Ok(Self { begun: Some(seen.freeze()), rest, failed: None, began_with_fault })
    }

    /// Whether its first event was looked at and is an error of the worker's own.
    pub(super) const fn began_with_fault(&self) -> bool {
        self.began_with_fault
    }

    /// The next piece: all that is there. An engine that writes several events at once writes each as a chunk of its own,
    /// and to hand them on one by one takes longer than all the rest.
    pub(crate) fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, hyper::Error>>> {
        if let Some(begun) = self.begun.take().filter(|begun| !begun.is_empty()) {
            return Poll::Ready(Some(Ok(begun)));
        }
        Poll::Ready(match ready!(self.poll_rest(context)) {
            Some(Ok(first)) => Some(Ok(self.joined(first, context))),
            end => end,
        })
    }

    /// This piece and those behind it that are there.
    fn joined(&mut self, first: Bytes, context: &mut Context<'_>) -> Bytes {
        let mut several = BytesMut::new();
        while first.len().max(several.len()) < LARGEST_PIECE {
            match self.poll_rest(context) {
                Poll::Ready(Some(Ok(next))) => {
                    if several.is_empty() {
                        several.reserve(ROOM.max(first.len() + next.len()));
                        several.extend_from_slice(&first);
                    }
                    several.extend_from_slice(&next);
                }
                Poll::Ready(Some(Err(error))) => {
                    self.failed = Some(error);
                    break;
                }
                Poll::Ready(None) | Poll::Pending => break,
            }
        }
        if several.is_empty() { first } else { several.freeze() }
    }

    /// The next data as its worker wrote it.
    fn poll_rest(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, hyper::Error>>> {
        if let Some(error) = self.failed.take() {
            return Poll::Ready(Some(Err(error)));
        }
        while let Some(rest) = &mut self.rest {
            match ready!(Pin::new(rest).poll_frame(context)) {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Poll::Ready(Some(Ok(data)));
                    }
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => self.rest = None,
            }
        }
        Poll::Ready(None)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use http::Request;
    use http_body_util::Full;
    use kvroute_engine::UpstreamTls;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::JoinSet;

    use super::*;
    use crate::upstream::Upstream;

    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

    /// A stream whose worker has sent its head and nothing else, and the worker's end of it.
    async fn begun() -> (Streamed, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/", listener.local_addr().unwrap());
        let upstream = Upstream::new(Duration::from_secs(5), &UpstreamTls::default());
        let worker = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            socket.read_buf(&mut Vec::new()).await.unwrap();
            socket.write_all(HEAD).await.unwrap();
            socket
        };
        let request = Request::builder().uri(address).body(Full::default()).unwrap();
        let (answer, socket) = tokio::join!(upstream.send(request), worker);
        (Streamed::unread(answer.unwrap().into_body()), socket)
    }

    async fn next(stream: &mut Streamed) -> Option<Result<Bytes, hyper::Error>> {
        poll_fn(|context| stream.poll_piece(context)).await
    }

    #[tokio::test]
    async fn what_came_at_once_is_one_piece_and_what_comes_later_another() {
        let (mut stream, mut socket) = begun().await;
        socket.write_all(b"5\r\nfirst\r\n7\r\n, other\r\n6\r\n, last\r\n").await.unwrap();
        assert_eq!(next(&mut stream).await.unwrap().unwrap(), "first, other, last");
        socket.write_all(b"5\r\nlater\r\n0\r\n\r\n").await.unwrap();
        assert_eq!(next(&mut stream).await.unwrap().unwrap(), "later");
        assert!(next(&mut stream).await.is_none());
    }

    #[tokio::test]
    async fn what_came_before_a_stream_broke_is_handed_on_before_the_error() {
        let (mut stream, mut socket) = begun().await;
        socket.write_all(b"5\r\nfirst\r\n6\r\n, last\r\nno length\r\n").await.unwrap();
        assert_eq!(next(&mut stream).await.unwrap().unwrap(), "first, last");
        assert!(next(&mut stream).await.unwrap().is_err());
        assert!(next(&mut stream).await.is_none());
    }

    #[tokio::test]
    async fn a_worker_that_is_faster_than_the_client_is_read_piece_by_piece() {
        let (mut stream, mut socket) = begun().await;
        let chunk = [b"4000\r\n".as_slice(), &[b'x'; 0x4000], b"\r\n"].concat();
        let (sent, chunks) = (64, [chunk.repeat(64), b"0\r\n\r\n".to_vec()].concat());
        let mut writing = JoinSet::new();
        writing.spawn(async move { socket.write_all(&chunks).await.unwrap() });
        let mut length = 0;
        while let Some(piece) = next(&mut stream).await {
            let piece = piece.unwrap();
            assert!(piece.len() < 2 * LARGEST_PIECE, "{}", piece.len());
            length += piece.len();
        }
        writing.join_all().await;
        assert_eq!(length, sent * 0x4000);
    }
}
