//! What a pool is told, already validated: plain data, no parsing and no defaults that depend on a file format.

mod discovery;
mod faults;
mod twins;
mod worker_spec;
mod worker_url;

use std::path::PathBuf;
use std::time::Duration;

use kvroute_core::{BlockSize, ModelName, Tokens, WorkerId, WorkerRole};
use kvroute_engine::UpstreamTls;
use kvroute_select::{CostWeights, PolicyOptions, QueueOrder};
use kvroute_zmtp::Endpoint;
use tokio::time::Instant;

pub use self::discovery::{DiscoveryConfig, DiscoveryKind, DnsName};
pub use self::faults::{BreakerConfig, HealthConfig, RetryConfig};
pub use self::twins::{Twins, twins};
pub use self::worker_spec::{
    EXPECTED_EVENTS, EXPECTED_REPLAY, EXPECTED_ROLE, RankCount, SpecError, WorkerSpec, parse_events,
    parse_replay,
};
pub use self::worker_url::{EXPECTED_WORKER_URL, parse_worker_url};

/// Everything the router needs to run.
#[derive(Clone, Debug)]
pub struct RouterConfig {
    /// Pools as configured. Workers of a pool without a model are grouped by the model they turn out to serve.
    pub pools: Vec<PoolConfig>,
    /// Seed of tie-breaks and sampling: equal seeds and equal inputs give equal decisions.
    pub seed: u64,
    /// Share of the traces that begin here which are kept, 0 to 1; a client decides for its own.
    pub trace_sample: f64,
    /// What replicas share.
    pub cluster: ClusterConfig,
}

/// One served model.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// The pool's model; `None` takes it from the workers.
    pub model: Option<ModelName>,
    /// Further request model names that mean this pool.
    pub aliases: Vec<String>,
    /// Where token ids come from.
    pub tokenizer: TokenizerSource,
    /// Name of the selection policy, one of [`kvroute_select::policy::NAMES`].
    pub policy: String,
    /// What some policies may be told beside the weights.
    pub policy_options: PolicyOptions,
    /// Names of the policies that are asked beside it and obeyed by nobody.
    pub shadow: Vec<String>,
    /// Weights of the cost function.
    pub weights: CostWeights,
    /// Expected block size; `None` learns it from the engines.
    pub block_size: Option<BlockSize>,
    /// Look the index up beside a policy that does not need it.
    pub observe: bool,
    /// Whether prompts are tokenized and counted.
    pub count: CountMode,
    /// What is known of the workers' caches, and how.
    pub index: IndexConfig,
    /// What was ever computed, remembered to tell new text from lost cache.
    pub history: HistoryConfig,
    /// How requests wait while every worker is busy, or none is there.
    pub queue: QueueConfig,
    /// What is kept of the decisions.
    pub decisions: DecisionsConfig,
    /// What happens where an engine counts other tokens than the router.
    pub on_mismatch: OnMismatch,
    /// What happens to a request that no prefill worker can take.
    pub on_no_prefill: OnNoPrefill,
    /// Tokens of a prompt that a decode worker computes itself rather than have them handed over; zero: none.
    pub local_prefill: Tokens,
    /// How often one stream that breaks off may go on elsewhere.
    pub migrations: u32,
    /// How often the engines are asked for their own load; `None` never asks.
    pub engine_load: Option<Duration>,
    /// Limits of one upstream call.
    pub timeouts: Timeouts,
    /// When a worker's own failures take it out.
    pub breaker: BreakerConfig,
    /// How workers are asked whether they are well.
    pub health: HealthConfig,
    /// How often requests are sent again.
    pub retries: RetryConfig,
    /// How workers with an `https` address are verified, and what is shown to them.
    pub tls: UpstreamTls,
    /// The pool's static workers.
    pub workers: Vec<WorkerConfig>,
    /// Where further workers are found; `None`: nowhere.
    pub discovery: Option<DiscoveryConfig>,
}

/// Where a pool's token ids come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenizerSource {
    /// The workers' own tokenize endpoint.
    Engine,
    /// A folder with `tokenizer.json` and its chat template, or the file itself.
    Path(PathBuf),
}

