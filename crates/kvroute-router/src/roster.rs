//! Who works for the router: every worker that is configured, was added or was discovered, and is not gone yet.
//!
//! What is wanted is written down by those who know it ([`wanted`]), and one step makes the difference to what is there
//! ([`changes`]). So it does not matter who speaks first or how often, and a worker that is wanted again before it is gone
//! is called back. Whoever looks sees one list of one moment, without a lock. A worker that is not wanted any more takes no
//! new requests, finishes those that it has, and only then leaves, with all that was kept for it.

pub(crate) mod changes;
mod error;
mod wanted;

use std::sync::Arc;

use arc_swap::ArcSwap;
use kvroute_core::WorkerId;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::config::WorkerConfig;
use crate::plan::PoolPlan;
use crate::worker::Worker;
use changes::{Change, Present, Stage, Wish, changes};

pub use error::RosterError;
pub(crate) use wanted::{Wanted, WorkerSource};

/// The workers of one moment, of one plan or of all.
#[derive(Debug, Default)]
pub(crate) struct Crew(ArcSwap<Vec<Arc<Worker>>>);

/// Every worker of the router.
#[derive(Debug)]
pub(crate) struct Roster {
    all: Crew,
    state: Mutex<State>,
}

/// What is wanted, and what is there.
#[derive(Debug)]
struct State {
    plans: Vec<(Arc<PoolPlan>, Wanted)>,
    posts: Vec<Post>,
}

/// One worker and what is to become of it.
#[derive(Clone, Debug)]
pub(crate) struct Post {
    pub(crate) worker: Arc<Worker>,
    pub(crate) plan: Arc<PoolPlan>,
    /// Ends its supervision.
    pub(crate) stop: CancellationToken,
    /// Cancelled once nothing of it runs any more.
    pub(crate) done: CancellationToken,
    stage: Stage,
    /// Whether somebody asked that it takes nothing, for as long as it is there.
    is_drained: bool,
}

/// What whoever runs the tasks has to do.
#[derive(Debug)]
pub(crate) enum Step {
    /// Watch a worker that has just come.
    Start(Post),
    /// Let a worker leave once it has finished what it has.
    Leave(Post),
    /// Nothing: it stays after all, and takes requests again.
    Stays(Post),
}

// === impl Crew ===

impl Crew {
    /// These workers, for good measure.
    #[cfg(test)]
    pub(crate) fn of(workers: Vec<Arc<Worker>>) -> Self {
        Self(ArcSwap::from_pointee(workers))
    }

    /// The workers of this moment, in the order in which they came.
    pub(crate) fn now(&self) -> Arc<Vec<Arc<Worker>>> {
        self.0.load_full()
    }
}

// === impl Roster ===

impl Roster {
    /// Nobody is there yet, and those that the plans name are wanted.
    pub(crate) fn new(plans: &[Arc<PoolPlan>]) -> Self {
        let wanted =
            |plan: &Arc<PoolPlan>| (Arc::clone(plan), Wanted::configured(plan.config().workers.clone()));
        let state = State { plans: plans.iter().map(wanted).collect(), posts: Vec::new() };
        Self { all: Crew::default(), state: Mutex::new(state) }
    }

    /// Every worker of this moment.
    pub(crate) fn all(&self) -> Arc<Vec<Arc<Worker>>> {
        self.all.now()
    }

    /// Makes of what is there what is wanted, as far as that can be done at once; what is left to do takes its time.
    pub(crate) fn settle(&self, make: impl Fn(&WorkerConfig) -> Worker) -> Vec<Step> {
        let mut state = self.state.lock();
        let due = state.changes();
        let steps = due.into_iter().filter_map(|change| state.apply(change, &make)).collect();
        self.publish(&state);
        steps
    }

    /// Changes what is wanted of a plan. [`Roster::settle`] is to follow.
    pub(crate) fn want<T>(&self, plan: &Arc<PoolPlan>, change: impl FnOnce(&mut Wanted) -> T) -> Option<T> {
        let mut state = self.state.lock();
        let (_, wanted) = state.plans.iter_mut().find(|(known, _)| Arc::ptr_eq(known, plan))?;
        Some(change(wanted))
    }

    /// Somebody asks for one more worker. [`Roster::settle`] is to follow.
    pub(crate) fn add(&self, plan: &Arc<PoolPlan>, config: WorkerConfig) -> Result<(), RosterError> {
        let mut state = self.state.lock();
        let id = config.id();
        match state.posts.iter().find(|post| *post.worker.id() == id).map(|post| post.stage) {
            Some(Stage::Works) => return Err(RosterError::Exists(id)),
            Some(Stage::Leaves | Stage::Ends) => return Err(RosterError::Leaving(id)),
            None => {}
        }
        if let Some((_, wanted)) = state.plans.iter_mut().find(|(known, _)| Arc::ptr_eq(known, plan)) {
            wanted.add(config);
        }
        Ok(())
    }

