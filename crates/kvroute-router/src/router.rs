//! The router as a whole: from a request to a response, and from a configuration to running pools.

mod answers;
mod census;
mod discovering;
mod funnel;
mod keeping;
mod lookup;
#[cfg(test)]
mod of_one_pool;
mod pools;
mod refusals;
mod reloading;
mod replicas;
mod series;
mod staffing;

use std::sync::{Arc, Once};

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::header::{HeaderMap, HeaderValue};
use http::{Response, StatusCode};
use kvroute_cluster::Cluster;
use kvroute_metrics::{
    Endpoint as RouteLabel, Metrics, RequestOutcome, RequestRecorder, RequestShape, Stage,
};
use kvroute_openai::{ClientRequest, Endpoint};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use crate::advice::AdviceRequest;
use crate::config::{ClusterConfig, ReadyWhen};
use crate::decisions::{self, DecisionRecord};
use crate::error::RouteError;
use crate::first_worker::FirstWorker;
use crate::hints::Hints;
use crate::plan::{PoolPlan, RouterError, RouterPlan};
use crate::pool::Pool;
use crate::relay::{RelayBody, Streams};
use crate::request_id::RequestIds;
use crate::roster::Roster;
use crate::route::Route;
use crate::status::{ModelList, WorkerStatus};
use crate::tenant;
use crate::trace_context::TraceContext;
use crate::trail::Trail;
use crate::unread::{Arrival, Unread};
use answers::error_response;

/// One request as the data plane received it.
#[derive(Debug)]
pub struct Inbound {
    /// What its headers began.
    pub arrival: Arrival,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its whole body.
    pub body: Bytes,
    /// Whether its caller may steer the selection, and see where it went and why.
    pub trusted: bool,
    /// Whose request it is, where callers are told apart: its caches are shared with no other tenant.
    pub tenant: Option<Arc<str>>,
}

/// A running router.
#[derive(Debug)]
pub struct Router {
    shared: Arc<Shared>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// What requests and supervisors share.
#[derive(Debug)]
pub(crate) struct Shared {
    metrics: Metrics,
    roster: Roster,
    plans: Vec<Arc<PoolPlan>>,
    counted: Vec<census::Counted>,
    pools: ArcSwap<Vec<Arc<Pool>>>,
    first_worker: FirstWorker,
    funnel: funnel::FunnelReadings,
    series_of_all: Once,
    ids: RequestIds,
    seed: u64,
    trace_sample: f64,
    stopping: CancellationToken,
    /// Whoever still waits is turned away, and whoever comes.
    closing: CancellationToken,
    /// Every task ends.
    ending: CancellationToken,
    streams: Streams,
    /// `None` where nothing is shared with replicas.
    cluster: Option<Arc<Cluster>>,
    /// As configured at the start.
    replicas: ClusterConfig,
    /// Configurations are taken over one after the other.
    reloading: Mutex<()>,
    /// Files are written by one at a time.
    saving: Mutex<()>,
}

// === impl Router ===

impl Router {
    /// Starts to ask the workers of a plan. Must be called in a runtime.
    pub fn start(plan: RouterPlan, metrics: Metrics) -> Result<Self, RouterError> {
        let cluster = replicas::join(&plan, &metrics)?;
        let plans: Vec<_> = plan.pools.into_iter().map(Arc::new).collect();
        let (stop, closing, tasks) = (CancellationToken::new(), CancellationToken::new(), TaskTracker::new());
        let shared = Arc::new(Shared {
            roster: Roster::new(&plans),
            counted: plans
                .iter()
                .enumerate()
                .map(|(number, plan)| census::Counted::new(number, plan, &metrics))
                .collect(),
            plans,
            first_worker: FirstWorker::new(metrics.unknown_model_queue().clone(), closing.clone()),
            metrics,
            funnel: funnel::FunnelReadings::start(),
            series_of_all: Once::new(),
            pools: ArcSwap::default(),
            closing,
            ending: stop.clone(),
            ids: RequestIds::new(rand::random()),
            seed: plan.seed,
            trace_sample: plan.trace_sample,
            stopping: CancellationToken::new(),
            streams: Streams { tasks: tasks.clone(), cut: CancellationToken::new() },
            cluster,
            replicas: plan.cluster,
            reloading: Mutex::default(),
            saving: Mutex::default(),
        });
        for plan in &shared.plans {
            let model = plan.config().model.clone();
            if let Some(model) = model {
                shared.pool_for(&model, plan)?;
            }
        }
        shared.settle();
        for census::Counted { plan, finder, .. } in &shared.counted {
            if let Some(finder) = finder {
                tasks.spawn(discovering::discover(Arc::clone(&shared), Arc::clone(plan), Arc::clone(finder)));
            }
        }
        tasks.spawn(keeping::save_often(Arc::clone(&shared), stop.child_token()));
        tasks.spawn(funnel::read_often(Arc::clone(&shared), stop.child_token()));
        tasks.close();
        shared.tell_series("at the start");
        Ok(Self { shared, tasks, stop })
    }

