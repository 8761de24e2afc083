//! What can go wrong, and what each kind of failure means for the client.

use std::time::Duration;

use http::StatusCode;
use kvroute_openai::RequestError;

use super::Reason;

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
    /// The client did not send its body in time.
    #[error(
        "the request body did not arrive within {after:?}, as long as server.limits.body lets it take; send it faster or raise the limit"
    )]
    BodyTimeout {
        /// The limit.
        after: Duration,
    },
    /// A field is of the right type and asks for what is not possible.
    #[error("{field:?} {problem}")]
    Unprocessable {
        /// The field.
        field: &'static str,
        /// What is wrong with it, behind its name.
        problem: String,
    },
    /// The caller asks more often than it may.
    #[error("too many requests: the caller may send the next one in {:.1} s", retry_after.as_secs_f64())]
    TooManyRequests {
        /// When it may be worth another try.
        retry_after: Duration,
    },
    /// The router has as many requests or connections as it may.
    #[error("the router serves as many at once as {limit} allows; send it again later, or raise {limit}")]
    Overloaded {
        /// The setting that says how many.
        limit: &'static str,
    },
    /// The process has no more sockets, files or ports for a connection to a worker.
    #[error(
        "the router has run out of what a connection to a worker takes: {cause}; raise its limit of open files"
    )]
    OutOfResources {
        /// The system's own words.
        cause: String,
    },
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
    /// The worker computed a prompt for another one and did not say where that one finds it.
    #[error("worker {worker} computed a prompt for another one and does not say where its KV lies: {remedy}")]
    NotHandedOver {
        /// The worker.
        worker: String,
        /// What to do about it.
        remedy: String,
    },
    /// The worker broke after the first byte; only a stream can carry this.
    #[error("worker {worker} broke in the middle of its answer: {cause}")]
    UpstreamBrokeMidStream {
        /// The worker.
        worker: String,
        /// The transport's own words.
        cause: String,
    },
    /// A request that a worker failed, and that no other worker was asked for.
    #[error("{broken}; no other worker was asked: {reason}")]
    NotRetried {
        /// How the worker failed.
        broken: Box<ErrorKind>,
        /// Why it was not sent again.
        reason: &'static str,
    },
    /// A stream that broke, and that no other worker goes on with.
    #[error("{broken}; it was not continued on another worker: {reason}")]
    NotContinued {
        /// What broke it.
        broken: Box<ErrorKind>,
        /// Why nobody goes on.
        reason: Reason,
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

// === impl ErrorKind ===

impl ErrorKind {
    /// The status a client sees.
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::BadRequest(error) => StatusCode::from_u16(error.status).unwrap_or(StatusCode::BAD_REQUEST),
            Self::BodyBroken(_)
            | Self::ModelMissing { .. }
            | Self::Unservable { .. }
            | Self::UnknownWorker { .. }
            | Self::AdapterElsewhere { .. } => StatusCode::BAD_REQUEST,
            Self::QueueFull { .. } | Self::TooManyRequests { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::BodyTimeout { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::Unprocessable { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            Self::BodyTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Unauthorized(_) => StatusCode::UNAUTHORIZED,
            Self::UnknownModel { .. } => StatusCode::NOT_FOUND,
            Self::NotReady { .. }
            | Self::NoWorker { .. }
            | Self::QueueTimeout { .. }
            | Self::Overloaded { .. }
            | Self::OutOfResources { .. }
            | Self::Stopping => StatusCode::SERVICE_UNAVAILABLE,
            Self::NotContinued { broken, .. } | Self::NotRetried { broken, .. } => broken.status(),
            Self::UpstreamBroke { .. } | Self::NotHandedOver { .. } | Self::UpstreamBrokeMidStream { .. } => {
                StatusCode::BAD_GATEWAY
            }
            Self::Timeout { .. } => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// The family of the error.
    pub(super) const fn error_type(&self) -> &'static str {
        match self {
            Self::BadRequest(_)
            | Self::BodyBroken(_)
            | Self::BodyTooLarge { .. }
            | Self::Unauthorized(_)
            | Self::ModelMissing { .. }
            | Self::Unservable { .. }
            | Self::UnknownModel { .. }
            | Self::UnknownWorker { .. }
            | Self::AdapterElsewhere { .. }
            | Self::BodyTimeout { .. }
            | Self::Unprocessable { .. } => "invalid_request_error",
            Self::QueueFull { .. } | Self::TooManyRequests { .. } => "rate_limit_error",
            Self::NotReady { .. }
            | Self::NoWorker { .. }
            | Self::QueueTimeout { .. }
            | Self::Overloaded { .. }
            | Self::OutOfResources { .. }
            | Self::Stopping => "service_unavailable_error",
            Self::NotContinued { broken, .. } | Self::NotRetried { broken, .. } => broken.error_type(),
            Self::UpstreamBroke { .. } | Self::NotHandedOver { .. } | Self::UpstreamBrokeMidStream { .. } => {
                "upstream_error"
            }
            Self::Timeout { .. } => "timeout_error",
        }
    }

    /// The field of the request at fault.
    pub(super) const fn param(&self) -> Option<&'static str> {
        match self {
            Self::UnknownModel { .. } | Self::ModelMissing { .. } => Some("model"),
            Self::Unprocessable { field, .. } => Some(field),
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
            Self::NotHandedOver { .. } => "not_handed_over",
            Self::UpstreamBrokeMidStream { .. } => "upstream_broke_mid_stream",
            Self::NotContinued { broken, .. } | Self::NotRetried { broken, .. } => broken.code(),
            Self::BodyTimeout { .. } => "body_timeout",
            Self::Unprocessable { .. } => "unprocessable",
            Self::TooManyRequests { .. } => "rate_limited",
            Self::Overloaded { .. } => "overloaded",
            Self::OutOfResources { .. } => "router_exhausted",
            Self::Stopping => "router_stopping",
            Self::Timeout { .. } => "upstream_timeout",
        }
    }

    /// The same for a caller that is not trusted: it names no worker and repeats no words of a transport, which tell
    /// addresses.
    pub(super) fn public_text(&self) -> String {
        match self {
            Self::NotReady { .. } => {
                "what is served is not known yet, because no worker has answered; send it again later"
                    .to_owned()
            }
            Self::NoWorker { model, .. } => {
                format!("no worker of model {model:?} can take this request now; send it again later")
            }
            Self::AdapterElsewhere { adapter, .. } => {
                format!("this request belongs to a worker that does not serve {adapter:?}")
            }
            Self::UnknownWorker { named, model, .. } => {
                format!("x-kvroute-worker names {named:?}, which is no worker of model {model:?}")
            }
            Self::UpstreamBroke { .. } => "a worker broke before its first byte".to_owned(),
            Self::NotHandedOver { .. } => "a worker does not hand over what it computed".to_owned(),
            Self::UpstreamBrokeMidStream { .. } => "a worker broke in the middle of its answer".to_owned(),
            Self::Timeout { limit, after, .. } => format!("a worker exceeded timeouts.{limit} of {after:?}"),
            Self::OutOfResources { .. } => {
                "the router has run out of what a connection to a worker takes; send it again later"
                    .to_owned()
            }
            Self::NotRetried { broken, reason } => {
                format!("{}; no other worker was asked: {reason}", broken.public_text())
            }
            Self::NotContinued { broken, reason } => {
                let (broken, reason) = (broken.public_text(), reason.public());
                format!("{broken}; it was not continued on another worker: {reason}")
            }
            Self::BadRequest(_)
            | Self::BodyTooLarge { .. }
            | Self::Unauthorized(_)
            | Self::BodyBroken(_)
            | Self::BodyTimeout { .. }
            | Self::Unprocessable { .. }
            | Self::TooManyRequests { .. }
            | Self::Overloaded { .. }
            | Self::UnknownModel { .. }
            | Self::ModelMissing { .. }
            | Self::QueueFull { .. }
            | Self::QueueTimeout { .. }
            | Self::Unservable { .. }
            | Self::Stopping => self.to_string(),
        }
    }
}
