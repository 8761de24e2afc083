//! A small fleet that does everything once.

pub(crate) mod remembering;

use std::time::Duration;

use kvroute_core::{
    Blocks, DpRank, Exclusion, Figure, ModelName, Phase, PlacementReason, RemovalCause, ReportSource, Tokens,
    TokensPerSecond, WorkerId, WorkerLoad, WorkerRank, WorkerReport,
};
use kvroute_funnel::{
    AbsentLoss, AttemptLedger, CachedStages, Close, Count, LedgerTerms, MissingBlock, Opening,
    PendingDelivery, ReportExpectation, SelectionLosses, UnavailableLoss, UncountedReason,
};
use kvroute_metrics::{
    AttemptMetrics, CrewMetrics, DecisionMarks, DiscoveryMetrics, Endpoint, EventKind, IdentityCheck,
    IdentityMetrics, IdentityState, LatencyPart, Metrics, MetricsOptions, MigrationReason, Plane, PoolLabels,
    PoolMetrics, PrefillFallbackReason, QueueRefusal, RankMetrics, RefusedConnection, RejectReason,
    ReloadOutcome, RememberedMetrics, ReplayOutcome, RequestOutcome, RequestShape, RetryReason, RetryRefusal,
    SelectionOverlap, SourceMetrics, SourceState, Stage, WorkerMetrics, WorkerState, WorkerType,
};

use self::remembering::Remembering;

/// One model, one worker that publishes events, one that is remembered.
pub(crate) struct Fleet {
    pool: PoolMetrics,
    worker: WorkerMetrics,
    rank: RankMetrics,
    source: SourceMetrics,
    identity: IdentityMetrics,
    eventless: (WorkerMetrics, RankMetrics, SourceMetrics, RememberedMetrics),
    /// The model's workers and how they are found; only in a fleet that runs.
    _found: Option<(CrewMetrics, DiscoveryMetrics)>,
    /// A second model, which has a history; only in a fleet that runs.
    remembering: Option<Remembering>,
}

pub(crate) fn metrics() -> Metrics {
    Metrics::new(&MetricsOptions::default()).unwrap()
}

impl Fleet {
    pub(crate) fn join(metrics: &Metrics) -> Self {
        let model = ModelName::new("alpha");
        let pool = metrics.pool(&PoolLabels {
            model: &model,
            policy: "kv",
            reasons: &["lowest_cost", "tie"],
            shadows: &["random"],
            phases: &[Phase::Aggregated],
            counts_input: true,
            history: None,
        });
        let (first, second) = (WorkerId::new("w1"), WorkerId::new("w2"));
        let rank = WorkerRank::new(first.clone(), DpRank::new(0));
        let eventless = WorkerRank::new(second.clone(), DpRank::new(3));
        pool.index_view_exists();
        Self {
            worker: metrics.worker(&first, WorkerState::Starting),
            rank: metrics.rank(&rank, WorkerType::Decode),
            source: metrics.source(&rank, SourceState::Blind),
            identity: pool.identity(&first),
            eventless: (
                metrics.worker(&second, WorkerState::Ready),
                metrics.rank(&eventless, WorkerType::Prefill),
                metrics.source(&eventless, SourceState::Remembered),
                metrics.remembered(&eventless),
            ),
            pool,
            _found: None,
            remembering: None,
        }
    }

    pub(crate) fn run(metrics: &Metrics) -> Self {
        let remembering = Some(Remembering::run(metrics, "beta"));
        let fleet = Self { remembering, _found: Some(found(metrics)), ..Self::join(metrics) };
        fleet.sources();
        fleet.memory();
        fleet.attempts();
        fleet.deliveries();
        fleet.decisions(metrics);
        fleet.queue();
        fleet.requests(metrics);
        fleet.identity();
        fleet.handovers();
        fleet.worker.set_state(WorkerState::Ready);
        fleet.rank.set_recent(Tokens::new(3100));
        fleet.rank.set_engine_load(3, 1);
        fleet.rank.set_engine_load_age(Duration::from_millis(1500));
        fleet.rank.set_load(&WorkerLoad {
            prefill_tokens: Tokens::new(4000),
            decode_blocks: Blocks::new(70),
            active_requests: 2,
        });
        fleet
    }

    /// The model.
    pub(crate) fn pool(&self) -> &PoolMetrics {
        &self.pool
    }

    /// The model with a history.
    pub(crate) const fn remembering(&self) -> Option<&Remembering> {
        self.remembering.as_ref()
    }

    /// An attempt with an index view, still open.
    pub(crate) fn open_attempt(&self) -> AttemptLedger<AttemptMetrics> {
        open_attempt(&self.pool, &self.rank)
    }

    /// An attempt of which 112 promised tokens, beside the last block, still lack a reason.
    pub(crate) fn pending_delivery(&self) -> PendingDelivery<AttemptMetrics> {
        one_attempt(&self.pool, &self.rank)
    }

