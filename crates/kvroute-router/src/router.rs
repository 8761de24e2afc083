//! The router as a whole: from a request to a response, and from a configuration to running pools.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Response, StatusCode};
use kvroute_core::ModelName;
use kvroute_metrics::{Endpoint as RouteLabel, Metrics, RequestOutcome, RequestShape, Stage};
use kvroute_openai::{ClientRequest, Endpoint, Prompt};
use kvroute_select::UnknownPolicy;
use kvroute_tokenize::{LoadError, PromptTokenizer};
use rand::RngCore;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::{CountMode, PoolConfig, RouterConfig, TokenizerSource, WorkerConfig};
use crate::dispatch::{Call, dispatch};
use crate::error::{ErrorKind, RouteError};
use crate::pool::{Arrival, Pool};
use crate::relay::{RelayBody, Streams};
use crate::request_id::RequestIds;
use crate::status::{ModelList, WorkerStatus};
use crate::supervisor::Supervisor;
use crate::worker::Worker;

/// Why a router cannot start as configured.
#[derive(Debug, thiserror::Error)]
pub enum RouterError {
    /// The policy does not exist.
    #[error("pool.policy: {0}")]
    Policy(#[from] UnknownPolicy),
    /// The tokenizer cannot be loaded.
    #[error("pool.tokenizer: {0}")]
    Tokenizer(#[from] LoadError),
    /// A setting contradicts another one.
    #[error("{0}")]
    Contradiction(String),
}

/// One request as the data plane received it.
#[derive(Debug)]
pub struct Inbound {
    /// Where it was sent.
    pub endpoint: Endpoint,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its whole body.
    pub body: Bytes,
    /// When its headers had been received.
    pub received: Instant,
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
    workers: Vec<Arc<Worker>>,
    pools: ArcSwap<Vec<Arc<Pool>>>,
    ids: RequestIds,
    seed: u64,
    stopping: CancellationToken,
    streams: Streams,
}

/// A configuration that can work: checked, with its tokenizers loaded, before any port is bound.
#[derive(Debug)]
pub struct RouterPlan {
    pools: Vec<PoolPlan>,
    seed: u64,
}

/// A request whose body is being read.
#[derive(Debug)]
#[must_use = "dropping it counts the request as cancelled"]
pub struct Unread {
    shared: Arc<Shared>,
    endpoint: Endpoint,
    is_open: bool,
}

// === impl RouterPlan ===

impl RouterPlan {
    /// Checks the pools and loads their tokenizers.
    pub fn new(config: RouterConfig) -> Result<Self, RouterError> {
        let mut seeds = ChaCha8Rng::seed_from_u64(config.seed);
        refuse_twins(config.pools.iter().flat_map(|pool| &pool.workers))?;
        let pools = config.pools.into_iter().map(PoolPlan::new).collect::<Result<_, _>>()?;
        Ok(Self { pools, seed: seeds.next_u64() })
    }
}

// === impl Unread ===

impl Unread {
    /// The body has come: from here on the request is counted where it is served.
    pub fn read(mut self) {
        self.is_open = false;
    }

    fn refused(mut self, error: &RouteError) {
        self.is_open = false;
        let outcome = match error.kind() {
            ErrorKind::BodyBroken(_) => RequestOutcome::Cancelled,
            _ => RequestOutcome::Rejected,
        };
        self.shared.metrics.unknown_model().count(route_label(self.endpoint), outcome);
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        if self.is_open {
            let requests = self.shared.metrics.unknown_model();
            requests.count(route_label(self.endpoint), RequestOutcome::Cancelled);
        }
    }
}

// === impl Router ===

impl Router {
    /// Starts to ask the workers of a plan. Must be called in a runtime.
    pub fn start(plan: RouterPlan, metrics: Metrics) -> Result<Self, RouterError> {
        let watched = |plan: PoolPlan| {
            let watch = |worker: &WorkerConfig| Arc::new(Worker::new(worker.clone(), &metrics));
            let workers: Vec<_> = plan.config.workers.iter().map(watch).collect();
            (Arc::new(plan), workers)
        };
        let pools: Vec<_> = plan.pools.into_iter().map(watched).collect();
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let shared = Arc::new(Shared {
            workers: pools.iter().flat_map(|(_, workers)| workers.iter().cloned()).collect(),
            metrics,
            pools: ArcSwap::default(),
            ids: RequestIds::new(rand::random()),
            seed: plan.seed,
            stopping: CancellationToken::new(),
            streams: Streams { tasks: tasks.clone(), cut: CancellationToken::new() },
        });
        for (plan, workers) in pools {
            if let Some(model) = &plan.config.model {
                shared.pool_for(model, &plan)?;
            }
            for worker in workers {
                let shared = Arc::clone(&shared);
                tasks.spawn(Supervisor::new(shared, Arc::clone(&plan), worker, stop.child_token()).run());
            }
        }
        tasks.close();
        Ok(Self { shared, tasks, stop })
    }

    /// A request whose body is still to be read; counted as cancelled if it is dropped.
    pub fn arrival(&self, endpoint: Endpoint) -> Unread {
        Unread { shared: Arc::clone(&self.shared), endpoint, is_open: true }
    }

    /// Serves one request. Every failure is a response too.
    pub async fn call(&self, inbound: Inbound) -> Response<RelayBody> {
        let request_id = self.shared.ids.of(&inbound.headers);
        match self.shared.serve(inbound, &request_id).await {
            Ok(response) => response,
            Err(error) => error_response(&error, &request_id),
        }
    }

    /// Answers a request whose body could not be taken.
    pub fn refuse(&self, unread: Unread, headers: &HeaderMap, error: &RouteError) -> Response<RelayBody> {
        unread.refused(error);
        error_response(error, &self.shared.ids.of(headers))
    }

    /// Counts a request to a path that is not served.
    pub fn count_unmatched(&self) {
        self.shared.metrics.unknown_model().count(RouteLabel::Unmatched, RequestOutcome::Rejected);
    }

    /// The served models, as `GET /v1/models` lists them.
    pub fn models(&self) -> ModelList {
        ModelList::of(&self.shared.pools.load())
    }

    /// Every worker, as `GET /api/workers` lists them.
    pub fn workers(&self) -> Vec<WorkerStatus> {
        WorkerStatus::all(&self.shared.workers, &self.shared.pools.load())
    }

    /// The metrics.
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// `Err` with the reason while requests cannot be served.
    pub fn readiness(&self) -> Result<(), String> {
        self.shared.readiness()
    }

    /// From now on the router is not ready; requests in flight go on.
    pub fn begin_stop(&self) {
        self.shared.stopping.cancel();
    }

    /// Ends every stream that still runs with an error event.
    pub fn cut_streams(&self) {
        self.shared.streams.cut.cancel();
    }

    /// Ends every task. Requests in flight have ended, or are cut.
    pub async fn stop(&self) {
        self.begin_stop();
        self.cut_streams();
        self.stop.cancel();
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

    /// Seed of the pools' random numbers.
    pub(crate) const fn seed(&self) -> u64 {
        self.seed
    }

    /// The pool of a model, made by the plan if it does not exist yet.
    pub(crate) fn pool_for(&self, model: &ModelName, plan: &PoolPlan) -> Result<Arc<Pool>, RouterError> {
        let existing = |pools: &Vec<Arc<Pool>>| pools.iter().find(|pool| pool.model() == model).cloned();
        if let Some(pool) = existing(&self.pools.load()) {
            return Ok(pool);
        }
        let tokenizer = plan.tokenizer.clone();
        let made = Pool::new(model.clone(), plan.config.clone(), tokenizer, self)?;
        let made = Arc::new(made);
        self.pools.rcu(|pools| match existing(pools) {
            Some(_) => Arc::clone(pools),
            None => Arc::new(pools.iter().chain([&made]).cloned().collect()),
        });
        Ok(existing(&self.pools.load()).unwrap_or(made))
    }

    async fn serve(
        &self,
        inbound: Inbound,
        request_id: &HeaderValue,
    ) -> Result<Response<RelayBody>, RouteError> {
        let Inbound { endpoint, headers, body, received } = inbound;
        let started = Instant::now();
        let request = self.parse(endpoint, body)?;
        let pool = self.pool_of(&request)?;
        let recorder = pool.metrics().request(shape(endpoint, &request));
        let stage = pool.stages().enter(Stage::Preprocess);
        let request = Arc::new(request);
        let counting = match pool.counter().count(&request, &pool).await {
            Ok(counting) => counting,
            Err(error) => {
                recorder.finish(RequestOutcome::Rejected);
                return Err(RouteError::bad_request(error));
            }
        };
        stage.passed(started.elapsed());
        let arrival = Arrival { request: &request, counting, recorder, received };
        let attempt = match pool.place(arrival) {
            Ok(attempt) => attempt,
            Err((_none, recorder)) => {
                recorder.finish(RequestOutcome::Rejected);
                return Err(self.no_worker(&pool));
            }
        };
        let call = Call { request, headers, request_id: request_id.clone() };
        dispatch(attempt, &call).await
    }

    fn parse(&self, endpoint: Endpoint, body: Bytes) -> Result<ClientRequest, RouteError> {
        ClientRequest::parse(endpoint, body).map_err(|error| {
            self.metrics.unknown_model().count(route_label(endpoint), RequestOutcome::Rejected);
            RouteError::bad_request(error)
        })
    }

    fn pool_of(&self, request: &ClientRequest) -> Result<Arc<Pool>, RouteError> {
        self.find_pool(request.model.as_deref()).inspect_err(|_| {
            self.metrics.unknown_model().count(route_label(request.endpoint), RequestOutcome::Rejected);
        })
    }

    fn find_pool(&self, model: Option<&str>) -> Result<Arc<Pool>, RouteError> {
        let pools = self.pools.load();
        let served = || pools.iter().map(|pool| pool.model().as_str()).collect::<Vec<_>>().join(", ");
        if pools.is_empty() {
            return Err(RouteError::router(ErrorKind::NotReady { workers: problems(&self.workers) }));
        }
        match model {
            Some(name) => pools.iter().find(|pool| pool.serves(name)).cloned().ok_or_else(|| {
                RouteError::client(ErrorKind::UnknownModel { model: name.to_owned(), served: served() })
            }),
            None if pools.len() == 1 => Ok(Arc::clone(&pools[0])),
            None => Err(RouteError::client(ErrorKind::ModelMissing { served: served() })),
        }
    }

    fn no_worker(&self, pool: &Pool) -> RouteError {
        let ranks = &pool.fleet().ranks;
        let joined: BTreeMap<_, _> = ranks.iter().map(|rank| (rank.worker.id(), &rank.worker)).collect();
        let workers = match joined.is_empty() {
            true => "none serves it now".to_owned(),
            false => problems(joined.into_values()),
        };
        let model = pool.model().to_string();
        RouteError::router(ErrorKind::NoWorker { model, workers })
    }

    fn readiness(&self) -> Result<(), String> {
        if self.stopping.is_cancelled() {
            return Err("the router is stopping".to_owned());
        }
        let pools = self.pools.load();
        let mut occupied = pools.iter().filter(|pool| !pool.is_vacant()).peekable();
        if occupied.peek().is_none() {
            return Err(format!("no worker has answered its probe yet: {}", problems(&self.workers)));
        }
        let serves = |pool: &Pool| pool.fleet().ranks.iter().any(|rank| rank.worker.takes_requests());
        match occupied.find(|pool| !serves(pool)) {
            Some(pool) => Err(self.no_worker(pool).to_string()),
            None => Ok(()),
        }
    }
}

/// How the pools of one configured `[[pool]]` are made.
#[derive(Debug)]
pub(crate) struct PoolPlan {
    /// As configured.
    pub(crate) config: PoolConfig,
    /// Loaded once, before anything runs.
    tokenizer: Option<Arc<PromptTokenizer>>,
}

// === impl PoolPlan ===

impl PoolPlan {
    fn new(config: PoolConfig) -> Result<Self, RouterError> {
        check(&config)?;
        let tokenizer = load_tokenizer(&config)?;
        Ok(Self { config, tokenizer })
    }
}

fn check(pool: &PoolConfig) -> Result<(), RouterError> {
    let asks_index = kvroute_select::policy::by_name(&pool.policy)?.uses_index() || pool.observe;
    if asks_index && pool.count == CountMode::Off {
        let why = if pool.observe { "pool.observe".to_owned() } else { format!("policy {:?}", pool.policy) };
        return Err(RouterError::Contradiction(format!(
            "pool.count is \"off\", but {why} needs the prompt's tokens; set pool.count = \"exact\""
        )));
    }
    pool.weights.validate().map_err(|error| RouterError::Contradiction(format!("pool.kv.{error}")))
}

/// Two workers of one name would share one load and one set of series.
fn refuse_twins<'a>(workers: impl Iterator<Item = &'a WorkerConfig>) -> Result<(), RouterError> {
    let mut seen = BTreeSet::new();
    for worker in workers {
        let id = worker.id();
        if !seen.insert(id.clone()) {
            return Err(RouterError::Contradiction(format!(
                "worker {id} is configured twice; name each worker once and let dp_ranks tell its ranks"
            )));
        }
    }
    Ok(())
}

fn load_tokenizer(pool: &PoolConfig) -> Result<Option<Arc<PromptTokenizer>>, RouterError> {
    let TokenizerSource::Path(path) = &pool.tokenizer else { return Ok(None) };
    let tokenizer = PromptTokenizer::load(path)?;
    if let Some(problem) = tokenizer.template_problem() {
        tracing::warn!(
            path = %path.display(), problem,
            "chats cannot be tokenized here: they are routed by load and counted as uncounted with reason \
             \"template\"; mend the folder, or set pool.tokenizer = \"engine\""
        );
    }
    Ok(Some(Arc::new(tokenizer)))
}

fn shape(endpoint: Endpoint, request: &ClientRequest) -> RequestShape {
    let prompts = match &request.prompt {
        Prompt::Chat(_) => 1,
        Prompt::Texts { texts, .. } => texts.len(),
        Prompt::TokenLists(lists) => lists.len(),
    };
    let choices = request.choices.saturating_mul(u32::try_from(prompts).unwrap_or(u32::MAX));
    RequestShape { endpoint: route_label(endpoint), streamed: request.stream, choices }
}

const fn route_label(endpoint: Endpoint) -> RouteLabel {
    match endpoint {
        Endpoint::ChatCompletions => RouteLabel::ChatCompletions,
        Endpoint::Completions => RouteLabel::Completions,
    }
}

fn problems<'a>(workers: impl IntoIterator<Item = &'a Arc<Worker>>) -> String {
    let line = |worker: &Arc<Worker>| {
        format!("{} is {}: {}", worker.id(), worker.state().as_str(), worker.problem())
    };
    workers.into_iter().map(line).collect::<Vec<_>>().join("; ")
}

fn error_response(error: &RouteError, request_id: &HeaderValue) -> Response<RelayBody> {
    let status = error.status();
    match error.origin() {
        crate::error::Origin::Client => tracing::debug!(%status, %error, "request refused"),
        _ => tracing::warn!(%status, %error, "request failed"),
    }
    json_response(status, error.body().to_json(), request_id)
}

fn json_response(status: StatusCode, json: Bytes, request_id: &HeaderValue) -> Response<RelayBody> {
    let mut response = Response::new(RelayBody::whole(json));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(crate::headers::REQUEST_ID, request_id.clone());
    response
}