/// Which pools must be able to take requests for the router to be called ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadyWhen {
    /// One of them: a model that nobody serves at the moment takes the others from nobody.
    #[default]
    Any,
    /// Every one.
    All,
}

/// How prompts are counted once the router's own tokenizer is found to disagree with an engine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnMismatch {
    /// By the engine's tokenize endpoint.
    Engine,
    /// Not at all: requests are routed by load.
    Load,
}

/// What happens to requests of a pool with prefill workers while none of them can take a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnNoPrefill {
    /// A decode or an aggregated worker computes the prompt too.
    Fallback,
    /// They wait, and are refused in the end.
    Strict,
}

/// Whether attempts of a pool are counted at selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountMode {
    /// The prompt is tokenized before selection: F0 is known.
    Exact,
    /// The prompt is not tokenized; only reports are taken.
    Off,
}

/// How a pool knows what its workers have cached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexConfig {
    /// Hard limit of what the index may occupy, for all workers of a pool together.
    pub bytes: usize,
    /// Which source of knowledge is used.
    pub source: IndexSource,
    /// How long a placed prompt is remembered for a worker that tells nothing, if nobody asks for it again.
    pub ttl: Duration,
    /// File that keeps the index over a restart of the router; `None` starts empty.
    pub snapshot: Option<PathBuf>,
}

/// Where knowledge of a worker's cache comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexSource {
    /// KV events where the worker publishes them, else the router's own memory of what it placed.
    Auto,
    /// KV events only: a worker without them stays invisible.
    Reported,
    /// The router's own memory only: KV events are not followed.
    Remembered,
}

/// How a pool remembers what was ever computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryConfig {
    /// Whether it does; it takes an index to be asked as well.
    pub enabled: bool,
    /// Whether generated text is remembered, too.
    pub outputs: HistoryOutputs,
    /// Hard limit of what it may occupy, all overhead included.
    pub bytes: usize,
    /// File that keeps it over a restart of the router; `None` starts empty.
    pub snapshot: Option<PathBuf>,
}

/// Where the ids of generated tokens come from, which the blocks of answers are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryOutputs {
    /// From engines that are known to give them when asked.
    Auto,
    /// Only prompts are remembered, and nobody is asked.
    Off,
    /// Every engine is asked.
    Ids,
}

/// What replicas of this router share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterConfig {
    /// Server that carries it, such as `nats://127.0.0.1:4222`; `None`: this replica is alone.
    pub nats: Option<String>,
    /// Whether histories are shared.
    pub replica_sync: bool,
}

/// How requests wait for a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// Requests that may wait at once; one more is refused. 0 lets nobody wait.
    pub limit: usize,
    /// How long one may wait.
    pub timeout: Duration,
    /// When a rank is busy: requests wait only while every rank that could take them is.
    pub threshold: BusyThreshold,
    /// Who is next.
    pub order: QueueOrder,
}

/// When a rank has enough to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusyThreshold {
    /// By the engine's batch size, where it is known.
    Auto,
    /// Never.
    Off,
    /// Above so many prefill tokens that are booked and not computed.
    Tokens(Tokens),
}

/// What is kept of the decisions, for those who ask why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DecisionsConfig {
    /// Share of the decisions that is kept, 0 to 1.
    pub sample: f64,
    /// Candidates kept of each.
    pub candidates: usize,
}

/// Limits of one upstream call, each with an error of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the connection stands.
    pub connect: Duration,
    /// From the request's last byte to the response's head.
    pub first_byte: Duration,
    /// Between two pieces of a response.
    pub idle: Duration,
    /// For the whole call.
    pub total: Duration,
}

/// One static worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerConfig {
    /// Base address, `http://host:port`.
    pub url: String,
    /// Which part of a request it takes.
    pub role: WorkerRole,
    /// Where its KV events come from.
    pub kv_events: EventEndpoint,
    /// Where lost KV events can be asked for.
    pub kv_replay: EventEndpoint,
    /// Data-parallel ranks; `None` asks the engine.
    pub dp_ranks: Option<u32>,
}

