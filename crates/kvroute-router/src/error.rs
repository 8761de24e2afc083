//! Why a request failed, with everything that follows from it as data.
//!
//! The origin decides who is told off: a client's mistake is never logged as a fault and never marks a worker;
//! a worker's fault does both. Status, error type and code are exhaustive matches, so a new kind of failure
//! cannot be added without deciding them.
//!
//! A message has two readers. Operators and trusted callers are told which worker it was and what its connection said; all
//! others learn the same without names and addresses of the fleet, which are not theirs to know.

mod kind;

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use kvroute_core::WorkerRank;
use kvroute_openai::{ErrorBody, RequestError};

pub use self::kind::ErrorKind;

/// When a client may ask again that a router without room turns away.
const SOON: Duration = Duration::from_secs(1);

/// When a client that a stopping router turns away may ask again: it will not be this process that answers.
const ANOTHER_ROUTER: Duration = Duration::from_secs(1);

/// Where a failure came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The request itself.
    Client,
    /// This router, its configuration or its lack of workers.
    Router,
    /// One worker rank.
    Worker(WorkerRank),
}

/// A request that did not end well.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{kind}")]
pub struct RouteError {
    kind: ErrorKind,
    origin: Origin,
    /// What its answer tells beside the body; boxed, because errors are handed on through many results.
    headers: Option<Box<HeaderMap>>,
}

/// Why nothing more could be done, for both readers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    full: String,
    public: String,
}

// === impl RouteError ===

impl RouteError {
    /// A failure that the request itself caused.
    pub fn client(kind: ErrorKind) -> Self {
        Self { kind, origin: Origin::Client, headers: None }
    }

    /// A failure of this router or its fleet as a whole.
    pub fn router(kind: ErrorKind) -> Self {
        Self { kind, origin: Origin::Router, headers: None }
    }

    /// A failure of one worker.
    pub fn worker(rank: WorkerRank, kind: ErrorKind) -> Self {
        Self { kind, origin: Origin::Worker(rank), headers: None }
    }

    /// A body that cannot be served.
    pub fn bad_request(error: RequestError) -> Self {
        Self::client(ErrorKind::BadRequest(Box::new(error)))
    }

    /// The same, with an answer that also tells how its request was placed.
    pub(crate) fn explained(self, explanation: HeaderMap) -> Self {
        Self { headers: Some(Box::new(explanation)), ..self }
    }

    /// The same for a stream that might have been continued on another worker, and why it was not.
    pub(crate) fn not_continued(self, reason: Reason) -> Self {
        Self { kind: ErrorKind::NotContinued { broken: Box::new(self.kind), reason }, ..self }
    }

    /// The same for a request that might have been sent to another worker, and why it was not.
    pub(crate) fn not_retried(self, reason: &'static str) -> Self {
        Self { kind: ErrorKind::NotRetried { broken: Box::new(self.kind), reason }, ..self }
    }

    /// What its answer tells beside the body.
    pub(crate) fn headers(&self) -> HeaderMap {
        self.headers.as_deref().cloned().unwrap_or_default()
    }

    /// What went wrong.
    pub const fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// Whose fault it was.
    pub const fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The status a client sees.
    pub fn status(&self) -> StatusCode {
        self.kind.status()
    }

    /// When it may be worth another try, where that can be said.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self.kind {
            ErrorKind::QueueFull { retry_after, .. }
            | ErrorKind::QueueTimeout { retry_after, .. }
            | ErrorKind::TooManyRequests { retry_after } => Some(retry_after),
            ErrorKind::Overloaded { .. } | ErrorKind::OutOfResources { .. } => Some(SOON),
            ErrorKind::Stopping => Some(ANOTHER_ROUTER),
            _ => None,
        }
    }

    /// The OpenAI-shaped body that operators and trusted callers see.
    pub fn body(&self) -> ErrorBody {
        self.body_saying(ErrorKind::to_string)
    }

    /// The OpenAI-shaped body that everybody else sees: it tells nothing of the fleet.
    pub fn public_body(&self) -> ErrorBody {
        self.body_saying(ErrorKind::public_text)
    }

    /// The body for a caller that is trusted or not.
    pub fn body_for(&self, is_trusted: bool) -> ErrorBody {
        if is_trusted { self.body() } else { self.public_body() }
    }

    fn body_saying(&self, text: impl FnOnce(&ErrorKind) -> String) -> ErrorBody {
        match &self.kind {
            ErrorKind::BadRequest(error) => error.error.clone(),
            kind => ErrorBody {
                param: kind.param().map(Cow::Borrowed),
                ..ErrorBody::new(kind.error_type(), text(kind)).with_code(kind.code())
            },
        }
    }
}

// === impl Reason ===

impl Reason {
    /// What operators and trusted callers are told, and what everybody else is.
    pub(crate) fn new(full: impl Into<String>, public: impl Into<String>) -> Self {
        Self { full: full.into(), public: public.into() }
    }

    /// What made it impossible was another failure.
    pub(crate) fn of(error: &RouteError) -> Self {
        Self { full: error.to_string(), public: error.kind.public_text() }
    }

    /// For those who are not to know the fleet.
    pub(crate) fn public(&self) -> &str {
        &self.public
    }
}

impl<T: Into<String>> From<T> for Reason {
    /// The same for both readers.
    fn from(text: T) -> Self {
        let full = text.into();
        Self { public: full.clone(), full }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.full)
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