    /// A request whose headers have come and whose body is still to be read; counted as cancelled if it is dropped.
    pub fn arrival(&self, endpoint: Endpoint, headers: &HeaderMap, received: Instant) -> Unread {
        let (request_id, trail) = self.shared.begin(route_label(endpoint), headers, received);
        Unread::new(Arc::clone(&self.shared), Arrival { endpoint, request_id, received, trail })
    }

    /// Serves one request. Every failure is a response too.
    pub async fn call(&self, inbound: Inbound) -> Response<RelayBody> {
        let (request_id, trail) = (inbound.arrival.request_id.clone(), inbound.arrival.trail.clone());
        let is_trusted = inbound.trusted;
        match self.shared.serve(inbound).instrument(trail.span()).await {
            Ok(response) => {
                trail.answered(response.status());
                response
            }
            Err(error) => {
                trail.refused(&error);
                error_response(&error, &request_id, is_trusted)
            }
        }
    }

    /// Answers a request whose body could not be taken.
    pub fn refuse(&self, unread: Unread, error: &RouteError) -> Response<RelayBody> {
        error_response(error, &unread.refused(error).request_id, false)
    }

    /// Counts a request to a path that is not served, which is answered with this status and code; gives its id.
    pub fn count_unmatched(
        &self,
        headers: &HeaderMap,
        status: StatusCode,
        code: &'static str,
    ) -> HeaderValue {
        self.shared.metrics.unknown_model().count(RouteLabel::Unmatched, RequestOutcome::Rejected);
        let (request_id, trail) = self.shared.begin(RouteLabel::Unmatched, headers, Instant::now());
        trail.unmatched(status, code);
        request_id
    }

    /// The served models, as `GET /v1/models` lists them.
    pub fn models(&self) -> ModelList {
        ModelList::of(&self.shared.pools.load())
    }

    /// Every worker, as `GET /api/workers` lists them.
    pub fn workers(&self) -> Vec<WorkerStatus> {
        WorkerStatus::all(&self.shared.roster, &self.shared.pools.load())
    }

    /// What would happen to a request now; it leaves no trace.
    pub async fn advise(&self, question: AdviceRequest) -> Result<DecisionRecord, RouteError> {
        self.shared.advise(question).await
    }

    /// The latest decisions of all pools, newest first, at most so many.
    pub fn decisions(&self, limit: usize) -> Vec<DecisionRecord> {
        decisions::latest(self.shared.pools.load().iter().map(|pool| pool.decisions()), limit)
    }

    /// A decision by its own id, or the newest one for the request of that id; `None` once it is forgotten.
    pub fn decision(&self, id: &str) -> Option<DecisionRecord> {
        decisions::find(self.shared.pools.load().iter().map(|pool| pool.decisions()), id)
    }

    /// The metrics.
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// `Err` with the reason while requests cannot be served, of any model or of one.
    ///
    /// # Errors
    /// The reason, without names of workers: whoever asks need not be trusted.
    pub fn readiness(&self, when: ReadyWhen) -> Result<(), String> {
        self.shared.readiness(when)
    }

    /// From now on the router is not ready; requests in flight go on.
    pub fn begin_stop(&self) {
        self.shared.stopping.cancel();
    }

    /// Turns away all who still wait, and then ends every stream that still runs with an error event: what that frees is
    /// for nobody any more.
    pub fn cut_streams(&self) {
        self.shared.turn_away();
        self.shared.streams.cut.cancel();
    }

    /// Ends every task. Requests in flight have ended, or are cut.
    pub async fn stop(&self) {
        self.begin_stop();
        self.cut_streams();
        keeping::save(&self.shared).await; // Before the workers leave, and with them what is known of their caches.
        self.stop.cancel();
        if let Some(cluster) = &self.shared.cluster {
            cluster.stop().await;
        }
        self.tasks.wait().await;
    }
}

// === impl Shared ===

impl Shared {
    /// The metrics.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// What guards and ends streams.
    pub(crate) const fn streams(&self) -> &Streams {
        &self.streams
    }

