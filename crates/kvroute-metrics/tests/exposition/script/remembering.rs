//! A model with a history, shared with other replicas, that does everything once.

use std::time::Duration;

use kvroute_core::{
    BlockSize, Blocks, Direction, DpRank, MessageResult, ModelName, Phase, RemovalCause, SharingState,
    Tokens, WorkerId, WorkerRank,
};
use kvroute_funnel::{
    AbsentLoss, AttemptLedger, CachedStages, Close, Count, HistoryLoss, HistoryTerms, LedgerTerms,
    MissingBlock, Opening, ReportExpectation, SelectionLosses,
};
use kvroute_metrics::{
    AttemptMetrics, HistoryBounds, HistoryLevels, Metrics, PoolLabels, PoolMetrics, RankMetrics, WorkerType,
};

use super::{report, speed};

/// One model, one worker.
pub(crate) struct Remembering {
    pool: PoolMetrics,
    rank: RankMetrics,
}

/// A history with room for 1,000 blocks.
pub(crate) const BOUNDS: HistoryBounds = HistoryBounds { capacity: Blocks::new(1000), bytes: 16_384 };

impl Remembering {
    pub(crate) fn join(metrics: &Metrics, model: &str) -> Self {
        Self::with(metrics, model, Some(BOUNDS))
    }

    /// The same model, had it no history.
    pub(crate) fn without_history(metrics: &Metrics, model: &str) -> Self {
        Self::with(metrics, model, None)
    }

    fn with(metrics: &Metrics, model: &str, history: Option<HistoryBounds>) -> Self {
        let pool = metrics.pool(&PoolLabels {
            model: &ModelName::new(model),
            policy: "kv",
            reasons: &["lowest_cost"],
            shadows: &[],
            phases: &[Phase::Aggregated, Phase::Prefill],
            counts_input: true,
            history,
        });
        pool.index_view_exists();
        let name = WorkerRank::new(WorkerId::new(format!("of-{model}")), DpRank::new(0));
        Self { rank: metrics.rank(&name, WorkerType::Decode), pool }
    }

    /// The model.
    pub(crate) const fn pool(&self) -> &PoolMetrics {
        &self.pool
    }

    pub(crate) fn run(metrics: &Metrics, model: &str) -> Self {
        let fleet = Self::join(metrics, model);
        fleet.attempts();
        fleet.levels();
        share(metrics);
        fleet
    }

    /// One that was known further than it is cached and is learned, and one that is cached further than it was known and
    /// fails.
    fn attempts(&self) {
        let mut learned = self.attempt(Phase::Aggregated, 928);
        learned.report(&report(1000, 640));
        learned.taught();
        drop(learned.close(Close::Completed));
        let mut failed = self.attempt(Phase::Prefill, 480);
        failed.report(&report(1000, 640));
        drop(failed.close(Close::Failed));
    }

    fn levels(&self) {
        let history = self.pool.history().unwrap();
        history.show(&levels(700, Some(90)));
        history.untracked(Tokens::new(55));
        history.snapshot_written(Duration::from_millis(250));
    }

    /// An attempt with 1,000 tokens, of which 640 are cached and so many were known.
    pub(crate) fn attempt(&self, phase: Phase, history: u64) -> AttemptLedger<AttemptMetrics> {
        let sink = self.pool.attempt(phase, &self.rank, speed());
        AttemptLedger::open(observed(history), sink)
    }
}

/// A history with so many blocks of 16 tokens.
pub(crate) fn levels(blocks: u64, oldest: Option<u64>) -> HistoryLevels {
    HistoryLevels {
        blocks: Blocks::new(blocks),
        block_size: BlockSize::new(16).ok(),
        bytes: 12_000,
        capacity: BOUNDS.capacity,
        capacity_bytes: BOUNDS.bytes,
        oldest: oldest.map(Duration::from_secs),
    }
}

/// What replicas tell each other.
fn share(metrics: &Metrics) {
    let sharing = metrics.sharing();
    sharing.state(SharingState::On);
    for result in MessageResult::ALL {
        sharing.message(Direction::Received, result);
    }
    sharing.message(Direction::Sent, MessageResult::Ok);
    sharing.dropped(3);
    sharing.peers(2);
}

/// The first block behind what is cached was evicted, of the others nothing is known.
fn observed(history: u64) -> Opening {
    let tokens = Tokens::new;
    let (input, cached) = (tokens(1000), tokens(640));
    let stages = CachedStages { anywhere: cached, best: cached, selected: cached };
    let evicted = MissingBlock { tokens: tokens(16), removed: Some(RemovalCause::Evicted), is_held: false };
    let terms = HistoryTerms { input, history: tokens(history), anywhere: cached, partial: tokens(8) };
    let prompt = (tokens(history.saturating_sub(640)), [evicted]);
    let losses = SelectionLosses {
        absent: AbsentLoss::ByHistory(HistoryLoss::of(terms, [prompt], false)),
        eligibility: None,
        placement: None,
    };
    Opening {
        count: Count::Exact { input, cached: Some(stages) },
        history: Some(tokens(history)),
        reports: ReportExpectation::Expected,
        ledger: Some(LedgerTerms { losses, reusable: cached }),
        is_repeat: false,
    }
}