    /// Somebody asks that a worker leaves. It stays away even where it is configured or discovered, until it is named anew.
    /// [`Roster::settle`] is to follow.
    pub(crate) fn remove(&self, id: &WorkerId) -> Result<(), RosterError> {
        let mut state = self.state.lock();
        let plan = Arc::clone(&state.post(id)?.plan);
        if let Some((_, wanted)) = state.plans.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &plan)) {
            wanted.dismiss(id);
        }
        Ok(())
    }

    /// Whether somebody asks that a worker takes no new requests. One that leaves takes none anyway.
    pub(crate) fn drain(&self, id: &WorkerId, is_drained: bool) -> Result<Post, RosterError> {
        let mut state = self.state.lock();
        let post = state.posts.iter_mut().find(|post| post.worker.id() == id);
        let post = post.ok_or_else(|| RosterError::Unknown(id.clone()))?;
        if !is_drained && post.stage != Stage::Works {
            return Err(RosterError::Leaving(id.clone()));
        }
        post.is_drained = is_drained;
        post.show();
        Ok(post.clone())
    }

    /// Whether a worker is still on its way out, and not called back.
    pub(crate) fn is_leaving(&self, worker: &Arc<Worker>) -> bool {
        let state = self.state.lock();
        state.posts.iter().any(|post| Arc::ptr_eq(&post.worker, worker) && post.stage == Stage::Leaves)
    }

    /// The worker has finished what it had: from now on it cannot be called back. False if it was, or if somebody else has
    /// seen this.
    pub(crate) fn end(&self, worker: &Arc<Worker>) -> bool {
        let mut state = self.state.lock();
        let is_meant = |post: &&mut Post| Arc::ptr_eq(&post.worker, worker) && post.stage == Stage::Leaves;
        let ending = state.posts.iter_mut().find(is_meant);
        let is_ending = ending.is_some();
        if let Some(post) = ending {
            post.stage = Stage::Ends;
        }
        is_ending
    }

    /// Nothing of the worker is left. [`Roster::settle`] is to follow: somebody may want another one of its name.
    pub(crate) fn gone(&self, worker: &Arc<Worker>) {
        let mut state = self.state.lock();
        state.posts.retain(|post| !Arc::ptr_eq(&post.worker, worker));
        self.publish(&state);
    }

    /// Where a worker comes from; `None` once it is gone.
    pub(crate) fn source(&self, worker: &Arc<Worker>) -> Option<WorkerSource> {
        let state = self.state.lock();
        let post = state.posts.iter().find(|post| Arc::ptr_eq(&post.worker, worker))?;
        let (_, wanted) = state.plans.iter().find(|(plan, _)| Arc::ptr_eq(plan, &post.plan))?;
        wanted.source(worker.id())
    }

    /// Lets everybody see who is there.
    fn publish(&self, state: &State) {
        let of = |is_meant: &dyn Fn(&Post) -> bool| {
            let meant = state.posts.iter().filter(|post| is_meant(post));
            Arc::new(meant.map(|post| Arc::clone(&post.worker)).collect())
        };
        for (plan, _) in &state.plans {
            plan.crew.0.store(of(&|post| Arc::ptr_eq(&post.plan, plan)));
        }
        self.all.0.store(of(&|_| true));
    }
}

// === impl State ===

impl State {
    fn post(&self, id: &WorkerId) -> Result<&Post, RosterError> {
        let post = self.posts.iter().find(|post| post.worker.id() == id);
        post.ok_or_else(|| RosterError::Unknown(id.clone()))
    }

    /// What must change so that those are there who are wanted.
    fn changes(&self) -> Vec<Change> {
        let position =
            |plan: &Arc<PoolPlan>| self.plans.iter().position(|(known, _)| Arc::ptr_eq(known, plan));
        let present = self.posts.iter().map(|post| Present {
            plan: position(&post.plan).unwrap_or(usize::MAX),
            config: post.worker.config(),
            stage: post.stage,
        });
        let wishes = self
            .plans
            .iter()
            .enumerate()
            .flat_map(|(plan, (_, wanted))| wanted.workers().map(move |config| Wish { plan, config }));
        changes(&present.collect::<Vec<_>>(), &wishes.collect::<Vec<_>>())
    }

    fn apply(&mut self, change: Change, make: impl Fn(&WorkerConfig) -> Worker) -> Option<Step> {
        match change {
            Change::Add { plan, config } => {
                let post = Post::of(Arc::new(make(&config)), Arc::clone(&self.plans.get(plan)?.0));
                self.posts.push(post.clone());
                Some(Step::Start(post))
            }
            Change::Leave(id) => self.enter(&id, Stage::Leaves).map(Step::Leave),
            Change::CallBack(id) => self.enter(&id, Stage::Works).map(Step::Stays),
        }
    }

    fn enter(&mut self, id: &WorkerId, stage: Stage) -> Option<Post> {
        let post = self.posts.iter_mut().find(|post| post.worker.id() == id)?;
        post.stage = stage;
        post.show();
        Some(post.clone())
    }
}

// === impl Post ===

impl Post {
    fn of(worker: Arc<Worker>, plan: Arc<PoolPlan>) -> Self {
        Self {
            worker,
            plan,
            stop: CancellationToken::new(),
            done: CancellationToken::new(),
            stage: Stage::Works,
            is_drained: false,
        }
    }

    /// Lets decisions see whether it takes requests.
    fn show(&self) {
        self.worker.set_draining(self.is_drained || self.stage != Stage::Works);
    }
}

#[cfg(test)]
mod tests;
