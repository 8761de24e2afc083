//! The body of a worker's answer, which drives the line that it comes over.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::line::Line;
use super::lines::Lines;

/// What a worker answers, piece by piece.
#[derive(Debug)]
pub(crate) struct AnswerBody {
    body: Incoming,
    /// `None` over a shared line, and once the answer has ended.
    own: Option<Own>,
}

/// The line of one answer, and where it goes when that has ended.
#[derive(Debug)]
struct Own {
    line: Box<Line>,
    home: Arc<Lines>,
}

// === impl AnswerBody ===

impl AnswerBody {
    /// An answer that has its line to itself.
    pub(super) const fn own(body: Incoming, line: Box<Line>, home: Arc<Lines>) -> Self {
        Self { body, own: Some(Own { line, home }) }
    }

    /// An answer over a line with a task of its own.
    pub(super) const fn shared(body: Incoming) -> Self {
        Self { body, own: None }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = &mut *self;
        let Some(own) = &mut this.own else { return Pin::new(&mut this.body).poll_frame(context) };
        let frame = own.poll_frame(&mut this.body, context);
        if let Poll::Ready(None) = frame
            && let Some(Own { line, home }) = this.own.take()
        {
            home.put(line);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.own.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

// === impl Own ===

impl Own {
    /// Nobody but the line wakes the body, and it is looked at each time that the line was driven.
    fn poll_frame(
        &mut self,
        body: &mut Incoming,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let mut nobody = Context::from_waker(Waker::noop());
        if let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(&mut nobody) {
            return Poll::Ready(frame);
        }
        self.line.drive(context);
        Pin::new(body).poll_frame(&mut nobody)
    }
}
