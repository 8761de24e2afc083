//! Workers that come and go, through the code by which they join.

use std::collections::BTreeSet;

use kvroute_core::{Phase, Tokens};
use kvroute_engine::{UpstreamTls, probe};
use kvroute_funnel::{AttemptLedger, Close, Count, Opening, ReportExpectation};
use kvroute_zmtp::Endpoint;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::*;
use crate::config::{ClusterConfig, RouterConfig};
use crate::membership::Membership;
use crate::plan::RouterPlan;
use crate::router::Router;
use crate::upstream;
use crate::worker::Worker;

const WORKERS: usize = 1000;

/// Workers that are members at the same time.
const WAVE: usize = 50;

const MODELS: &str = r#"{"object":"list","data":[{"id":"m","owned_by":"vllm"}]}"#;

/// One server that is every worker: each has a path of its own.
async fn engines() -> (String, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            connections.spawn(async move {
                let mut head = Vec::new();
                while stream.read_buf(&mut head).await.is_ok_and(|length| length > 0) {
                    let Some(end) = head.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { continue };
                    let line = String::from_utf8_lossy(&head[..end]).into_owned();
                    head.clear();
                    let is_asked = line.lines().next().unwrap_or_default().contains("/v1/models ");
                    let (status, body) = if is_asked { ("200 OK", MODELS) } else { ("404 Not Found", "") };
                    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                    if stream.write_all(answer.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
            while connections.try_join_next().is_some() {}
        }
    });
    (url, serving)
}

/// Half of them publish events, at an address where nobody is.
fn worker(url: &str, number: usize) -> WorkerConfig {
    let nobody = Endpoint::new("127.0.0.1", 1);
    let kv_events =
        if number.is_multiple_of(2) { EventEndpoint::Connect(nobody) } else { EventEndpoint::None };
    WorkerConfig {
        kv_events,
        dp_ranks: Some(1 + number as u32 % 2),
        ..WorkerConfig::at(format!("{url}/w{number}"))
    }
}

fn names(metrics: &Metrics) -> BTreeSet<String> {
    let text = metrics.render();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect()
}

/// An attempt on a worker's first rank, which is still open and, as attempts do, holds its rank.
fn attempt(shared: &Shared, name: &WorkerId) -> impl FnOnce() + use<> {
    let pools = shared.pools.load();
    let fleet = pools[0].fleet();
    let rank = fleet.ranks.iter().find(|rank| rank.name.worker == *name).unwrap();
    let sink = pools[0].metrics().attempt(Phase::Aggregated, &rank.metrics, None);
    let count = Count::Exact { input: Tokens::new(1000), cached: None };
    let opening = Opening {
        count,
        history: None,
        reports: ReportExpectation::Expected,
        ledger: None,
        is_repeat: false,
    };
    let (ledger, rank) = (AttemptLedger::open(opening, sink), Arc::clone(rank));
    move || {
        drop(ledger.close(Close::Completed));
        drop(rank);
    }
}

#[tokio::test]
async fn a_thousand_workers_that_come_and_go_leave_no_series() {
    let (url, _serving) = engines().await;
    let pool = PoolConfig {
        model: Some(ModelName::new("m")),
        engine_load: Some(Duration::from_millis(100)),
        ..PoolConfig::of_workers(Vec::new())
    };
    let plan = RouterPlan::new(RouterConfig {
        pools: vec![pool],
        seed: 7,
        trace_sample: 1.0,
        cluster: ClusterConfig::default(),
    })
    .unwrap();
    let router = Router::start(plan, Metrics::new(&MetricsOptions::default()).unwrap()).unwrap();
    let (shared, client) =
        (&router.shared, upstream::client(Duration::from_secs(5), &UpstreamTls::default()));
    let plan = &shared.plans[0];
    shared.pools.load()[0].metrics().index_view_exists();
    let before = names(router.metrics());
    let found = probe(&client, &url).await.unwrap();
    for first in (0..WORKERS).step_by(WAVE) {
        let mut members = Vec::new();
        for number in first..first + WAVE {
            let worker = Arc::new(Worker::new(worker(&url, number), router.metrics()));
            let member = Membership::join(shared, plan, &worker, &found).await.unwrap();
            let outlives = attempt(shared, worker.id());
            members.push((worker, member, outlives));
        }
        let during = names(router.metrics());
        let of = |name: &str| during.iter().filter(|series| series.contains(&format!("{name}\""))).count();
        for (worker, ..) in &members {
            assert!(of(worker.id().as_str()) > 20, "{} has {}", worker.id(), of(worker.id().as_str()));
        }
        let mut attempts = Vec::new();
        for (worker, member, outlives) in members {
            member.leave().await;
            drop(worker);
            attempts.push(outlives);
        }
        let after = names(router.metrics());
        let of_ranks: Vec<_> = after.iter().filter(|series| series.contains("dp_rank=")).collect();
        assert!(of_ranks.is_empty(), "attempts keep series of ranks that have left: {of_ranks:?}");
        attempts.into_iter().for_each(|close| close());
        let after = names(router.metrics());
        let difference: Vec<_> = after.symmetric_difference(&before).collect();
        assert!(difference.is_empty(), "after {} workers: {difference:?}", first + WAVE);
    }
    router.stop().await;
}
