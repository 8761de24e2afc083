//! The state of one stream: what was promised, what has come, how it ended.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use hyper::body::Incoming;
use kvroute_funnel::Close;
use kvroute_metrics::{AddedLatency, LatencyPart};
use kvroute_openai::{Endpoint, Observation, StreamScanner};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::attempt::Attempt;
use crate::config::Timeouts;
use crate::error::{ErrorKind, RouteError, error_text};

/// One stream between worker and client.
#[derive(Debug)]
pub(super) struct Flow {
    /// `None` once nothing more is read.
    upstream: Option<Incoming>,
    scanner: StreamScanner,
    endpoint: Endpoint,
    latency: AddedLatency,
    /// `None` once the books are closed.
    attempt: Option<Attempt>,
    observations: Vec<Observation>,
    end: StreamEnd,
    /// Whether the stream's own id was noted.
    is_named: bool,
    idle: IdleLimit,
    /// The last thing that the client gets, where it was not polled for.
    parting: Option<Bytes>,
    waker: Option<Waker>,
}

/// What the stream has said about its own end so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamEnd {
    Unsaid,
    Finished,
    EngineError,
}

/// Moved on by every piece, so the clock is only looked at when it rings.
#[derive(Debug)]
struct IdleLimit {
    limit: Duration,
    last_piece: Instant,
    alarm: Pin<Box<Sleep>>,
}

// === impl Flow ===

impl Flow {
    /// A stream of which the head has come.
    pub(super) fn new(
        upstream: Incoming,
        scanner: StreamScanner,
        endpoint: Endpoint,
        attempt: Attempt,
    ) -> Self {
        let idle = IdleLimit::new(attempt.pool().timeouts().idle);
        Self {
            upstream: Some(upstream),
            scanner,
            endpoint,
            latency: attempt.pool().metrics().added_latency().clone(),
            attempt: Some(attempt),
            observations: Vec::new(),
            end: StreamEnd::Unsaid,
            is_named: false,
            idle,
            parting: None,
            waker: None,
        }
    }

    /// True once nothing more comes.
    pub(super) const fn is_over(&self) -> bool {
        self.upstream.is_none() && self.parting.is_none()
    }

    /// The next bytes for the client.
    pub(super) fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        while let Some(upstream) = &mut self.upstream {
            let forward = match Pin::new(upstream).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => self.passed(frame),
                Poll::Ready(Some(Err(error))) => self.broke(error_text(&error)),
                Poll::Ready(None) => self.ended(),
                Poll::Pending if self.idle.poll_exceeded(context).is_ready() => {
                    let after = self.idle.limit;
                    self.fail(|worker| ErrorKind::Timeout { worker, limit: "idle", after })
                }
                Poll::Pending => {
                    self.waker = Some(context.waker().clone());
                    return Poll::Pending;
                }
            };
            if !forward.is_empty() {
                return Poll::Ready(Some(forward));
            }
        }
        Poll::Ready(self.parting.take())
    }

    /// The total limit ran out, whether anybody reads or not.
    pub(super) fn exceed_total(&mut self) {
        let after = self.timeouts().total;
        self.part(|worker| ErrorKind::Timeout { worker, limit: "total", after });
    }

    /// The router stops before the stream has ended.
    pub(super) fn cut(&mut self) {
        self.part(|_| ErrorKind::Stopping);
    }

    fn part(&mut self, kind: impl FnOnce(String) -> ErrorKind) {
        if self.upstream.is_none() {
            return;
        }
        let event = self.fail(kind);
        self.parting = (!event.is_empty()).then_some(event);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn passed(&mut self, frame: Frame<Bytes>) -> Bytes {
        let Ok(piece) = frame.into_data() else { return Bytes::new() };
        let arrived = self.idle.piece_came();
        let forward = self.scanner.push(&piece, &mut self.observations);
        self.note_response();
        self.take_observations();
        self.latency.added(LatencyPart::PerChunk, arrived.elapsed());
        forward
    }

    fn ended(&mut self) -> Bytes {
        let rest = self.scanner.finish(&mut self.observations);
        self.take_observations();
        if self.end == StreamEnd::Unsaid {
            return self.broke("the stream ended without its last event".to_owned());
        }
        self.upstream = None;
        self.close();
        rest
    }

    fn broke(&mut self, cause: String) -> Bytes {
        self.fail(|worker| ErrorKind::UpstreamBrokeMidStream { worker, cause })
    }

    /// The client cannot be told by a status any more, so it is told by an event. Behind `[DONE]` there is
    /// nothing to tell: it has everything.
    fn fail(&mut self, kind: impl FnOnce(String) -> ErrorKind) -> Bytes {
        self.upstream = None;
        let Some(attempt) = self.attempt.take() else { return Bytes::new() };
        let rank = attempt.rank();
        let kind = kind(rank.name.worker.to_string());
        let error = match kind {
            ErrorKind::Stopping => RouteError::router(kind),
            _ => RouteError::worker(rank.name.clone(), kind),
        };
        tracing::warn!(worker = %rank.name, %error, "stream broke");
        rank.worker.doubt.notify_one();
        attempt.note_failure(&error);
        attempt.finish(Close::Failed);
        self.scanner.break_off(&error.body(), self.endpoint)
    }

    fn close(&mut self) {
        let Some(attempt) = self.attempt.take() else { return };
        match self.end {
            StreamEnd::EngineError => attempt.finish(Close::Failed),
            StreamEnd::Finished | StreamEnd::Unsaid => attempt.finish(Close::Completed),
        }
    }

    /// The response that this stream is may be continued by another request.
    fn note_response(&mut self) {
        if self.is_named {
            return;
        }
        if let (Some(id), Some(attempt)) = (self.scanner.response_id(), &self.attempt) {
            attempt.rank().made_response(id);
            self.is_named = true;
        }
    }

    fn take_observations(&mut self) {
        let mut is_done = false;
        for observation in self.observations.drain(..) {
            match observation {
                Observation::Error => self.end = StreamEnd::EngineError,
                Observation::Finish { .. } | Observation::Done if self.end == StreamEnd::Unsaid => {
                    self.end = StreamEnd::Finished;
                }
                _ => {}
            }
            is_done |= observation == Observation::Done;
            if let Some(attempt) = &mut self.attempt {
                attempt.observe(&observation, self.scanner.token_ids());
            }
        }
        if is_done {
            self.close();
        }
    }

    fn timeouts(&self) -> Timeouts {
        self.attempt.as_ref().map(|attempt| *attempt.pool().timeouts()).unwrap_or_default()
    }
}

// === impl IdleLimit ===

impl IdleLimit {
    fn new(limit: Duration) -> Self {
        let now = Instant::now();
        Self { limit, last_piece: now, alarm: Box::pin(sleep_until(now + limit)) }
    }

    fn piece_came(&mut self) -> Instant {
        self.last_piece = Instant::now();
        self.last_piece
    }

    fn poll_exceeded(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.alarm.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            let idle_until = self.last_piece + self.limit;
            if Instant::now() >= idle_until {
                return Poll::Ready(());
            }
            self.alarm.as_mut().reset(idle_until);
        }
    }
}
