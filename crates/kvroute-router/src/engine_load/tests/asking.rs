//! The task that asks, in front of a small server.

use std::io;

use kvroute_core::{BlockSize, DpRank, RankSlot, WorkerRank, WorkerRole};
use kvroute_engine::{EngineKind, UpstreamTls};
use kvroute_metrics::{Metrics, MetricsOptions, WorkerState, WorkerType};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tracing::instrument::WithSubscriber;

use super::*;
use crate::config::WorkerConfig;
use crate::rank::RankParams;
use crate::upstream;
use crate::worker::Worker;

const OFTEN: Duration = SHORTEST_INTERVAL;

/// What has not come by then never will.
const PATIENCE_OF_TESTS: Duration = Duration::from_secs(30);

const RANK_0: &str = "vllm:num_requests_running{engine=\"0\"} 4\n\
                      vllm:num_requests_waiting{engine=\"0\"} 1\n\
                      vllm:kv_cache_usage_perc{engine=\"0\"} 0.25\n";

/// A server that answers every request with what it is told to answer at the moment.
struct Engine {
    url: String,
    answer: Arc<Mutex<String>>,
    asked: Arc<AtomicU64>,
    _serving: JoinSet<()>,
}

/// Two ranks of one worker, and the task that asks it.
struct Asked {
    metrics: Metrics,
    ranks: Vec<Arc<Rank>>,
    log: Lines,
    stop: CancellationToken,
    asking: JoinSet<()>,
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

// === impl Engine ===

impl Engine {
    async fn start(status: &'static str, answer: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (answer, asked) = (Arc::new(Mutex::new(answer.to_owned())), Arc::new(AtomicU64::new(0)));
        let (told, counted) = (Arc::clone(&answer), Arc::clone(&asked));
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") && stream.read_buf(&mut head).await.unwrap() > 0 {}
                let body = told.lock().clone();
                let close = "connection: close\r\n";
                let answer =
                    format!("HTTP/1.1 {status}\r\n{close}content-length: {}\r\n\r\n{body}", body.len());
                let _ = stream.write_all(answer.as_bytes()).await;
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { url, answer, asked, _serving: serving }
    }
}

// === impl Asked ===

impl Asked {
    fn start(engine: &Engine, kind: EngineKind, state: WorkerState) -> Self {
        let metrics = Metrics::new(&MetricsOptions::default()).unwrap();
        let worker = Arc::new(Worker::new(WorkerConfig::at(&engine.url), &metrics));
        worker.enter(state, "");
        let ranks: Vec<_> = (0..2).map(|rank| Arc::new(rank_of(&worker, rank, kind, &metrics))).collect();
        let (log, stop) = (Lines::default(), CancellationToken::new());
        let writer = log.clone();
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        let client = upstream::client(Duration::from_secs(5), &UpstreamTls::default());
        let mut asking = JoinSet::new();
        asking.spawn(follow(ranks.clone(), client, OFTEN, stop.clone()).with_subscriber(subscriber));
        Self { metrics, ranks, log, stop, asking }
    }

