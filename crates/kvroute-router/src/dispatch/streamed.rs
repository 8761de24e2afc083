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
    /// How it ended, behind a piece that is handed on before.
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
        let Some(first) = self.begun.take().filter(|begun| !begun.is_empty()) else {
            return match ready!(self.poll_rest(context)) {
                Some(Ok(first)) => Poll::Ready(Some(Ok(self.joined(first, context)))),
                end => Poll::Ready(end),
            };
        };
        Poll::Ready(Some(Ok(first)))
    }

    /// This piece and those behind it that are there.
    fn joined(&mut self, first: Bytes, context: &mut Context<'_>) -> Bytes {
        let mut several = BytesMut::new();
        while first.len() + several.len() < LARGEST_PIECE {
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