    /// What replicas are told through; `None` where nothing is shared.
    pub(crate) const fn cluster(&self) -> Option<&Arc<Cluster>> {
        self.cluster.as_ref()
    }

    /// Seed of the pools' random numbers.
    pub(crate) const fn seed(&self) -> u64 {
        self.seed
    }

    /// The name of a request, and its trail.
    fn begin(&self, endpoint: RouteLabel, headers: &HeaderMap, received: Instant) -> (HeaderValue, Trail) {
        let (request_id, trace) = (self.ids.of(headers), TraceContext::of(headers, self.trace_sample));
        let trail = Trail::begin(trace, &request_id, endpoint, received);
        (request_id, trail)
    }

    async fn serve(&self, inbound: Inbound) -> Result<Response<RelayBody>, RouteError> {
        let Inbound { arrival, headers, body, trusted, tenant } = inbound;
        let Arrival { endpoint, request_id, received, trail } = arrival;
        let request = Arc::new(self.parse(endpoint, body)?);
        trail.asks(request.model.as_deref(), request.stream);
        let hints = self.hints(endpoint, &headers, trusted)?;
        let pool = trail.waits(self.pool_of(&request)).await?;
        trail.belongs_to(pool.model().as_str());
        let started = Instant::now();
        let recorder = pool.metrics().request(shape(endpoint, &request));
        let stage = pool.stages(pool.first_phase()).enter(Stage::Preprocess);
        let counting = match pool.counter().count(&request, &pool).await {
            Ok(counting) => counting,
            Err(error) => return Err(rejected(recorder, RouteError::bad_request(error))),
        };
        stage.passed(started.elapsed());
        let hints = match self.bound(&pool, &request, hints) {
            Ok(hints) => hints,
            Err(error) => return Err(rejected(recorder, error)),
        };
        let prompt_lengths = counting.prompt_lengths();
        let route = Arc::new(Route {
            salt: tenant
                .filter(|_| endpoint.computes())
                .map(|tenant| tenant::salt(&tenant, request.cache_salt.as_deref())),
            request,
            counting: Arc::new(counting),
            prompt_lengths,
            hints,
            headers,
            request_id,
            received,
            trail,
            explains: trusted,
        });
        // Boxed: it holds the states of every way that a request can go.
        match Box::pin(pool.answer(&route, recorder, Vec::new())).await {
            Ok(answered) => Ok(answered.into_response(&route)),
            Err(unsent) => Err(self.unanswered(&pool, &route, unsent)),
        }
    }

    fn hints(&self, endpoint: Endpoint, headers: &HeaderMap, trusted: bool) -> Result<Hints, RouteError> {
        Hints::read(headers, trusted).inspect_err(|_| {
            self.metrics.unknown_model().count(route_label(endpoint), RequestOutcome::Rejected);
        })
    }

    pub(crate) fn check_pin(&self, pool: &Pool, hints: &Hints) -> Result<(), RouteError> {
        pool.check_pin(hints, &self.pools.load())
    }

    fn parse(&self, endpoint: Endpoint, body: Bytes) -> Result<ClientRequest, RouteError> {
        ClientRequest::parse(endpoint, body).map_err(|error| {
            self.metrics.unknown_model().count(route_label(endpoint), RequestOutcome::Rejected);
            RouteError::bad_request(error)
        })
    }
}

fn shape(endpoint: Endpoint, request: &ClientRequest) -> RequestShape {
    let prompts = u32::try_from(request.prompt.count()).unwrap_or(u32::MAX);
    let choices = request.choices.saturating_mul(prompts);
    RequestShape { endpoint: route_label(endpoint), streamed: request.stream, choices }
}

/// The metric label of an endpoint.
pub(crate) const fn route_label(endpoint: Endpoint) -> RouteLabel {
    match endpoint {
        Endpoint::ChatCompletions => RouteLabel::ChatCompletions,
        Endpoint::Completions => RouteLabel::Completions,
        Endpoint::Responses => RouteLabel::Responses,
        Endpoint::Messages => RouteLabel::Messages,
        Endpoint::Embeddings => RouteLabel::Embeddings,
        Endpoint::Rerank => RouteLabel::Rerank,
        Endpoint::Score => RouteLabel::Score,
        Endpoint::Tokenize => RouteLabel::Tokenize,
        Endpoint::Detokenize => RouteLabel::Detokenize,
    }
}

fn rejected(recorder: RequestRecorder, error: RouteError) -> RouteError {
    recorder.finish(RequestOutcome::Rejected);
    error
}