    async fn until(&self, holds: impl Fn(&Self) -> bool) {
        let waiting = async {
            while !holds(self) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let comes = tokio::time::timeout(PATIENCE_OF_TESTS, waiting).await;
        assert!(comes.is_ok(), "never comes: {}\n{}", self.log.text(), self.metrics.render());
    }

    fn foreign(&self, rank: usize) -> ForeignLoad {
        self.ranks[rank].told_load.as_ref().unwrap().foreign(Instant::now())
    }

    /// Value of a series of one rank; `None` if there is none.
    fn value(&self, family: &str, rank: usize, state: &str) -> Option<f64> {
        let text = self.metrics.render();
        let is_asked = |line: &&str| {
            line.starts_with(family)
                && line.contains(&format!("dp_rank=\"{rank}\""))
                && (state.is_empty() || line.contains(&format!("state=\"{state}\"")))
        };
        text.lines().find(is_asked)?.rsplit_once(' ')?.1.parse().ok()
    }

    fn requests(&self, rank: usize, state: &str) -> Option<f64> {
        self.value("kvroute_worker_engine_requests{", rank, state)
    }

    fn age(&self, rank: usize) -> Option<f64> {
        self.value("kvroute_worker_engine_load_age_seconds{", rank, "")
    }

    async fn ended(mut self) -> String {
        self.stop.cancel();
        while self.asking.join_next().await.is_some() {}
        self.log.text()
    }
}

fn rank_of(worker: &Arc<Worker>, dp_rank: u32, engine: EngineKind, metrics: &Metrics) -> Rank {
    let name = WorkerRank::new(worker.id().clone(), DpRank::new(dp_rank));
    Rank::new(RankParams {
        slot: RankSlot::new(dp_rank),
        metrics: metrics.rank(&name, WorkerType::Decode),
        name,
        worker: Arc::clone(worker),
        engine,
        role: WorkerRole::Aggregated,
        bootstrap_port: 0,
        ranks_of_worker: 2,
        block_size: BlockSize::DEFAULT,
        source: None,
        told_load: Some(ToldLoad::new(Duration::from_secs(3600), Some(Blocks::new(1000)))),
        busy_above: None,
        adapters: [].into(),
    })
}

// === impl Lines ===

impl Lines {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).unwrap()
    }
}

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn what_the_engine_tells_reaches_decisions_and_gauges_and_a_rank_it_omits_is_named() {
    let engine = Engine::start("200 OK", RANK_0).await;
    let asked = Asked::start(&engine, EngineKind::Vllm, WorkerState::Ready);
    asked.until(|asked| asked.age(1) > Some(0.0)).await;
    assert_eq!([asked.foreign(0), asked.foreign(1)], [foreign(5, 250), ForeignLoad::default()]);
    assert_eq!([asked.requests(0, "running"), asked.requests(0, "waiting")], [Some(4.0), Some(1.0)]);
    assert_eq!(asked.requests(1, "running"), None);

    *engine.answer.lock() = RANK_0.replace(" 4", " 0").replace("0.25", "0");
    asked.until(|asked| asked.foreign(0) == foreign(1, 0)).await;
    let log = asked.ended().await;
    assert!(log.contains("the answer says nothing of rank 1"), "{log}");
    assert!(log.contains("dp_ranks"), "{log}");
}

#[tokio::test]
async fn an_engine_that_tells_nothing_grows_old_and_is_named_with_cause_and_remedy_once() {
    let engine = Engine::start("200 OK", RANK_0).await;
    let asked = Asked::start(&engine, EngineKind::Vllm, WorkerState::Ready);
    asked.until(|asked| asked.requests(0, "running") == Some(4.0)).await;
    *engine.answer.lock() = "process_cpu_seconds_total 1\n".to_owned();
    asked.until(|asked| asked.age(0) > Some(0.0) && asked.age(1) > Some(0.3)).await;
    assert_eq!(asked.requests(0, "running"), Some(4.0));
    let log = asked.ended().await;
    assert_eq!(log.lines().filter(|line| line.contains("does not tell its load")).count(), 1, "{log}");

    let engine = Engine::start("404 Not Found", RANK_0).await;
    let asked = Asked::start(&engine, EngineKind::LlamaCpp, WorkerState::Ready);
    asked.until(|asked| asked.age(0) > Some(0.0)).await;
    assert_eq!(asked.requests(0, "running"), None);
    let worker = asked.ranks[0].worker.id().to_string();
    let log = asked.ended().await;
    for part in [worker.as_str(), "/metrics answers 404", "--metrics"] {
        assert!(log.contains(part), "{part}: {log}");
    }
}

#[tokio::test]
async fn an_engine_of_an_unknown_kind_is_never_asked_and_has_no_series() {
    let engine = Engine::start("200 OK", RANK_0).await;
    let mut asked = Asked::start(&engine, EngineKind::OpenAi, WorkerState::Ready);
    tokio::time::timeout(PATIENCE_OF_TESTS, asked.asking.join_next()).await.unwrap().unwrap().unwrap();
    assert_eq!((engine.asked.load(Ordering::Relaxed), asked.age(0)), (0, None));
    let log = asked.ended().await;
    assert!(log.contains("cannot be asked") && log.contains("engine_load"), "{log}");
}

#[tokio::test]
async fn a_worker_that_takes_no_requests_is_not_asked_but_its_word_grows_old() {
    let engine = Engine::start("200 OK", RANK_0).await;
    let asked = Asked::start(&engine, EngineKind::Vllm, WorkerState::Unhealthy);
    asked.until(|asked| asked.age(0) > Some(0.2)).await;
    assert_eq!((engine.asked.load(Ordering::Relaxed), asked.log.text()), (0, String::new()));
    asked.ranks[0].worker.enter(WorkerState::Ready, "");
    asked.until(|asked| asked.foreign(0) == foreign(5, 250)).await;
    asked.until(|asked| asked.age(0) < Some(0.2)).await;
    asked.ended().await;
}
