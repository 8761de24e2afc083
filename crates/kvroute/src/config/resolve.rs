//! From raw values to what the router is told: defaults, and rules that look at several keys at once.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kvroute_core::{ModelName, WorkerRole};
use kvroute_metrics::{Metrics, MetricsOptions};
use kvroute_router::config::{
    ClusterConfig, CountMode, DecisionsConfig, HistoryConfig, IndexConfig, OnNoPrefill, QueueConfig,
    Timeouts, TokenizerSource, WorkerConfig,
};
use kvroute_router::{PoolConfig, RouterConfig};
use kvroute_select::{CostWeights, PolicyOptions, policy};
use kvroute_server::ServeConfig;

use super::problem::Problem;
use super::raw::{RawConfig, RawPool, RawSection};
use super::setting::Setting;
use super::value::{FilePath, SessionMode, Timeout, Weight};
use super::{discovery, faults, security, settings as key};

/// The policy that takes only requests whose caller names the worker.
const DIRECT: &str = "direct";

/// Resolves everything, or names the first rule that is broken.
pub(crate) fn resolve(raw: &RawConfig) -> Result<ServeConfig, Problem> {
    let root = &raw.root;
    let config = ServeConfig {
        listen: root.get(&key::SERVER_LISTEN)?,
        admin_listen: root.get(&key::SERVER_ADMIN_LISTEN)?,
        trusted: root.get(&key::SERVER_TRUSTED)?.0,
        api_keys: security::api_keys(root)?,
        max_body: root.get(&key::SERVER_MAX_BODY)?.0,
        ready: root.get(&key::SERVER_READY)?,
        drain: root.get(&key::SERVER_DRAIN)?,
        metrics: metrics(root)?,
        router: RouterConfig {
            pools: raw.pools.iter().map(pool).collect::<Result<_, _>>()?,
            seed: rand::random(),
            trace_sample: root.get(&key::TRACING_SAMPLE)?.0,
            cluster: cluster(root)?,
        },
        security: security::resolve(raw)?,
    };
    check_admin(&config)?;
    if config.listen == config.admin_listen && config.listen.port() != 0 {
        return Err(Problem::Rule(format!(
            "server.listen and server.admin_listen are both {}; give one of them another port",
            config.listen
        )));
    }
    check_pools(raw, &config.router.pools)?;
    check_direct(raw, &config)?;
    Ok(config)
}

/// Said here as well as at the start, so that `kvroute check` finds it.
fn check_admin(config: &ServeConfig) -> Result<(), Problem> {
    config.check_admin().map_err(|error| Problem::Rule(error.to_string()))
}

/// Building the families once is what proves that names and labels are usable.
fn metrics(root: &RawSection) -> Result<MetricsOptions, Problem> {
    let options = MetricsOptions {
        prefix: root.get(&key::METRICS_PREFIX)?.0,
        const_labels: root.get(&key::METRICS_CONST_LABELS)?.into_iter().collect(),
    };
    Metrics::new(&options).map_err(|error| Problem::Rule(format!("metrics: {error}")))?;
    Ok(options)
}

fn pool(raw: &RawPool) -> Result<PoolConfig, Problem> {
    let section = &raw.section;
    let config = PoolConfig {
        model: section.find(&key::POOL_MODEL)?.map(|model| ModelName::new(model.0)),
        aliases: section.get(&key::POOL_ALIASES)?,
        tokenizer: tokenizer(section)?,
        policy: section.get(&key::POOL_POLICY)?.0,
        policy_options: policy_options(section)?,
        shadow: section.get(&key::POOL_SHADOW)?.0,
        weights: weights(section)?,
        block_size: section.get(&key::POOL_BLOCK_SIZE)?.0,
        observe: section.get(&key::POOL_OBSERVE)?,
        count: section.get(&key::POOL_COUNT)?,
        index: index(section)?,
        history: history(section)?,
        queue: queue(section)?,
        decisions: decisions(section)?,
        on_mismatch: section.get(&key::POOL_ON_MISMATCH)?,
        on_no_prefill: section.get(&key::POOL_ON_NO_PREFILL)?,
        local_prefill: section.get(&key::POOL_LOCAL_PREFILL)?.0,
        migrations: section.get(&key::POOL_MIGRATIONS)?.0,
        engine_load: section.get(&key::POOL_ENGINE_LOAD)?.0,
        timeouts: timeouts(section)?,
        breaker: faults::breaker(section)?,
        health: faults::health(section)?,
        retries: faults::retries(section)?,
        tls: security::workers(section)?,
        workers: raw.workers.iter().map(worker).collect::<Result<_, _>>()?,
        discovery: discovery::resolve(section)?,
    };
    if config.workers.is_empty() && config.discovery.is_none() {
        return Err(Problem::Rule(format!(
            "{} has no worker; add [[pool.worker]] with its url or [pool.discovery], or give --worker URL",
            section.path()
        )));
    }
    check_roles(section, &config)?;
    check_shadow(section, &config)?;
    check_count(section, &config)?;
    Ok(config)
}