/// Address of a KV event socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum EventEndpoint {
    /// Ask the engine.
    #[default]
    Auto,
    /// The worker has none, or it is not wanted.
    None,
    /// Connect to `tcp://host:port`; rank r is at port + r.
    Connect(Endpoint),
    /// Bind `tcp://host:port` and let the publisher connect; rank r at port + r.
    Bind(Endpoint),
}

// === impl PoolConfig ===

impl PoolConfig {
    /// The defaults of the documentation, for a pool of the given workers.
    pub fn of_workers(workers: Vec<WorkerConfig>) -> Self {
        Self {
            model: None,
            aliases: Vec::new(),
            tokenizer: TokenizerSource::Engine,
            policy: "kv".to_owned(),
            policy_options: PolicyOptions::default(),
            shadow: Vec::new(),
            weights: CostWeights::default(),
            block_size: None,
            observe: false,
            count: CountMode::Exact,
            index: IndexConfig::default(),
            history: HistoryConfig::default(),
            queue: QueueConfig::default(),
            decisions: DecisionsConfig::default(),
            on_mismatch: OnMismatch::Engine,
            on_no_prefill: OnNoPrefill::Fallback,
            local_prefill: Tokens::ZERO,
            migrations: 1,
            engine_load: None,
            timeouts: Timeouts::default(),
            breaker: BreakerConfig::default(),
            health: HealthConfig::default(),
            retries: RetryConfig::default(),
            tls: UpstreamTls::default(),
            workers,
            discovery: None,
        }
    }
}

// === impl IndexConfig ===

impl Default for IndexConfig {
    fn default() -> Self {
        Self { bytes: 1 << 30, source: IndexSource::Auto, ttl: Duration::from_secs(120), snapshot: None }
    }
}

// === impl HistoryConfig ===

impl HistoryConfig {
    /// What a history may occupy unless it is told otherwise.
    pub const DEFAULT_BYTES: usize = 256 << 20;
}

impl Default for HistoryConfig {
    fn default() -> Self {
        Self { enabled: false, outputs: HistoryOutputs::Auto, bytes: Self::DEFAULT_BYTES, snapshot: None }
    }
}

// === impl QueueConfig ===

impl Default for QueueConfig {
    fn default() -> Self {
        Self {
            limit: 1000,
            timeout: Duration::from_secs(30),
            threshold: BusyThreshold::Auto,
            order: QueueOrder::Fcfs,
        }
    }
}

// === impl DecisionsConfig ===

impl Default for DecisionsConfig {
    fn default() -> Self {
        Self { sample: 1.0, candidates: 8 }
    }
}

// === impl Timeouts ===

impl Timeouts {
    /// The limit of the first piece of a stream, by its name and value, and when it is over: of an attempt that began and
    /// whose head came at these times. Until something comes `first_byte` holds, and `idle` where that lasts longer.
    pub(crate) fn first_piece(
        &self,
        began: Instant,
        head_came: Instant,
    ) -> (&'static str, Duration, Instant) {
        let (first_byte, idle) = (began + self.first_byte, head_came + self.idle);
        match first_byte > idle {
            true => ("first_byte", self.first_byte, first_byte),
            false => ("idle", self.idle, idle),
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(2),
            first_byte: Duration::from_secs(300),
            idle: Duration::from_secs(120),
            total: Duration::from_secs(3600),
        }
    }
}

// === impl WorkerConfig ===

impl WorkerConfig {
    /// The worker's name: host and port of its address.
    pub fn id(&self) -> WorkerId {
        let authority = self.url.split_once("://").map_or(self.url.as_str(), |(_, authority)| authority);
        WorkerId::new(authority.trim_end_matches('/'))
    }

    /// The host of its address, without brackets.
    pub fn host(&self) -> &str {
        let authority = self.url.split_once("://").map_or(self.url.as_str(), |(_, authority)| authority);
        let authority = authority.split('/').next().unwrap_or_default();
        match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, _port)) => host,
            None => authority.split_once(':').map_or(authority, |(host, _port)| host),
        }
    }

    /// A worker of which only the address is known.
    pub fn at(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            role: WorkerRole::Aggregated,
            kv_events: EventEndpoint::Auto,
            kv_replay: EventEndpoint::Auto,
            dp_ranks: None,
        }
    }
}
