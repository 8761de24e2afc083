//! This project's metrics, told of a request as its router does: labels were resolved to handles beforehand.

use anyhow::Result;
use kvroute_core::{DpRank, ModelName, Phase, WorkerId, WorkerRank};
use kvroute_funnel::{AttemptLedger, Close};
use kvroute_metrics::{
    DecisionMarks, Endpoint, Metrics, MetricsOptions, OverheadMetrics, PoolLabels, PoolMetrics, RankMetrics,
    RequestOutcome, RequestShape, Stage, StageMetrics, WorkerType,
};

use super::clock::Clock;
use super::contestant::{Answer, Telemetry};
use super::story::{POLICY, RANKS, REASONS, SHADOW, Story, model_name, worker_name};

pub(crate) struct Kvroute {
    metrics: Metrics,
    stages: StageMetrics,
    overhead: OverheadMetrics,
    models: Vec<Model>,
}

struct Model {
    pool: PoolMetrics,
    ranks: Vec<RankMetrics>,
}

// === impl Kvroute ===

impl Telemetry for Kvroute {
    const NAME: &'static str = "kvroute";

    fn new(models: usize) -> Result<Self> {
        let metrics = Metrics::new(&MetricsOptions::default())?;
        Ok(Self {
            stages: metrics.stages(Phase::Aggregated),
            overhead: metrics.overhead(),
            models: (0..models).map(|number| Model::new(&metrics, number)).collect(),
            metrics,
        })
    }

    fn stages(&self, clock: &mut impl Clock) {
        for stage in Stage::ALL {
            let (entered, since) = (self.stages.enter(stage), clock.elapsed());
            entered.passed(clock.elapsed() - since);
        }
    }

    fn decision(&self, model: usize, story: &Story, clock: &mut impl Clock) {
        let pool = &self.models[model].pool;
        self.overhead.decided(&DecisionMarks {
            block_hashing: Some(clock.elapsed()),
            sequence_hashing: Some(clock.elapsed()),
            find_matches: Some(clock.elapsed()),
            scheduled: clock.elapsed(),
        });
        pool.decided(story.reason);
        pool.selected(Phase::Aggregated, story.overlap);
        pool.shadow(SHADOW, story.input(), story.shadow);
        pool.decision_recorded();
    }

    fn attempt(&self, model: usize, story: &Story) {
        let Model { pool, ranks } = &self.models[model];
        let sink = pool.attempt(Phase::Aggregated, &ranks[story.rank], story.speed);
        let mut ledger = AttemptLedger::open(story.opening, sink);
        ledger.dispatched();
        ledger.report(&story.report);
        if let Some(loss) = ledger.close(Close::Completed).pending {
            loss.stale_index();
        }
    }

    fn answer(&self, model: usize, story: &Story, answer: Answer, clock: &mut impl Clock) {
        let Model { pool, ranks } = &self.models[model];
        let rank = &ranks[story.rank];
        let streamed = answer.is_streamed();
        let mut recorder =
            pool.request(RequestShape { endpoint: Endpoint::ChatCompletions, streamed, choices: 1 });
        recorder.served_by(rank, Some(story.input()));
        // Booked, and the prompt computed.
        rank.set_load(&story.load);
        rank.set_load(&story.load);
        for _ in 0..answer.pieces() {
            recorder.chunks(0, 1, clock.elapsed());
            rank.set_load(&story.load);
        }
        recorder.completion_tokens(story.output);
        // Released.
        rank.set_load(&story.load);
        recorder.finish(RequestOutcome::Completed);
    }

    fn exposition(&self) -> Result<String> {
        Ok(self.metrics.render())
    }
}

// === impl Model ===

impl Model {
    fn new(metrics: &Metrics, number: usize) -> Self {
        let model = ModelName::new(model_name(number));
        let pool = metrics.pool(&PoolLabels {
            model: &model,
            policy: POLICY,
            reasons: &REASONS,
            shadows: &[SHADOW],
            phases: &[Phase::Aggregated],
            counts_input: true,
            history: None,
        });
        pool.index_view_exists();
        let rank = |rank| WorkerRank::new(WorkerId::new(worker_name(number, rank)), DpRank::new(0));
        let ranks = (0..RANKS).map(|number| metrics.rank(&rank(number), WorkerType::Decode)).collect();
        Self { pool, ranks }
    }
}