/// Only the file's presence: what is in it is the tokenizer's own business, with errors of its own.
fn tokenizer(section: &RawSection) -> Result<TokenizerSource, Problem> {
    let source = section.get(&key::POOL_TOKENIZER)?;
    if let TokenizerSource::Path(path) = &source
        && !path.exists()
    {
        return Err(Problem::Rule(format!(
            "{} is {path:?}, which does not exist; name a folder with tokenizer.json, or \"engine\"",
            section.path_of(&key::POOL_TOKENIZER.row)
        )));
    }
    Ok(source)
}

fn weights(section: &RawSection) -> Result<CostWeights, Problem> {
    let weight = |setting: &Setting<Weight>| section.get(setting).map(|weight| weight.0);
    Ok(CostWeights {
        prefill_scale: weight(&key::POOL_KV_PREFILL_SCALE)?,
        device: weight(&key::POOL_KV_DEVICE_WEIGHT)?,
        host: weight(&key::POOL_KV_HOST_WEIGHT)?,
        disk: weight(&key::POOL_KV_DISK_WEIGHT)?,
        decode: weight(&key::POOL_KV_DECODE_WEIGHT)?,
        request: weight(&key::POOL_KV_REQUEST_WEIGHT)?,
        recent: weight(&key::POOL_KV_RECENT_WEIGHT)?,
        temperature: weight(&key::POOL_KV_TEMPERATURE)?,
    })
}

fn policy_options(section: &RawSection) -> Result<PolicyOptions, Problem> {
    Ok(PolicyOptions {
        session_ttl: section.get(&key::POOL_STICKY_TTL)?.0,
        hard_sessions: section.get(&key::POOL_STICKY_MODE)? == SessionMode::Hard,
    })
}

fn queue(section: &RawSection) -> Result<QueueConfig, Problem> {
    Ok(QueueConfig {
        limit: section.get(&key::POOL_QUEUE_LIMIT)?.0,
        timeout: section.get(&key::POOL_QUEUE_TIMEOUT)?.0,
        threshold: section.get(&key::POOL_QUEUE_THRESHOLD)?,
        order: section.get(&key::POOL_QUEUE_ORDER)?,
    })
}

fn decisions(section: &RawSection) -> Result<DecisionsConfig, Problem> {
    Ok(DecisionsConfig {
        sample: section.get(&key::POOL_DECISIONS_SAMPLE)?.0,
        candidates: section.get(&key::POOL_DECISIONS_CANDIDATES)?.0,
    })
}

fn index(section: &RawSection) -> Result<IndexConfig, Problem> {
    Ok(IndexConfig {
        bytes: section.get(&key::POOL_INDEX_BYTES)?.0,
        source: section.get(&key::POOL_INDEX_SOURCE)?,
        ttl: section.get(&key::POOL_INDEX_TTL)?.0,
        snapshot: snapshot(section, &key::POOL_INDEX_SNAPSHOT)?,
    })
}

