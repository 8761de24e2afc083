//! The pools of a router: made once a worker says what it serves, and closed when the router stops.

use std::sync::Arc;

use kvroute_core::ModelName;

use super::Shared;
use crate::config::ReadyWhen;
use crate::keeper::keep;
use crate::lane::Lane;
use crate::plan::{PoolPlan, RouterError};
use crate::pool::Pool;
use crate::reload::pool_name;

// === impl Shared ===

impl Shared {
    /// The pool of a model, made by the plan if it does not exist yet.
    pub(crate) fn pool_for(&self, model: &ModelName, plan: &Arc<PoolPlan>) -> Result<Arc<Pool>, RouterError> {
        let existing = |pools: &[Arc<Pool>]| pools.iter().find(|pool| pool.model() == model).cloned();
        if existing(&self.pools.load()).is_none() {
            let made = Arc::new(Pool::new(model.clone(), Arc::clone(plan), self)?);
            self.streams.tasks.spawn(keep(Arc::downgrade(&made), self.streams.cut.clone()));
            self.pools.rcu(|pools| match existing(pools) {
                Some(_) => Arc::clone(pools),
                None => Arc::new(pools.iter().chain([&made]).cloned().collect()),
            });
            if self.closing.is_cancelled() {
                made.gate().close();
            }
            self.first_worker.came();
        }
        match existing(&self.pools.load()) {
            Some(pool) if pool.is_of(plan) => Ok(pool),
            _ => Err(RouterError::model_of_two_pools(model)),
        }
    }

    /// Turns away all who wait, and whoever comes.
    pub(super) fn turn_away(&self) {
        self.closing.cancel();
        for pool in self.pools.load().iter() {
            pool.gate().close();
        }
    }

    /// `Err` with the reason while requests cannot be served, in words for everybody.
    pub(super) fn readiness(&self, when: ReadyWhen) -> Result<(), String> {
        if self.stopping.is_cancelled() {
            return Err("the router is stopping".to_owned());
        }
        let pools = self.pools.load();
        let occupied = pools.iter().filter(|pool| !pool.is_vacant());
        let (serving, idle): (Vec<_>, Vec<_>) = occupied.partition(|pool| pool.takes_requests());
        match (when, idle.first()) {
            (_, None) if serving.is_empty() => Err("no worker has answered its probe yet".to_owned()),
            (ReadyWhen::Any, Some(_)) if !serving.is_empty() => Ok(()),
            (_, Some(pool)) => {
                Err(self.no_worker(pool, &Lane::any(pool.lacking_phase())).public_body().message)
            }
            (ReadyWhen::Any, None) => Ok(()),
            (ReadyWhen::All, None) => self.all_are_among(&serving),
        }
    }

    /// `Err` where a configured pool is none of these, because none of its workers has answered.
    fn all_are_among(&self, serving: &[&Arc<Pool>]) -> Result<(), String> {
        let is_missing = |plan: &Arc<PoolPlan>| !serving.iter().any(|pool| pool.is_of(plan));
        let Some(number) = self.plans.iter().position(is_missing) else { return Ok(()) };
        let name = pool_name(number, self.plans[number].config().model.as_ref());
        Err(format!("no worker of {name} has answered its probe yet"))
    }
}
