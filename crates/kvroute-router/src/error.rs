//! Why a request failed, with everything that follows from it as data.
//!
//! The origin decides who is told off: a client's mistake is never logged as a fault and never marks a worker;
//! a worker's fault does both. Status, error type and code are exhaustive matches, so a new kind of failure
//! cannot be added without deciding them.

use std::borrow::Cow;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use kvroute_core::WorkerRank;
use kvroute_openai::{ErrorBody, RequestError};

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

/// What went wrong.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ErrorKind {
    /// The body cannot be served.
    #[error("{0}")]
    BadRequest(Box<RequestError>),
    /// The body is larger than the limit.
    #[error("request body is larger than {limit} bytes; raise server.max_body or send less")]
    BodyTooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The client has no key that this router knows.
    #[error("{0}; send one as \"authorization: Bearer KEY\"")]
    Unauthorized(&'static str),
    /// The client stopped sending its body.
    #[error("request body could not be read: {0}")]
    BodyBroken(String),
    /// No pool serves the model.
    #[error("model {model:?} is not served here; served models: {served}")]
    UnknownModel {
        /// As the client wrote it.
        model: String,
        /// Names of the pools, comma-separated.
        served: String,
    },
    /// A request without a model reached a router with several pools.
    #[error("'model' is missing and more than one model is served; name one of: {served}")]
    ModelMissing {
        /// Names of the pools, comma-separated.
        served: String,
    },
    /// A pool of which no worker has answered its probe may serve what is asked for.
    #[error("what is served is not known yet, because no worker of a pool has answered its probe: {workers}")]
    NotReady {
        /// Workers and what is wrong with each.
        workers: String,
    },
    /// No worker that may serve the request takes any.
    #[error("no worker of model {model:?} can take this request: {reason}")]
    NoWorker {
        /// The pool's model.
        model: String,
        /// Workers and what is wrong with each, behind the rule that leaves no others.
        reason: String,
    },
    /// The only worker that the request may go to lacks its adapter.
    #[error("{bound}, which does not serve {adapter:?}; workers that do: {workers}")]
    AdapterElsewhere {
        /// What binds the request to the worker, up to the worker's name.
        bound: String,
        /// The adapter.
        adapter: String,
        /// Ranks that serve it.
        workers: String,
    },
    /// Every worker is busy and as many requests wait as may.
    #[error(
        "every worker of model {model:?} that may serve this request is busy and {waiting} requests wait already; send it again later, or raise pool.queue.limit"
    )]
    QueueFull {
        /// The pool's model.
        model: String,
        /// Requests in the queue.
        waiting: usize,
        /// When it may be worth another try.
        retry_after: Duration,
    },
    /// Every worker stayed busy.
    #[error(
        "every worker of model {model:?} that may serve this request stayed busy for {:.1} s, as long as pool.queue.timeout lets a request wait; send it again later",
        waited.as_secs_f64()
    )]
    QueueTimeout {
        /// The pool's model.
        model: String,
        /// How long it waited.
        waited: Duration,
        /// When it may be worth another try.
        retry_after: Duration,
    },
    /// The policy cannot place such a request.
    #[error("policy {policy:?} cannot place this request: {lacks}")]
    Unservable {
        /// The pool's policy.
        policy: String,
        /// What the request lacks.
        lacks: &'static str,
    },
    /// The caller named a worker that does not serve the model.
    #[error(
        "x-kvroute-worker names {named:?}, which is no worker of model {model:?}; its workers: {workers}"
    )]
    UnknownWorker {
        /// As the caller wrote it.
        named: String,
        /// The pool's model.
        model: String,
        /// The pool's ranks.
        workers: String,
    },
    /// The worker could not be reached, or broke before the first byte of its answer.
    #[error("worker {worker} broke before its first byte: {cause}")]
    UpstreamBroke {
        /// The worker.
        worker: String,
        /// The transport's own words.
        cause: String,
    },
    /// The worker broke after the first byte; only a stream can carry this.
    #[error("worker {worker} broke in the middle of its answer: {cause}")]
    UpstreamBrokeMidStream {
        /// The worker.
        worker: String,
        /// The transport's own words.
        cause: String,
    },
    /// A stream that broke, and that no other worker goes on with.
    #[error("{broken}; it was not continued on another worker: {reason}")]
    NotContinued {
        /// What broke it.
        broken: Box<ErrorKind>,
        /// Why nobody goes on.
        reason: String,
    },
    /// The router stops, and the drain time is over.
    #[error("the router is stopping and its drain time is over; send the request again")]
    Stopping,
    /// A limit of the call ran out.
    #[error("worker {worker} exceeded timeouts.{limit} of {after:?}")]
    Timeout {
        /// The worker.
        worker: String,
        /// Which of the pool's timeouts.
        limit: &'static str,
        /// Its value.
        after: Duration,
    },
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
    pub(crate) fn not_continued(self, reason: String) -> Self {
        Self { kind: ErrorKind::NotContinued { broken: Box::new(self.kind), reason }, ..self }
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
            ErrorKind::QueueFull { retry_after, .. } | ErrorKind::QueueTimeout { retry_after, .. } => {
                Some(retry_after)
            }
            ErrorKind::Stopping => Some(ANOTHER_ROUTER),
            _ => None,
        }
    }

    /// The OpenAI-shaped body a client sees.
    pub fn body(&self) -> ErrorBody {
        match &self.kind {
            ErrorKind::BadRequest(error) => error.error.clone(),
            kind => ErrorBody {
                param: kind.param().map(Cow::Borrowed),
                ..ErrorBody::new(kind.error_type(), kind.to_string()).with_code(kind.code())
            },
        }
    }
}

