use std::time::Duration;

use kvroute_core::{DpRank, ModelName, Phase, Tokens, WorkerId, WorkerRank};
use kvroute_funnel::{AttemptLedger, Close, Count, Opening, ReportExpectation};
use kvroute_metrics::WorkerType;

use super::*;
use crate::config::{PoolConfig, WorkerConfig};
use crate::router::of_one_pool::router_of;

/// A router of one pool whose worker nobody reaches.
fn router() -> Router {
    let workers = vec![WorkerConfig::at("http://127.0.0.1:1")];
    let pool = PoolConfig { model: Some(ModelName::new("m")), ..PoolConfig::of_workers(workers) };
    router_of(pool)
}

/// One attempt with so many input tokens.
fn attempt(router: &Router, input: u64) {
    let rank = WorkerRank::new(WorkerId::new("w"), DpRank::new(0));
    let rank = router.metrics().rank(&rank, WorkerType::Decode);
    let sink = router.shared.pools.load()[0].metrics().attempt(Phase::Aggregated, &rank, None);
    let opening = Opening {
        count: Count::Exact { input: Tokens::new(input), cached: None },
        history: None,
        reports: ReportExpectation::Expected,
        ledger: None,
        is_repeat: false,
    };
    drop(AttemptLedger::open(opening, sink).close(Close::Completed));
}

fn input(router: &Router, span: FunnelSpan) -> (f64, Option<u64>) {
    let report = router.funnel(span);
    let [row] = report.rows.as_slice() else { panic!("{report:?}") };
    assert_eq!((row.model.as_str(), row.phase), ("m", "aggregated"));
    (report.window_seconds, row.input_tokens)
}

#[tokio::test(start_paused = true)]
async fn readings_are_taken_while_the_router_runs() {
    let router = router();
    let last = |seconds| FunnelSpan::Last(Duration::from_secs(seconds));
    attempt(&router, 1000);
    assert_eq!(input(&router, last(30)), (0.0, Some(1000)), "the window is as young as the router");
    sleep(Duration::from_secs(61)).await;
    attempt(&router, 30);
    sleep(Duration::from_secs(1)).await;
    let (covered, tokens) = input(&router, last(30));
    assert_eq!(tokens, Some(30));
    assert!((30.0..35.5).contains(&covered), "{covered} s");
    assert_eq!(input(&router, FunnelSpan::All), (62.0, Some(1030)));
    router.stop().await;
}