fn history(section: &RawSection) -> Result<HistoryConfig, Problem> {
    Ok(HistoryConfig {
        enabled: section.get(&key::POOL_HISTORY_ENABLED)?,
        outputs: section.get(&key::POOL_HISTORY_OUTPUTS)?,
        bytes: section.get(&key::POOL_HISTORY_BYTES)?.0,
        snapshot: snapshot(section, &key::POOL_HISTORY_SNAPSHOT)?,
    })
}

/// A file that can be made or replaced.
fn snapshot(section: &RawSection, setting: &Setting<FilePath>) -> Result<Option<PathBuf>, Problem> {
    let Some(FilePath(file)) = section.find(setting)? else { return Ok(None) };
    let path = section.path_of(&setting.row);
    if let Some(folder) = file.parent()
        && !folder.as_os_str().is_empty()
        && !folder.is_dir()
    {
        return Err(Problem::Rule(format!(
            "{path} is in {folder:?}, which is no folder; make it, or name a file in another one"
        )));
    }
    if file.exists() && !file.is_file() {
        return Err(Problem::Rule(format!(
            "{path} is {file:?}, which is no regular file; name a file of its own"
        )));
    }
    Ok(Some(file))
}

fn cluster(root: &RawSection) -> Result<ClusterConfig, Problem> {
    let nats = root.find(&key::CLUSTER_NATS)?.map(|servers| servers.0);
    let replica_sync = root.get(&key::CLUSTER_REPLICA_SYNC)?;
    if replica_sync && nats.is_none() {
        return Err(Problem::Rule(
            "cluster.replica_sync is true, but cluster.nats names no server that replicas could talk over; set it, such \
             as to \"nats://127.0.0.1:4222\", or set cluster.replica_sync to false"
                .to_owned(),
        ));
    }
    Ok(ClusterConfig { nats, replica_sync })
}

fn timeouts(section: &RawSection) -> Result<Timeouts, Problem> {
    let limit = |setting: &Setting<Timeout>| section.get(setting).map(|limit| limit.0);
    Ok(Timeouts {
        connect: limit(&key::POOL_TIMEOUTS_CONNECT)?,
        first_byte: limit(&key::POOL_TIMEOUTS_FIRST_BYTE)?,
        idle: limit(&key::POOL_TIMEOUTS_IDLE)?,
        total: limit(&key::POOL_TIMEOUTS_TOTAL)?,
    })
}

fn worker(section: &RawSection) -> Result<WorkerConfig, Problem> {
    Ok(WorkerConfig {
        url: section.get(&key::WORKER_URL)?.0,
        role: section.get(&key::WORKER_ROLE)?,
        kv_events: section.get(&key::WORKER_KV_EVENTS)?,
        kv_replay: section.get(&key::WORKER_KV_REPLAY)?.0,
        dp_ranks: section.get(&key::WORKER_DP_RANKS)?.0,
    })
}

/// Whoever computes prompts for others needs others, and whoever waits for a prompt somebody who computes it.
fn check_roles(section: &RawSection, pool: &PoolConfig) -> Result<(), Problem> {
    let has = |role: WorkerRole| pool.workers.iter().any(|worker| worker.role == role);
    let path = section.path();
    if has(WorkerRole::Prefill) && !has(WorkerRole::Decode) {
        return Err(Problem::Rule(format!(
            "{path} has workers with role \"prefill\" and none with role \"decode\", so nobody could take over what they \
             compute; add one, or make them \"aggregated\""
        )));
    }
    if has(WorkerRole::Decode) && !has(WorkerRole::Prefill) && pool.on_no_prefill == OnNoPrefill::Strict {
        return Err(Problem::Rule(format!(
            "{path} has workers with role \"decode\" and none with role \"prefill\", and its on_no_prefill is \"strict\", so \
             no request could ever be served; add one, or set on_no_prefill to \"fallback\""
        )));
    }
    Ok(())
}

