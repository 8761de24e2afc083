//! A scrape holds a family's lock while it reads the series. No request may wait for it.

use std::time::Duration;

use kvroute_core::{
    Blocks, Direction, DpRank, Figure, MessageResult, ModelName, Phase, ReportSource, SharingState, Tokens,
    TokensPerSecond, WorkerId, WorkerLoad, WorkerRank, WorkerReport,
};
use kvroute_funnel::{
    AbsentLoss, AttemptLedger, CachedStages, Close, Count, HistoryLoss, HistoryTerms, LedgerTerms,
    MissingBlock, Opening, ReportExpectation, SelectionLosses, UnavailableLoss, UncountedReason,
};

use super::locks::taken_by;
use crate::{
    DecisionMarks, Endpoint, EventKind, HistoryBounds, LatencyPart, Metrics, MetricsOptions, PoolLabels,
    PoolMetrics, QueueRefusal, RankMetrics, RejectReason, RequestOutcome, RequestShape, RetryReason,
    SelectionOverlap, SourceState, Stage, WorkerState, WorkerType,
};

fn pool(metrics: &Metrics, history: Option<HistoryBounds>) -> PoolMetrics {
    metrics.pool(&PoolLabels {
        model: &ModelName::new("m"),
        policy: "kv",
        reasons: &["lowest_cost"],
        shadows: &["random"],
        phases: &[Phase::Aggregated],
        counts_input: true,
        history,
    })
}

fn opening(count: Count, history: Option<Tokens>) -> Opening {
    let tokens = Tokens::new;
    let input = tokens(1000);
    let history = history.filter(|_| count.cached().is_some());
    let none: [(Tokens, [MissingBlock; 0]); 0] = [];
    let absent = match history {
        None => AbsentLoss::Unavailable(UnavailableLoss::of(tokens(40), tokens(8), [[]], false)),
        Some(history) => {
            let terms = HistoryTerms { input, history, anywhere: tokens(960), partial: tokens(8) };
            AbsentLoss::ByHistory(HistoryLoss::of(terms, none, false))
        }
    };
    let losses = SelectionLosses { absent, eligibility: None, placement: None };
    let ledger = count.cached().map(|_| LedgerTerms { losses, reusable: tokens(944) });
    Opening { count, history, reports: ReportExpectation::Expected, ledger, is_repeat: true }
}

/// From the line in front of the pool to the reason of what was not delivered.
fn requests(metrics: &Metrics, pool: &PoolMetrics, rank: &RankMetrics) {
    let shape = RequestShape { endpoint: Endpoint::ChatCompletions, streamed: true, choices: 1 };
    let mut recorder = pool.request(shape);
    let stages = metrics.stages(Phase::Aggregated);
    stages.enter(Stage::Preprocess).passed(Duration::from_millis(2));
    let queue = pool.queue();
    drop(queue.entered());
    queue.waited(Duration::from_millis(1));
    queue.refused(QueueRefusal::Full);
    pool.decided("lowest_cost");
    pool.decision_recorded();
    pool.decision_unrecorded();
    pool.retried(RetryReason::Connect);
    pool.shadow("random", Tokens::new(1000), Tokens::new(10));
    pool.selected(Phase::Aggregated, SelectionOverlap { selected: 1.0, best: 2.0, prompt: 3.0 });
    pool.added_latency().added(LatencyPart::PerChunk, Duration::from_micros(3));
    metrics.overhead().decided(&DecisionMarks::default());
    rank.set_load(&WorkerLoad::default());
    rank.set_recent(Tokens::new(5));
    recorder.served_by(rank, Some(Tokens::new(1000)));
    recorder.chunks(0, 1, Duration::from_millis(5));
    recorder.chunks(0, 1, Duration::from_millis(9));

    let tokens = Tokens::new;
    let cached = CachedStages { anywhere: tokens(960), best: tokens(960), selected: tokens(960) };
    let counted = Count::Exact { input: tokens(1000), cached: Some(cached) };
    for (count, history) in [
        (counted, None),
        (counted, pool.history().map(|_| tokens(512))),
        (Count::Exact { input: tokens(1000), cached: None }, None),
        (Count::Uncounted(UncountedReason::Template), None),
    ] {
        let sink = pool.attempt(Phase::Aggregated, rank, TokensPerSecond::new(9.0));
        let mut ledger = AttemptLedger::open(opening(count, history), sink);
        ledger.dispatched();
        let (prompt, reused) = (Figure::Count(1000), Figure::Count(512));
        ledger.report(&WorkerReport { source: ReportSource::Usage, prompt, reused });
        ledger.taught();
        if let Some(pending) = ledger.close(Close::Completed).pending {
            pending.stale_index();
        }
    }
    if let Some(history) = pool.history() {
        history.untracked(tokens(7));
    }
    recorder.finish(RequestOutcome::Completed);
    metrics.unknown_model().count(Endpoint::Unmatched, RequestOutcome::Rejected);
}