// === impl ErrorKind ===

impl ErrorKind {
    fn status(&self) -> StatusCode {
        match self {
            Self::BadRequest(error) => StatusCode::from_u16(error.status).unwrap_or(StatusCode::BAD_REQUEST),
            Self::BodyBroken(_)
            | Self::ModelMissing { .. }
            | Self::Unservable { .. }
            | Self::UnknownWorker { .. }
            | Self::AdapterElsewhere { .. } => StatusCode::BAD_REQUEST,
            Self::QueueFull { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::BodyTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Unauthorized(_) => StatusCode::UNAUTHORIZED,
            Self::UnknownModel { .. } => StatusCode::NOT_FOUND,
            Self::NotReady { .. } | Self::NoWorker { .. } | Self::QueueTimeout { .. } | Self::Stopping => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::NotContinued { broken, .. } => broken.status(),
            Self::UpstreamBroke { .. } | Self::UpstreamBrokeMidStream { .. } => StatusCode::BAD_GATEWAY,
            Self::Timeout { .. } => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    const fn error_type(&self) -> &'static str {
        match self {
            Self::BadRequest(_)
            | Self::BodyBroken(_)
            | Self::BodyTooLarge { .. }
            | Self::Unauthorized(_)
            | Self::ModelMissing { .. }
            | Self::Unservable { .. }
            | Self::UnknownModel { .. }
            | Self::UnknownWorker { .. }
            | Self::AdapterElsewhere { .. } => "invalid_request_error",
            Self::QueueFull { .. } => "rate_limit_error",
            Self::NotReady { .. } | Self::NoWorker { .. } | Self::QueueTimeout { .. } | Self::Stopping => {
                "service_unavailable_error"
            }
            Self::NotContinued { broken, .. } => broken.error_type(),
            Self::UpstreamBroke { .. } | Self::UpstreamBrokeMidStream { .. } => "upstream_error",
            Self::Timeout { .. } => "timeout_error",
        }
    }

    const fn param(&self) -> Option<&'static str> {
        match self {
            Self::UnknownModel { .. } | Self::ModelMissing { .. } => Some("model"),
            _ => None,
        }
    }

    /// The code that tells clients, logs and traces what went wrong.
    pub(crate) const fn code(&self) -> &'static str {
        match self {
            Self::BadRequest(_) => "bad_request",
            Self::BodyBroken(_) => "body_broken",
            Self::BodyTooLarge { .. } => "body_too_large",
            Self::Unauthorized(_) => "invalid_api_key",
            Self::UnknownModel { .. } => "model_not_found",
            Self::ModelMissing { .. } => "model_missing",
            Self::NotReady { .. } => "not_ready",
            Self::NoWorker { .. } => "no_worker",
            Self::QueueFull { .. } => "queue_full",
            Self::QueueTimeout { .. } => "queue_timeout",
            Self::Unservable { .. } => "unservable",
            Self::UnknownWorker { .. } => "unknown_worker",
            Self::AdapterElsewhere { .. } => "adapter_elsewhere",
            Self::UpstreamBroke { .. } => "upstream_broke",
            Self::UpstreamBrokeMidStream { .. } => "upstream_broke_mid_stream",
            Self::NotContinued { broken, .. } => broken.code(),
            Self::Stopping => "router_stopping",
            Self::Timeout { .. } => "upstream_timeout",
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
