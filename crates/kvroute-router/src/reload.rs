//! What of a new configuration a running router can take over, as a function of the two configurations.
//!
//! A pool's index, history, tokenizer and policy hold what was learned since the start, and its series were made for them:
//! whoever wants others starts a router anew. Everything else is looked up where it is used. The fields are taken apart
//! without a rest, so that a new one has to be put on one of the two sides.

use kvroute_core::{ModelName, WorkerId, WorkerRole};

use crate::config::{PoolConfig, Timeouts, WorkerConfig};
use crate::plan::PoolPlan;

/// What became of a new configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReloadReport {
    /// Settings that have another value now, such as `pool.migrations (of qwen)`.
    pub changed: Vec<String>,
    /// Settings of the new configuration that keep their old value until the router is restarted.
    pub needs_restart: Vec<String>,
    /// Workers that the configuration names now and did not name before.
    pub joining: Vec<WorkerId>,
    /// Workers that it does not name any more: they finish what they have and leave.
    pub leaving: Vec<WorkerId>,
}

/// What a pool is from now on, and what differs by name.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) config: PoolConfig,
    pub(crate) changed: Vec<&'static str>,
    pub(crate) fixed: Vec<&'static str>,
}

/// Which pool of the new configuration is which one of the running router.
#[derive(Debug, Default)]
pub(crate) struct Matched {
    /// Positions in the running router and in the new configuration.
    pub(crate) pairs: Vec<(usize, usize)>,
    /// Those that are new, by position.
    pub(crate) added: Vec<usize>,
    /// Those that are not configured any more, by position.
    pub(crate) removed: Vec<usize>,
}

/// Collects what differs.
struct Differences {
    changed: Vec<&'static str>,
    fixed: Vec<&'static str>,
}

// === impl Matched ===

impl Matched {
    /// Pools are known by their model; those that name none are told apart by their order.
    pub(crate) fn of(old: &[Option<ModelName>], new: &[Option<ModelName>]) -> Self {
        let mut matched = Self { added: (0..new.len()).collect(), ..Self::default() };
        for (position, model) in old.iter().enumerate() {
            match matched.added.iter().position(|candidate| new[*candidate] == *model) {
                Some(found) => matched.pairs.push((position, matched.added.remove(found))),
                None => matched.removed.push(position),
            }
        }
        matched
    }
}

// === impl Settled ===

impl Settled {
    /// From a pool as it is and as it is configured anew. What cannot change keeps its old value.
    pub(crate) fn of(old: &PoolConfig, new: PoolConfig) -> Self {
        let mut differ = Differences { changed: Vec::new(), fixed: Vec::new() };
        let PoolConfig {
            model: _,
            aliases,
            tokenizer,
            policy,
            policy_options,
            shadow,
            weights,
            block_size,
            observe,
            count,
            index,
            history,
            queue,
            decisions,
            on_mismatch,
            on_no_prefill,
            local_prefill,
            migrations,
            engine_load,
            timeouts,
            breaker,
            health,
            retries,
            tls: _,
            workers,
            discovery,
        } = new;
        let config = PoolConfig {
            model: old.model.clone(),
            aliases: differ.may("pool.aliases", &old.aliases, aliases),
            tokenizer: differ.must_not("pool.tokenizer", &old.tokenizer, &tokenizer),
            policy: differ.must_not("pool.policy", &old.policy, &policy),
            policy_options: differ.must_not("pool.sticky", &old.policy_options, &policy_options),
            shadow: differ.must_not("pool.shadow", &old.shadow, &shadow),
            weights: differ.may("pool.kv", &old.weights, weights),
            block_size: differ.must_not("pool.block_size", &old.block_size, &block_size),
            observe: differ.must_not("pool.observe", &old.observe, &observe),
            count: differ.must_not("pool.count", &old.count, &count),
            index: differ.must_not("pool.index", &old.index, &index),
            history: differ.must_not("pool.history", &old.history, &history),
            queue: differ.may("pool.queue", &old.queue, queue),
            decisions: differ.must_not("pool.decisions", &old.decisions, &decisions),
            on_mismatch: differ.may("pool.on_mismatch", &old.on_mismatch, on_mismatch),
            on_no_prefill: differ.may("pool.on_no_prefill", &old.on_no_prefill, on_no_prefill),
            local_prefill: differ.may("pool.local_prefill", &old.local_prefill, local_prefill),
            migrations: differ.may("pool.migrations", &old.migrations, migrations),
            engine_load: differ.must_not("pool.engine_load", &old.engine_load, &engine_load),
            timeouts: differ.timeouts(&old.timeouts, timeouts),
            breaker: differ.may("pool.breaker", &old.breaker, breaker),
            health: differ.may("pool.health", &old.health, health),
            retries: differ.may("pool.retries", &old.retries, retries),
            // Clients hold the handle; what it holds is replaced where the configuration is.
            tls: old.tls.clone(),
            workers,
            discovery: differ.must_not("pool.discovery", &old.discovery, &discovery),
        };
        let Differences { changed, fixed } = differ;
        Self { config, changed, fixed }
    }