/// Beside itself a policy would only compute everything twice, and where callers name the worker nothing is compared.
fn check_shadow(section: &RawSection, pool: &PoolConfig) -> Result<(), Problem> {
    let live = &pool.policy;
    let problem = if pool.shadow.contains(live) {
        format!("names \"{live}\", which is the pool's own policy already; take it out of the list")
    } else if pool.shadow.iter().any(|shadow| shadow == DIRECT) {
        format!("names \"{DIRECT}\", which picks nothing by itself; take it out of the list")
    } else if live == DIRECT && !pool.shadow.is_empty() {
        "is set, but requests whose caller names the worker are not compared, and policy \"direct\" takes no others; \
         set shadow to [], and observe to true to see what is cached"
            .to_owned()
    } else {
        return Ok(());
    };
    Err(Problem::Rule(format!("{} {problem}", section.path_of(&key::POOL_SHADOW.row))))
}

/// `count = "off"` knows no prompt, so nothing that looks prompts up can stand beside it.
fn check_count(section: &RawSection, pool: &PoolConfig) -> Result<(), Problem> {
    if pool.count == CountMode::Exact {
        return Ok(());
    }
    let count = section.path_of(&key::POOL_COUNT.row);
    let needs_tokens =
        policy::by_name(&pool.policy, &pool.policy_options).is_ok_and(|policy| policy.uses_index());
    if needs_tokens {
        return Err(Problem::Rule(format!(
            "{count} is \"off\", but policy \"{}\" needs the prompt's tokens; choose another policy or \"exact\"",
            pool.policy
        )));
    }
    if pool.observe {
        return Err(Problem::Rule(format!(
            "{count} is \"off\", but observe needs the prompt's tokens; set observe to false or count to \"exact\""
        )));
    }
    if !pool.shadow.is_empty() {
        return Err(Problem::Rule(format!(
            "{count} is \"off\", but shadow needs the prompt's tokens; set shadow to [] or count to \"exact\""
        )));
    }
    Ok(())
}

/// Where nobody is trusted, nobody can name a worker.
fn check_direct(raw: &RawConfig, config: &ServeConfig) -> Result<(), Problem> {
    if !config.trusted.is_empty() {
        return Ok(());
    }
    let pools = config.router.pools.iter().zip(&raw.pools);
    match pools.into_iter().find(|(pool, _)| pool.policy == DIRECT) {
        None => Ok(()),
        Some((_, raw_pool)) => Err(Problem::Rule(format!(
            "{} is \"direct\", which sends a request only where a trusted caller says, and server.trusted names no \
             caller: every request would be refused; set server.trusted to their networks or choose another policy",
            raw_pool.section.path_of(&key::POOL_POLICY.row)
        ))),
    }
}

/// Rules between pools: a request finds one pool by its model, a worker belongs to one pool.
fn check_pools(raw: &RawConfig, pools: &[PoolConfig]) -> Result<(), Problem> {
    if pools.is_empty() {
        let remedy = "give --worker URL, or --config FILE with [[pool]] and [[pool.worker]]";
        return Err(Problem::Rule(format!("no worker is configured; {remedy}")));
    }
    let mut names = BTreeMap::new();
    let mut urls = BTreeMap::new();
    let mut snapshots = BTreeMap::new();
    for (pool, raw_pool) in pools.iter().zip(&raw.pools) {
        let path = raw_pool.section.path();
        let model = pool.model.as_ref().map(ModelName::as_str);
        for name in model.into_iter().chain(pool.aliases.iter().map(String::as_str)) {
            if let Some(first) = names.insert(name, path) {
                return Err(Problem::Rule(format!(
                    "model name {name:?} stands in {first} and in {path}; keep one"
                )));
            }
        }
        for file in [&pool.index.snapshot, &pool.history.snapshot].into_iter().flatten() {
            let absolute = std::path::absolute(file).unwrap_or_else(|_empty| file.clone());
            if let Some(first) = snapshots.insert(absolute, path) {
                return Err(Problem::Rule(format!(
                    "snapshot {file:?} stands in {first} and in {path}; give each index and each history its own file"
                )));
            }
        }
        for (worker, section) in pool.workers.iter().zip(&raw_pool.workers) {
            if let Some(first) = urls.insert(worker.url.as_str(), section.path()) {
                let url = &worker.url;
                let path = section.path();
                return Err(Problem::Rule(format!("worker {url} stands in {first} and in {path}; keep one")));
            }
        }
    }
    Ok(())
}
