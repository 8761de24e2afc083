//! The decision of `dynamo-kv-router`: its hashes, its default index, its scheduler with its default selector.
//!
//! Its scheduler is a task that requests are sent to. With one caller everything runs on the caller's thread, which
//! spares it every hop between threads; with several it runs on the runtime with two threads that it is made for, and
//! so does each call, whose time is taken there.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use dynamo_kv_router::config::{KvRouterConfig, RouterQueuePolicy};
use dynamo_kv_router::indexer::{MatchDetails, TieredMatchDetails};
use dynamo_kv_router::protocols::{
    BlockHashOptions, OverlapScores, RoutingConstraints, WorkerConfigLike, WorkerId,
    compute_block_hash_for_seq, compute_seq_hash_for_block,
};
use dynamo_kv_router::scheduling::{
    NoopOverlapScoresRefresh, OverlapAnalysis, OverlapSignals, PolicyProfile, ScheduleMode, ScheduleRequest,
};
use dynamo_kv_router::{
    ActiveSequencesMultiWorker, DefaultWorkerSelector, LocalScheduler, NoopSequencePublisher, WorkerType,
};
use kvroute_core::TokenId;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::contestant::{Callers, Contestant, Parts, Request};
use crate::index::contestant::Index;
use crate::index::dynamo::Compressed;
use crate::index::workload::{BLOCK_SIZE, Block, Event, tokens};

pub(crate) struct Dynamo {
    router: Arc<Router>,
    callers: Callers,
    stop: CancellationToken,
    runtime: Runtime,
}

struct Router {
    index: Compressed,
    scheduler: LocalScheduler<NoopSequencePublisher, Worker, DefaultWorkerSelector>,
    config: KvRouterConfig,
    workers: usize,
    /// Workers are read from the other end for as long as this one exists.
    _membership: watch::Sender<HashMap<WorkerId, Worker>>,
}

/// What the scheduler is told of a worker.
#[derive(Clone, Debug, PartialEq)]
struct Worker;

// === impl Dynamo ===

impl Dynamo {
    /// Runs a call where its callers run.
    fn run<T: Send + 'static>(&self, call: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
        match self.callers {
            Callers::One => self.runtime.block_on(call),
            Callers::Several => self.runtime.block_on(self.runtime.spawn(call)).context("a call was lost")?,
        }
    }
}

impl Contestant for Dynamo {
    const NAME: &'static str = "dynamo";

    type Room = ();
    type Placed = String;
    type Event = <Compressed as Index>::Event;

    fn new(workers: usize, callers: Callers) -> Result<Self> {
        let mut builder = match callers {
            Callers::One => Builder::new_current_thread(),
            Callers::Several => Builder::new_multi_thread(),
        };
        let runtime = builder.worker_threads(2).enable_time().build().context("cannot start a runtime")?;
        let stop = CancellationToken::new();
        let router = {
            let _entered = runtime.enter();
            Arc::new(Router::new(workers, &stop))
        };
        Ok(Self { router, callers, stop, runtime })
    }

    /// Names contents by the hashes that lookups will ask for.
    fn event(event: &Event) -> Self::Event {
        let Event::Store { worker, parent, blocks } = event else { return Compressed::event(event) };
        let named = |block: &Block| Block { content: content_hash(block.content), ..*block };
        let blocks = blocks.iter().map(named).collect();
        Compressed::event(&Event::Store { worker: *worker, parent: *parent, blocks })
    }

    fn apply(&self, event: Self::Event) {
        self.router.index.apply(&mut (), event);
    }

    fn flush(&self) {
        self.router.index.flush();
    }

    fn decide(&self, request: &Arc<Request>, (): &mut ()) -> Result<(String, Parts)> {
        let (router, asked) = (Arc::clone(&self.router), Arc::clone(request));
        let parts = self.run(async move { router.decide(&asked).await })?;
        Ok((request.id.clone(), parts))
    }

    fn first_token(&self, placed: &String) -> Result<Duration> {
        let (router, id) = (Arc::clone(&self.router), placed.clone());
        self.run(async move {
            let start = Instant::now();
            let noted = router.scheduler.mark_prefill_completed(&id).await;
            let took = start.elapsed();
            noted.map(|()| took).map_err(|error| anyhow!("dynamo knows no attempt: {error}"))
        })
    }

    fn release(&self, placed: String) -> Result<Duration> {
        let router = Arc::clone(&self.router);
        self.run(async move {
            let start = Instant::now();
            let noted = router.scheduler.free(&placed).await;
            let took = start.elapsed();
            noted.map(|()| took).map_err(|error| anyhow!("dynamo knows no attempt: {error}"))
        })
    }