    fn sources(&self) {
        self.source.set_state(SourceState::Exact);
        self.source.set_blocks(Blocks::new(512));
        self.source.set_event_lag(Duration::from_millis(250));
        for (kind, count) in EventKind::ALL.into_iter().zip(1..) {
            self.source.events(kind, count);
        }
        for (reason, count) in RejectReason::ALL.into_iter().zip(1..) {
            self.source.rejected(reason, count);
        }
        self.source.gap();
        self.source.missed_batches(3);
        self.source.replay(ReplayOutcome::Complete);
        self.source.replay(ReplayOutcome::Short);
        self.source.restart();
    }

    /// The index in general, and the rank that is remembered.
    fn memory(&self) {
        self.pool.set_index_bytes(65_536);
        self.pool.index_budget_evicted(12);
        let (_, _, source, remembered) = &self.eventless;
        source.set_blocks(Blocks::new(40));
        remembered.set_blocks(Blocks::new(44));
        remembered.evicted(7);
        remembered.fallbacks(1);
        remembered.output_batches(5);
        remembered.rejected(2);
    }

    /// One attempt with a surplus, and one of each reason of a loss beyond the last block.
    fn deliveries(&self) {
        let run = |phase, reused| compared_attempt(&self.pool, phase, &self.rank, reused);
        assert!(run(Phase::Aggregated, 700).is_none());
        assert!(run(Phase::Prefill, 624).is_none());
        run(Phase::Aggregated, 560).unwrap().stale_index();
        run(Phase::Prefill, 0).unwrap().unexplained();
    }

    /// One attempt of each outcome, and of each reason not to count.
    fn attempts(&self) {
        let close = |reports: &[WorkerReport], close| {
            let mut ledger = self.open_attempt();
            ledger.dispatched();
            for report in reports {
                ledger.report(report);
            }
            drop(ledger.close(close));
        };
        close(&[report(1000, 512)], Close::Completed);
        close(&[report(1000, 1024)], Close::Completed);
        close(&[report(999, 512)], Close::Completed);
        close(&[invalid()], Close::Completed);
        close(&[], Close::Completed);
        close(&[], Close::Failed);
        drop(self.open_attempt());
        for reports in [ReportExpectation::Ambiguous, ReportExpectation::Excluded] {
            let opening = Opening { reports, ..indexed() };
            let sink = self.pool.attempt(Phase::Aggregated, &self.rank, speed());
            drop(AttemptLedger::open(opening, sink).close(Close::Completed));
        }
        for reason in UncountedReason::ALL {
            let count = Count::Uncounted(reason);
            let opening = Opening {
                count,
                history: None,
                reports: ReportExpectation::Expected,
                ledger: None,
                is_repeat: false,
            };
            let mut ledger =
                AttemptLedger::open(opening, self.pool.attempt(Phase::Aggregated, &self.eventless.1, None));
            ledger.dispatched();
            ledger.report(&report(300, 16));
            drop(ledger.close(Close::Completed));
        }
    }

    fn decisions(&self, metrics: &Metrics) {
        self.pool.decided("lowest_cost");
        self.pool.decision_recorded();
        self.pool.decision_unrecorded();
        self.pool.shadow("random", Tokens::new(1000), Tokens::new(160));
        self.pool.selected(Phase::Aggregated, SelectionOverlap { selected: 40.0, best: 52.5, prompt: 63.0 });
        self.pool.selected(Phase::Aggregated, SelectionOverlap { selected: 40.0, best: 40.0, prompt: 40.0 });
        let micros = Duration::from_micros;
        metrics.overhead().decided(&DecisionMarks {
            block_hashing: Some(micros(8)),
            sequence_hashing: Some(micros(12)),
            find_matches: Some(micros(30)),
            scheduled: micros(130),
        });
        metrics.overhead().decided(&DecisionMarks { scheduled: micros(5), ..DecisionMarks::default() });
    }

    /// One request that waited, one of each refusal.
    fn queue(&self) {
        let queue = self.pool.queue();
        drop(queue.entered());
        queue.waited(Duration::from_millis(700));
        for reason in QueueRefusal::ALL {
            queue.refused(reason);
        }
    }

    /// A worker that counts otherwise than the router.
    fn identity(&self) {
        for (result, times) in IdentityCheck::ALL.into_iter().zip(1..) {
            (0..times).for_each(|_| self.identity.checked(result));
        }
        self.identity.set_state(IdentityState::Mismatch);
        self.pool.tokenizer_cache().looked_up(Tokens::new(640), Tokens::new(360));
    }

    /// Each reason at another number.
    fn handovers(&self) {
        for (reason, times) in MigrationReason::ALL.into_iter().zip(1..) {
            (0..times).for_each(|_| self.pool.migrated(reason));
        }
        for (reason, times) in PrefillFallbackReason::ALL.into_iter().zip(1..) {
            (0..times).for_each(|_| self.pool.prefill_fell_back(reason));
        }
        for (reason, times) in RetryReason::ALL.into_iter().zip(1..) {
            (0..times).for_each(|_| self.pool.retried(reason));
        }
        for (reason, times) in RetryRefusal::ALL.into_iter().zip(1..) {
            (0..times).for_each(|_| self.pool.not_retried(reason));
        }
        self.pool.stranded(Tokens::new(1000));
    }

