//! A new configuration for a running router: taken over as far as that is possible, or refused whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Router, Shared};
use crate::config::{PoolConfig, RouterConfig};
use crate::plan::{PoolPlan, RouterError, check, refuse_twins};
use crate::pool::Pool;
use crate::reload::{Matched, ReloadReport, Settled, pool_name, refused_worker};

// === impl Router ===

impl Router {
    /// Takes a new configuration over: workers, weights, limits and all else that may change while requests run. What may
    /// not is named in the report and keeps its value. Requests in flight go on; those that are placed from now on go by
    /// the new configuration. An error changes nothing.
    pub fn reload(&self, config: RouterConfig) -> Result<ReloadReport, RouterError> {
        self.shared.reload(config)
    }
}

// === impl Shared ===

impl Shared {
    fn reload(self: &Arc<Self>, config: RouterConfig) -> Result<ReloadReport, RouterError> {
        refuse_twins(&config.pools)?;
        config.pools.iter().try_for_each(check)?;
        let _one_at_a_time = self.reloading.lock();
        let mut report = ReloadReport::default();
        if config.trace_sample != self.trace_sample {
            report.needs_restart.push("tracing.sample".to_owned());
        }
        if config.cluster != self.replicas {
            report.needs_restart.push("cluster".to_owned());
        }
        let old: Vec<_> = self.plans.iter().map(|plan| plan.config().model.clone()).collect();
        let new: Vec<_> = config.pools.iter().map(|pool| pool.model.clone()).collect();
        let matched = Matched::of(&old, &new);
        let name = |position: &usize, models: &[_]| {
            let model: &Option<_> = &models[*position];
            pool_name(*position, model.as_ref())
        };
        report.needs_restart.extend(matched.added.iter().map(|position| name(position, &new)));
        report.needs_restart.extend(matched.removed.iter().map(|position| name(position, &old)));
        let mut pools: BTreeMap<_, _> = config.pools.into_iter().enumerate().collect();
        for (old, new) in matched.pairs {
            if let Some(config) = pools.remove(&new) {
                self.reload_plan(&self.plans[old], config, &mut report);
            }
        }
        self.settle();
        Ok(report)
    }

    fn reload_plan(&self, plan: &Arc<PoolPlan>, config: PoolConfig, report: &mut ReloadReport) {
        let old = Arc::clone(&plan.config());
        old.tls.replace_by(&config.tls);
        let mut settled = Settled::of(&old, config);
        report.needs_restart.extend(settled.refuse_workers(plan).iter().map(refused_worker));
        report.settled(&settled);
        report.moved(&old.workers, &settled.config.workers);
        let workers = settled.config.workers.clone();
        plan.reconfigure(settled.config);
        self.roster.want(plan, |wanted| wanted.configure(workers));
        for pool in self.pools.load().iter().filter(|pool| pool.is_of(plan)) {
            pool.reconfigured();
        }
    }
}

// === impl Pool ===

impl Pool {
    /// Takes over what is not looked up where it is used.
    fn reconfigured(&self) {
        let config = self.config();
        self.gate().configure(&config.queue);
        if config.migrations > 0 {
            self.metrics().migrates();
        }
        for rank in &self.fleet().ranks {
            rank.limit(config.queue.threshold);
        }
        self.gate().wake();
    }
}

#[cfg(test)]
mod tests;