    fn loads(&self) -> Vec<usize> {
        let loads = self.router.scheduler.get_potential_loads(None, 0, HashMap::default(), true);
        let mut in_flight = vec![0; self.router.workers];
        for load in loads {
            in_flight[load.worker_id as usize] += load.active_requests;
        }
        in_flight
    }
}

impl Drop for Dynamo {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

// === impl Router ===

impl Router {
    /// Tasks are spawned, so a runtime must be entered.
    fn new(workers: usize, stop: &CancellationToken) -> Self {
        let ids = || 0..workers as WorkerId;
        let label = WorkerType::Aggregated.default_selector_label();
        let config = KvRouterConfig::default();
        let slots = ActiveSequencesMultiWorker::new(
            NoopSequencePublisher,
            BLOCK_SIZE.get() as usize,
            ids().map(|id| (id, (0, 1))).collect(),
            false,
            0,
            label,
        );
        let (membership, members) = watch::channel(ids().map(|id| (id, Worker)).collect());
        let scheduler = LocalScheduler::new(
            Arc::new(slots),
            members,
            PolicyProfile::synthetic(config.router_queue_threshold, RouterQueuePolicy::default()),
            BLOCK_SIZE.get(),
            DefaultWorkerSelector::new(Some(config.clone()), label),
            None,
            None::<Arc<NoopOverlapScoresRefresh>>,
            None,
            None,
            config.router_queue_recheck_interval(),
            config.router_track_prefill_tokens,
            stop.clone(),
            label,
            false,
        );
        Self { index: Compressed::new(workers), scheduler, config, workers, _membership: membership }
    }

    async fn decide(&self, request: &Request) -> Result<Parts> {
        let (request_id, prompt) = (request.id.clone(), &request.prompts[0]);
        let start = Instant::now();
        let blocks = compute_block_hash_for_seq(prompt, BLOCK_SIZE.get(), BlockHashOptions::default());
        let sequence = compute_seq_hash_for_block(&blocks);
        let hash = start.elapsed();
        let mut overlap_scores = OverlapScores::default();
        self.index.find(&blocks, &mut overlap_scores);
        let device = MatchDetails { overlap_scores, ..MatchDetails::default() };
        let tiers = TieredMatchDetails { device, lower_tier: HashMap::new() };
        let overlap = OverlapAnalysis::new(&self.config, BLOCK_SIZE.get(), &tiers).signals();
        let found = start.elapsed();
        let asked = schedule_request(request_id, prompt.len(), sequence, overlap);
        let scheduled = self.scheduler.schedule_request(asked).await;
        let all = start.elapsed();
        scheduled.map_err(|error| anyhow!("dynamo picked no worker: {error}"))?;
        Ok(Parts { hash, lookup: found - hash, decide: all - found })
    }
}

// === impl Worker ===

impl WorkerConfigLike for Worker {
    fn data_parallel_start_rank(&self) -> u32 {
        0
    }

    fn data_parallel_size(&self) -> u32 {
        1
    }

    fn max_num_batched_tokens(&self) -> Option<u64> {
        Some(8192)
    }

    fn total_kv_blocks(&self) -> Option<u64> {
        Some(1 << 20)
    }
}

fn schedule_request(
    request_id: String,
    isl_tokens: usize,
    sequence: Vec<u64>,
    overlap: OverlapSignals,
) -> ScheduleRequest {
    ScheduleRequest {
        mode: ScheduleMode::Tracked { request_id },
        token_seq: Some(sequence),
        block_hashes: None,
        isl_tokens,
        lora_name: None,
        expected_output_tokens: None,
        affinity_target: None,
        pinned_worker: None,
        allowed_worker_ids: None::<HashSet<WorkerId>>,
        routing_constraints: RoutingConstraints::default(),
        router_config_override: None,
        priority_jump: 0.0,
        strict_priority: 0,
        policy_class: None,
        session_context: None,
        overlap,
        kv_transfer_candidates: None,
        retain_kv_transfer_chain: false,
        shared_cache_hits: None,
    }
}

/// What a content is called once its tokens are hashed.
fn content_hash(content: u64) -> u64 {
    let block: Vec<TokenId> = tokens(content).collect();
    let hashes = compute_block_hash_for_seq(&block, BLOCK_SIZE.get(), BlockHashOptions::default());
    hashes.first().map_or(0, |hash| hash.0)
}