    /// Leaves out the workers that cannot join a pool that runs, and names them.
    pub(crate) fn refuse_workers(&mut self, plan: &PoolPlan) -> Vec<WorkerId> {
        let may_join = |worker: &WorkerConfig| plan.may_have(worker.role);
        let (kept, refused) = std::mem::take(&mut self.config.workers).into_iter().partition(may_join);
        self.config.workers = kept;
        let refused: Vec<WorkerConfig> = refused;
        refused.iter().map(WorkerConfig::id).collect()
    }
}

// === impl Differences ===

impl Differences {
    /// The new value of a setting that may change.
    fn may<T: PartialEq>(&mut self, key: &'static str, old: &T, new: T) -> T {
        if *old != new {
            self.changed.push(key);
        }
        new
    }

    /// The old value of a setting that must not change.
    fn must_not<T: PartialEq + Clone>(&mut self, key: &'static str, old: &T, new: &T) -> T {
        if old != new {
            self.fixed.push(key);
        }
        old.clone()
    }

    /// Connections are made by a client of the pool's start.
    fn timeouts(&mut self, old: &Timeouts, new: Timeouts) -> Timeouts {
        let connect = self.must_not("pool.timeouts.connect", &old.connect, &new.connect);
        self.may("pool.timeouts", old, Timeouts { connect, ..new })
    }
}

// === impl ReloadReport ===

impl ReloadReport {
    /// What became of one pool. Its model is told where it has one.
    pub(crate) fn settled(&mut self, settled: &Settled) {
        let named = |key: &&'static str| match &settled.config.model {
            Some(model) => format!("{key} (of {model})"),
            None => (*key).to_owned(),
        };
        self.changed.extend(settled.changed.iter().map(named));
        self.needs_restart.extend(settled.fixed.iter().map(named));
    }

    /// What becomes of workers that the configuration named and names now.
    pub(crate) fn moved(&mut self, old: &[WorkerConfig], new: &[WorkerConfig]) {
        let without = |these: &[WorkerConfig], those: &[WorkerConfig]| -> Vec<_> {
            these.iter().filter(|worker| !those.contains(worker)).map(WorkerConfig::id).collect()
        };
        self.joining.extend(without(new, old));
        self.leaving.extend(without(old, new));
    }
}

/// How a pool that comes or goes with a configuration is called in the report.
pub(crate) fn pool_name(position: usize, model: Option<&ModelName>) -> String {
    model.map_or_else(|| format!("pool[{position}]"), |model| format!("the pool of {model}"))
}

/// How a worker that cannot join is called in the report.
pub(crate) fn refused_worker(worker: &WorkerId) -> String {
    let role = WorkerRole::Prefill.as_str();
    format!(
        "worker {worker} with role \"{role}\", in a pool that handed no prompts over when the router started"
    )
}

#[cfg(test)]
mod tests;
