//! A configuration that can work: what is wrong with it is said before a port is bound or a worker asked.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use kvroute_cluster::ClusterError;
use kvroute_core::{ModelName, Phase};
use kvroute_select::{UnknownPolicy, policy};
use kvroute_tokenize::{CacheCounts, LoadError, PromptTokenizer};
use parking_lot::Mutex;
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::config::{ClusterConfig, CountMode, PoolConfig, RouterConfig, TokenizerSource, WorkerConfig};
use crate::history::HistoryFile;
use crate::pool::{asks_index, phases_of};
use crate::roster::Crew;
use crate::snapshots::SnapshotFile;

/// Why a router cannot start as configured.
#[derive(Debug, thiserror::Error)]
pub enum RouterError {
    /// The policy does not exist.
    #[error("pool.policy: {0}")]
    Policy(#[from] UnknownPolicy),
    /// A shadow does not exist.
    #[error("pool.shadow: {0}")]
    Shadow(UnknownPolicy),
    /// The tokenizer cannot be loaded.
    #[error("pool.tokenizer: {0}")]
    Tokenizer(#[from] LoadError),
    /// The server of the replicas cannot be what is named.
    #[error("cluster.nats: {0}")]
    Cluster(#[from] ClusterError),
    /// A setting contradicts another one.
    #[error("{0}")]
    Contradiction(String),
}

/// A configuration that can work: checked, with its tokenizers loaded, before any port is bound.
#[derive(Debug)]
pub struct RouterPlan {
    pub(crate) pools: Vec<PoolPlan>,
    pub(crate) seed: u64,
    pub(crate) trace_sample: f64,
    pub(crate) cluster: ClusterConfig,
}

/// How the pools of one configured `[[pool]]` are made.
#[derive(Debug)]
pub(crate) struct PoolPlan {
    /// As configured, with what was changed since.
    config: ArcSwap<PoolConfig>,
    /// Whether its pools have workers that compute prompts for others: known from the start on.
    pub(crate) hands_over: bool,
    /// Its workers, whether they have joined one of its pools or not.
    pub(crate) crew: Arc<Crew>,
    /// Loaded once, before anything runs.
    pub(crate) tokenizer: Option<Arc<PromptTokenizer>>,
    /// What the tokenizer's cache had when it was last looked at: the pools of a plan share it, and each look is counted once.
    pub(crate) cache_seen: Mutex<CacheCounts>,
    /// What is kept of the index over a restart.
    pub(crate) snapshot: Option<SnapshotFile>,
    /// What is kept of the history over a restart.
    pub(crate) history: Option<Arc<HistoryFile>>,
}

// === impl RouterError ===

impl RouterError {
    /// Requests for the model could not tell which pool they mean.
    pub(crate) fn model_of_two_pools(model: &ModelName) -> Self {
        Self::Contradiction(format!(
            "model {model} is served by two pools; put their workers into one [[pool]]"
        ))
    }
}

// === impl RouterPlan ===

impl RouterPlan {
    /// Checks the pools and loads their tokenizers.
    pub fn new(config: RouterConfig) -> Result<Self, RouterError> {
        let mut seeds = ChaCha8Rng::seed_from_u64(config.seed);
        refuse_twins(&config.pools)?;
        let pools = config.pools.into_iter().map(PoolPlan::new).collect::<Result<_, _>>()?;
        let (seed, trace_sample) = (seeds.next_u64(), config.trace_sample);
        Ok(Self { pools, seed, trace_sample, cluster: config.cluster })
    }
}

// === impl PoolPlan ===

impl PoolPlan {
    fn new(config: PoolConfig) -> Result<Self, RouterError> {
        check(&config)?;
        let tokenizer = load_tokenizer(&config)?;
        let load = |path: &Path| SnapshotFile::load(path, &config);
        let snapshot = config.index.snapshot.as_deref().map(load).transpose()?;
        let history = open_history(&config)?;
        Ok(Self {
            hands_over: phases_of(&config).contains(&Phase::Prefill),
            config: ArcSwap::from_pointee(config),
            crew: Arc::default(),
            tokenizer,
            cache_seen: Mutex::default(),
            snapshot,
            history,
        })
    }

    /// The phases that attempts of its pools can have.
    pub(crate) const fn phases(&self) -> &'static [Phase] {
        if self.hands_over { &Phase::ALL } else { &[Phase::Aggregated] }
    }

    /// The configuration of this moment. Not to be held while something is awaited.
    pub(crate) fn config(&self) -> Guard<Arc<PoolConfig>> {
        self.config.load()
    }

    /// From now on it is configured so.
    pub(crate) fn reconfigure(&self, config: PoolConfig) {
        self.config.store(Arc::new(config));
    }
}

/// Where nothing is remembered its file is of no use, and said to be.
fn open_history(pool: &PoolConfig) -> Result<Option<Arc<HistoryFile>>, RouterError> {
    let policy = policy::by_name(&pool.policy, &pool.policy_options)?;
    if pool.history.enabled && !asks_index(pool, policy.as_ref()) {
        tracing::warn!(
            policy = pool.policy,
            "pool.history.enabled is of no use: the policy asks no index, so nothing is remembered and F1 stays absent; set \
             pool.observe = true"
        );
        return Ok(None);
    }
    if let Some(file) = pool.history.snapshot.as_deref().filter(|_| !pool.history.enabled) {
        let file = file.display();
        tracing::warn!(%file, "pool.history.snapshot is of no use without pool.history.enabled = true");
    }
    if pool.history.enabled {
        check_grantable(pool.history.bytes)?;
    }
    let path = pool.history.snapshot.as_deref().filter(|_| pool.history.enabled);
    let open = |path: &Path| HistoryFile::open(path).map(Arc::new);
    path.map(open).transpose()
}

/// A history takes all its memory at once, and a system that does not grant it ends the process without a name.
fn check_grantable(bytes: usize) -> Result<(), RouterError> {
    Vec::<u8>::new().try_reserve_exact(bytes).map_err(|_refusal| {
        RouterError::Contradiction(format!(
            "pool.history.bytes is {bytes}, which this system does not grant; lower it, or raise the limit of memory"
        ))
    })
}

/// What of a pool's configuration can be judged without touching anything.
pub(crate) fn check(pool: &PoolConfig) -> Result<(), RouterError> {
    let policy = policy::by_name(&pool.policy, &pool.policy_options)?;
    for name in &pool.shadow {
        policy::by_name(name, &pool.policy_options).map_err(RouterError::Shadow)?;
    }
    if asks_index(pool, policy.as_ref()) && pool.count == CountMode::Off {
        let why = match (pool.observe, policy.uses_index()) {
            (true, _) => "pool.observe".to_owned(),
            (false, true) => format!("policy {:?}", pool.policy),
            (false, false) => "pool.shadow".to_owned(),
        };
        return Err(RouterError::Contradiction(format!(
            "pool.count is \"off\", but {why} needs the prompt's tokens; set pool.count = \"exact\""
        )));
    }
    pool.weights.validate().map_err(|error| RouterError::Contradiction(format!("pool.kv.{error}")))
}

/// A worker and a model belong to one pool.
pub(crate) fn refuse_twins(pools: &[PoolConfig]) -> Result<(), RouterError> {
    refuse_twin_workers(pools.iter().flat_map(|pool| &pool.workers))?;
    refuse_twin_models(pools.iter().filter_map(|pool| pool.model.as_ref()))
}

/// Two workers of one name would share one load and one set of series.
fn refuse_twin_workers<'a>(workers: impl Iterator<Item = &'a WorkerConfig>) -> Result<(), RouterError> {
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

fn refuse_twin_models<'a>(models: impl Iterator<Item = &'a ModelName>) -> Result<(), RouterError> {
    let mut seen = BTreeSet::new();
    for model in models {
        if !seen.insert(model) {
            return Err(RouterError::model_of_two_pools(model));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_nobody_has_was_a_panic_without_a_name() {
        let mut pool = PoolConfig::of_workers(vec![WorkerConfig::at("http://a:1")]);
        (pool.history.enabled, pool.history.bytes) = (true, usize::MAX / 2);
        let error = PoolPlan::new(pool.clone()).unwrap_err().to_string();
        assert!(error.contains("pool.history.bytes"), "{error}");
        pool.history.enabled = false;
        PoolPlan::new(pool).unwrap();
    }
}