#[test]
fn what_requests_and_events_move_takes_no_lock_that_a_scrape_holds() {
    let metrics = Metrics::new(&MetricsOptions::default()).unwrap();
    let pool = pool(&metrics, Some(HistoryBounds { capacity: Blocks::new(9), bytes: 4096 }));
    let name = WorkerRank::new(WorkerId::new("w"), DpRank::new(0));
    let (worker, rank) =
        (metrics.worker(&name.worker, WorkerState::Ready), metrics.rank(&name, WorkerType::Decode));
    let (source, memory) = (metrics.source(&name, SourceState::Exact), metrics.remembered(&name));
    let sharing = metrics.sharing();
    pool.index_view_exists();
    assert_eq!(taken_by(|| requests(&metrics, &pool, &rank)), 0);
    let of_events = || {
        worker.set_state(WorkerState::Unhealthy);
        source.set_state(SourceState::Degraded);
        source.events(EventKind::Stored, 3);
        source.rejected(RejectReason::Orphaned, 1);
        source.gap();
        memory.evicted(2);
        pool.set_index_bytes(1000);
        pool.index_budget_evicted(1);
        sharing.state(SharingState::Degraded);
        sharing.message(Direction::Received, MessageResult::Ok);
        sharing.dropped(1);
        sharing.peers(2);
    };
    assert_eq!(taken_by(of_events), 0);
    assert_eq!(taken_by(|| drop(pool.funnel())), 0, "nor does whoever reads the funnel");
    assert!(taken_by(|| drop(metrics.render())) > 50, "a scrape takes them, one after the other");
}

#[test]
fn a_reason_and_a_shadow_that_nobody_named_are_made_once() {
    let metrics = Metrics::new(&MetricsOptions::default()).unwrap();
    let pool = pool(&metrics, None);
    let late = || {
        pool.decided("late");
        pool.shadow("sticky", Tokens::new(10), Tokens::ZERO);
    };
    assert_eq!(taken_by(late), 3);
    assert_eq!(taken_by(late), 0);
    let line = "kvroute_decisions_total{model=\"m\",policy=\"kv\",reason=\"late\"} 2\n";
    assert!(metrics.render().contains(line));
}

#[test]
fn series_of_a_rank_that_left_go_though_its_attempts_hold_it() {
    let metrics = Metrics::new(&MetricsOptions::default()).unwrap();
    let name = WorkerRank::new(WorkerId::new("w"), DpRank::new(0));
    let before = metrics.series();
    let rank = metrics.rank(&name, WorkerType::Decode);
    let (source, memory) = (metrics.source(&name, SourceState::Exact), metrics.remembered(&name));
    rank.set_engine_load(1, 2);
    rank.set_engine_load_age(Duration::ZERO);
    assert!(metrics.series() > before + 20);
    rank.close();
    source.close();
    memory.close();
    assert_eq!(metrics.series(), before);
    rank.set_load(&WorkerLoad::default());
    source.gap();
    memory.evicted(1);
    let came_back = metrics.rank(&name, WorkerType::Decode);
    drop((rank, source, memory));
    assert!(metrics.render().contains("worker_id=\"w\""), "the next owner keeps what is its own");
    drop(came_back);
    assert_eq!(metrics.series(), before);
}
