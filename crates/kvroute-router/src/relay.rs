//! The response on its way to the client.
//!
//! A relay is a body and not a task: hyper polls it as fast as the client reads, which is the back-pressure, and
//! drops it when the client is gone, which closes the upstream connection and with it the engine's work.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use kvroute_funnel::Close;
use kvroute_openai::{Observation, StreamScanner, UsageChunk};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::attempt::Attempt;
use crate::config::Timeouts;
use crate::error::{ErrorKind, RouteError};

/// What the client reads.
#[derive(Debug)]
pub struct RelayBody(Source);

#[derive(Debug)]
enum Source {
    Whole(Option<Bytes>),
    Stream(Box<StreamRelay>),
}

/// A stream that passes through.
#[derive(Debug)]
pub(crate) struct StreamRelay {
    upstream: Incoming,
    scanner: StreamScanner,
    /// `None` once the books are closed.
    attempt: Option<Attempt>,
    observations: Vec<Observation>,
    end: StreamEnd,
    limits: Limits,
}

/// What the stream has said about its own end so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamEnd {
    Unsaid,
    Finished,
    EngineError,
}

/// The two clocks of a stream. The idle one is moved on by every piece, so it is only looked at when it rings.
#[derive(Debug)]
struct Limits {
    timeouts: Timeouts,
    deadline: Instant,
    last_piece: Instant,
    alarm: Pin<Box<Sleep>>,
}

// === impl RelayBody ===

impl RelayBody {
    /// A body that is known to its end.
    pub fn whole(bytes: Bytes) -> Self {
        Self(Source::Whole(Some(bytes)))
    }

    /// A stream of events.
    pub(crate) fn stream(relay: StreamRelay) -> Self {
        Self(Source::Stream(Box::new(relay)))
    }
}

impl Body for RelayBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            Source::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Source::Stream(relay) => {
                relay.poll_piece(context).map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Source::Whole(bytes) => bytes.is_none(),
            Source::Stream(relay) => relay.attempt.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Source::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Source::Stream(_) => SizeHint::default(),
        }
    }
}

// === impl StreamRelay ===

impl StreamRelay {
    /// Relays `upstream` until `deadline`.
    pub(crate) fn new(upstream: Incoming, usage: UsageChunk, attempt: Attempt, deadline: Instant) -> Self {
        let limits = Limits::new(*attempt.pool().timeouts(), deadline);
        Self {
            upstream,
            scanner: StreamScanner::new(usage),
            attempt: Some(attempt),
            observations: Vec::new(),
            end: StreamEnd::Unsaid,
            limits,
        }
    }

    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        while self.attempt.is_some() {
            let forward = match Pin::new(&mut self.upstream).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => self.passed(frame),
                Poll::Ready(Some(Err(error))) => self.broke(error_text(&error)),
                Poll::Ready(None) => self.ended(),
                Poll::Pending => match self.limits.poll_exceeded(context) {
                    Poll::Ready((limit, after)) => self.timed_out(limit, after),
                    Poll::Pending => return Poll::Pending,
                },
            };
            if !forward.is_empty() {
                return Poll::Ready(Some(forward));
            }
        }
        Poll::Ready(None)
    }

    fn passed(&mut self, frame: Frame<Bytes>) -> Bytes {
        let Ok(piece) = frame.into_data() else { return Bytes::new() };
        self.limits.piece_came();
        let forward = self.scanner.push(&piece, &mut self.observations);
        self.take_observations();
        forward
    }

    fn ended(&mut self) -> Bytes {
        let rest = self.scanner.finish(&mut self.observations);
        self.take_observations();
        match self.end {
            StreamEnd::Unsaid => {
                return self.broke("the stream ended without a finish reason and without [DONE]".to_owned());
            }
            StreamEnd::Finished => self.close(Close::Completed),
            StreamEnd::EngineError => self.close(Close::Failed),
        }
        rest
    }

    fn broke(&mut self, cause: String) -> Bytes {
        self.fail(|worker| ErrorKind::UpstreamBrokeMidStream { worker, cause })
    }

    fn timed_out(&mut self, limit: &'static str, after: Duration) -> Bytes {
        self.fail(|worker| ErrorKind::Timeout { worker, limit, after })
    }

    /// The client cannot be told by a status any more, so it is told by an event.
    fn fail(&mut self, kind: impl FnOnce(String) -> ErrorKind) -> Bytes {
        let Some(attempt) = &self.attempt else { return Bytes::new() };
        let rank = attempt.rank();
        let error = RouteError::worker(rank.name.clone(), kind(rank.name.worker.to_string()));
        tracing::warn!(worker = %rank.name, %error, "stream broke");
        rank.worker.doubt.notify_one();
        let event = self.scanner.break_off(&error.body());
        self.close(Close::Failed);
        event
    }

    fn close(&mut self, close: Close) {
        if let Some(attempt) = self.attempt.take() {
            attempt.finish(close);
        }
    }

    fn take_observations(&mut self) {
        let Some(attempt) = &mut self.attempt else { return };
        for observation in self.observations.drain(..) {
            match observation {
                Observation::Error => self.end = StreamEnd::EngineError,
                Observation::Finish { .. } | Observation::Done if self.end == StreamEnd::Unsaid => {
                    self.end = StreamEnd::Finished;
                }
                _ => {}
            }
            attempt.observe(&observation);
        }
    }
}

// === impl Limits ===

impl Limits {
    fn new(timeouts: Timeouts, deadline: Instant) -> Self {
        let now = Instant::now();
        let alarm = Box::pin(sleep_until(deadline.min(now + timeouts.idle)));
        Self { timeouts, deadline, last_piece: now, alarm }
    }

    fn piece_came(&mut self) {
        self.last_piece = Instant::now();
    }

    /// Ready with the name and value of the limit that ran out.
    fn poll_exceeded(&mut self, context: &mut Context<'_>) -> Poll<(&'static str, Duration)> {
        loop {
            if self.alarm.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            let now = Instant::now();
            if now >= self.deadline {
                return Poll::Ready(("total", self.timeouts.total));
            }
            let idle_until = self.last_piece + self.timeouts.idle;
            if now >= idle_until {
                return Poll::Ready(("idle", self.timeouts.idle));
            }
            self.alarm.as_mut().reset(self.deadline.min(idle_until));
        }
    }
}

/// An error with its causes, as far as they say something new.
pub(crate) fn error_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.contains(&part) {
            text = format!("{text}: {part}");
        }
        cause = error.source();
    }
    text
}