    fn requests(&self, metrics: &Metrics) {
        let stages = metrics.stages(Phase::Aggregated);
        stages.enter(Stage::Preprocess).passed(Duration::from_millis(2));
        stages.enter(Stage::Route).passed(Duration::from_micros(300));
        stages.enter(Stage::Dispatch).passed(Duration::from_millis(40));
        drop(stages.enter(Stage::Dispatch));
        self.pool.added_latency().added(LatencyPart::BeforeDispatch, Duration::from_micros(700));
        self.pool.added_latency().added(LatencyPart::PerChunk, Duration::from_micros(15));

        let shape = RequestShape { endpoint: Endpoint::ChatCompletions, streamed: true, choices: 1 };
        let mut streamed = self.pool.request(shape);
        streamed.served_by(&self.rank, Some(Tokens::new(1000)));
        for tick in 0..5 {
            streamed.chunks(0, 1, Duration::from_millis(100 + 20 * tick));
        }
        streamed.completion_tokens(Tokens::new(9));
        streamed.finish(RequestOutcome::Completed);

        let shape = RequestShape { endpoint: Endpoint::Completions, streamed: false, choices: 2 };
        let mut whole = self.pool.request(shape);
        whole.completion_tokens(Tokens::new(300));
        whole.finish(RequestOutcome::Completed);
        drop(self.pool.request(shape));
        self.pool.request(shape).finish(RequestOutcome::Failed);
        metrics.unknown_model().count(Endpoint::Unmatched, RequestOutcome::Rejected);
    }
}

/// Clients that came in vain: the reasons by plane are all different.
fn refused(metrics: &Metrics) {
    let mut times = 0;
    for plane in Plane::ALL {
        for reason in RefusedConnection::ALL {
            times += 1;
            (0..times).for_each(|_| metrics.connections().refuse(plane, reason));
        }
    }
}

/// Two workers of three are well, the discovery fails, and one of three new configurations was refused.
fn found(metrics: &Metrics) -> (CrewMetrics, DiscoveryMetrics) {
    let (crew, discovery) = (metrics.crew("alpha"), metrics.discovery("alpha"));
    crew.show(3, 2);
    discovery.succeeded();
    discovery.failed();
    discovery.set_age(Duration::from_millis(2500));
    metrics.reloads().count(ReloadOutcome::Applied);
    metrics.reloads().count(ReloadOutcome::Applied);
    metrics.reloads().count(ReloadOutcome::Refused);
    refused(metrics);
    (crew, discovery)
}

/// One completed attempt that reported, with what is left to decide of its loss.
pub(crate) fn one_attempt(pool: &PoolMetrics, rank: &RankMetrics) -> PendingDelivery<AttemptMetrics> {
    compared_attempt(pool, Phase::Aggregated, rank, 512).unwrap()
}

/// One completed attempt that was promised 640 of 1,000 tokens and reused so many.
pub(crate) fn compared_attempt(
    pool: &PoolMetrics,
    phase: Phase,
    rank: &RankMetrics,
    reused: u64,
) -> Option<PendingDelivery<AttemptMetrics>> {
    let mut ledger = AttemptLedger::open(indexed(), pool.attempt(phase, rank, speed()));
    ledger.report(&report(1000, reused));
    ledger.close(Close::Completed).pending
}

fn open_attempt(pool: &PoolMetrics, rank: &RankMetrics) -> AttemptLedger<AttemptMetrics> {
    AttemptLedger::open(indexed(), pool.attempt(Phase::Aggregated, rank, speed()))
}

/// Of 640 promised tokens the last 16 are never delivered.
fn indexed() -> Opening {
    let tokens = Tokens::new;
    let cached = CachedStages { anywhere: tokens(960), best: tokens(800), selected: tokens(640) };
    Opening {
        count: Count::Exact { input: tokens(1000), cached: Some(cached) },
        history: None,
        reports: ReportExpectation::Expected,
        ledger: Some(LedgerTerms { losses: losses(), reusable: tokens(624) }),
        is_repeat: false,
    }
}

/// What every rank of the script computes.
fn speed() -> Option<TokensPerSecond> {
    TokensPerSecond::new(1000.0)
}

/// Of the 40 tokens that are cached nowhere, 8 stand behind the last block and 32 were evicted.
fn losses() -> SelectionLosses {
    let tokens = Tokens::new;
    let evicted = MissingBlock { tokens: tokens(32), removed: Some(RemovalCause::Evicted), is_held: false };
    SelectionLosses {
        absent: AbsentLoss::Unavailable(UnavailableLoss::of(tokens(40), tokens(8), [[evicted]], false)),
        eligibility: Some(Exclusion::Unhealthy),
        placement: Some(PlacementReason::Load),
    }
}

fn report(prompt: u64, reused: u64) -> WorkerReport {
    WorkerReport { source: ReportSource::Usage, prompt: Figure::Count(prompt), reused: Figure::Count(reused) }
}

fn invalid() -> WorkerReport {
    WorkerReport { source: ReportSource::EngineData, prompt: Figure::Count(1000), reused: Figure::Invalid }
}
