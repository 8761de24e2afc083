//! Random faults under random traffic: every lost token has a reason or an excuse, and every source recovers.
//!
//! `KVROUTE_FAULT_SECONDS` says for how long (default 25), `KVROUTE_FAULT_SEED` by which seed (default: always the same).

use std::time::Duration;

use kvroute_core::BlockSize;
use kvroute_sim::{EventEndpoint, Incident, SimConfig};
use kvroute_testkit::{CapturedLog, Exposition, FaultRun, Fleet, Ledger, server_config};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::ordeal::{Fault, Ordeal};
use super::traffic::{Record, Traffic};
use super::verdict::{Evidence, Loss, UNEXPLAINED};

const WORKERS: u64 = 4;
const USERS: u64 = 10;
/// Traffic without faults behind the recovery.
const CALM: Duration = Duration::from_secs(2);
/// Longest time for a recovered worker to be known as such.
const RECOVERY: Duration = Duration::from_secs(60);

/// A run that nobody asks for.
const USUAL: FaultRun = FaultRun { seconds: 25, seed: 7 };

/// A cache that is full in seconds, so that it evicts all the time. What the first engine loses is lost for good.
fn engine_number(number: u64) -> SimConfig {
    let kv_replay = if number == 1 { EventEndpoint::None } else { EventEndpoint::Auto };
    SimConfig {
        seed: number,
        kv_replay,
        kv_blocks: 240,
        block_size: BlockSize::new(16).unwrap(),
        prefill_tps: 60_000,
        decode_tps: 1_500,
        ..SimConfig::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_lost_token_has_a_reason_or_an_excuse_and_every_source_recovers() {
    let plan = FaultRun::from_environment(USUAL);
    println!("faults for {} s, KVROUTE_FAULT_SEED={}", plan.seconds, plan.seed);
    let log = CapturedLog::start();
    let began = Instant::now();
    let configs: Vec<_> = (1..=WORKERS).map(engine_number).collect();
    let mut fleet = Fleet::start_unfollowed(configs.clone(), |urls| server_config(urls, "kv")).await;
    // Without replay only a message that arrives makes a source exact: a clear, which stores nothing.
    while states(&fleet).await.iter().any(|state| state != "exact") {
        fleet.engines[0].cause(Incident::Reset).await;
        sleep(Duration::from_millis(50)).await;
    }
    let engines = std::mem::take(&mut fleet.engines).into_iter().zip(configs).zip(1..);
    let until = Instant::now() + Duration::from_secs(plan.seconds);
    let suffering: JoinSet<_> = engines
        .map(|((engine, config), number)| {
            let last = (number == 1).then_some(Fault::EventsLostForGood);
            Ordeal::new(engine, config, number, plan.seed).suffer(until, last)
        })
        .collect();

    let traffic = Traffic::start(&fleet.data(""), USERS, plan.seed);
    let mut ordeals = suffering.join_all().await;
    let mut records = traffic.stop().await;
    fleet.at_rest().await;
    assert_index_is_true(&fleet, &ordeals, plan).await;

    recover(&mut ordeals).await;
    let traffic = Traffic::start(&fleet.data(""), USERS, !plan.seed);
    all_exact(&fleet, plan).await;
    sleep(CALM).await;
    records.extend(traffic.stop().await);
    let scrape = fleet.at_rest().await;
    let evidence = Evidence::of(&ordeals, began);
    assert_explained(&scrape, &log, &evidence, &records, plan);
    Ledger::after_departures(&scrape).assert_closes();
    assert_reports_are_the_clients(&scrape, &records, plan);
    assert_eq!(states(&fleet).await, vec!["exact"; WORKERS as usize], "{plan:?}");
    assert_index_is_true(&fleet, &ordeals, plan).await;
    println!("{} requests, injected {:?}", records.len(), evidence.injected());
    for ordeal in ordeals {
        ordeal.stop().await;
    }
    fleet.stop().await;
}

/// Of each kind some. The first engine has just lost something for good.
async fn recover(ordeals: &mut [Ordeal]) {
    ordeals.sort_by_key(|ordeal| ordeal.number);
    for ordeal in ordeals {
        match ordeal.number % 2 {
            1 => ordeal.refill().await,
            _ => ordeal.reset().await,
        }
    }
}

/// What the router believes of each worker's source.
async fn states(fleet: &Fleet) -> Vec<String> {
    let state = |worker: &Value| worker["ranks"][0]["source_state"].as_str().unwrap_or("none").to_owned();
    fleet.workers().await.as_array().unwrap().iter().map(state).collect()
}

async fn all_exact(fleet: &Fleet, plan: FaultRun) {
    let polled = async {
        while states(fleet).await.iter().any(|state| state != "exact") {
            sleep(Duration::from_millis(50)).await;
        }
    };
    if timeout(RECOVERY, polled).await.is_err() {
        panic!("{plan:?}: not every source recovered: {:#}", fleet.workers().await);
    }
}

/// Of a rank whose source is exact nothing is believed to be cached that is not, and nothing that was told is missing.
async fn assert_index_is_true(fleet: &Fleet, ordeals: &[Ordeal], plan: FaultRun) {
    let mut contradictions = Vec::new();
    // The last events may still be on their way.
    for _ in 0..40 {
        contradictions = contradictions_of(&fleet.workers().await, ordeals);
        if contradictions.is_empty() {
            return;
        }
        sleep(Duration::from_millis(50)).await;
    }
    panic!("{plan:?}: {}", contradictions.join("\n"));
}

fn contradictions_of(workers: &Value, ordeals: &[Ordeal]) -> Vec<String> {
    let of_rank = |worker: &Value| {
        let ordeal = ordeals.iter().find(|ordeal| worker["id"] == ordeal.worker.as_str()).unwrap();
        ordeal.contradicts(worker["ranks"][0]["blocks"].as_u64().unwrap())
    };
    let is_exact = |worker: &&Value| worker["ranks"][0]["source_state"] == "exact";
    workers.as_array().unwrap().iter().filter(is_exact).filter_map(of_rank).collect()
}

fn lost(scrape: &Exposition, labels: &[(&str, &str)]) -> u64 {
    let labels = [&[("stage", "delivery")], labels].concat();
    scrape.count("kvroute_router_reuse_lost_tokens_total", &labels)
}

fn assert_explained(
    scrape: &Exposition,
    log: &CapturedLog,
    evidence: &Evidence,
    records: &[Record],
    plan: FaultRun,
) {
    let lines = log.entries(|entry| entry.message == UNEXPLAINED);
    let losses: Vec<_> = lines.iter().map(Loss::read).filter(|loss| evidence.concerns(loss)).collect();
    let unexplained = lost(scrape, &[("reason", "unexplained")]);
    let logged: u64 = losses.iter().map(|loss| loss.tokens).sum();
    assert_eq!(logged, unexplained, "{plan:?}: every loss without a reason is logged");
    let (excused, guilty): (Vec<_>, Vec<_>) = losses.into_iter().partition(|loss| evidence.excuses(loss));
    let tokens: u64 = excused.iter().map(|loss| loss.tokens).sum();
    let predicted = scrape.count("kvroute_router_reuse_compared_predicted_tokens_total", &[]);
    println!(
        "{tokens} tokens of {} attempts excused, {} stale, {} last block, of {predicted} predicted",
        excused.len(),
        lost(scrape, &[("reason", "stale_index")]),
        lost(scrape, &[("reason", "last_block")]),
    );
    let stories: Vec<_> = guilty.iter().map(|loss| evidence.story_of(loss, records)).collect();
    assert!(
        guilty.is_empty(),
        "{plan:?}: tokens were lost without reason or excuse:\n{}",
        stories.join("\n")
    );
    assert!(predicted > 1_000, "{plan:?}: nothing was predicted");
}

/// What clients read in their answers, the router has counted, and nothing else but what clients did not wait for.
fn assert_reports_are_the_clients(scrape: &Exposition, records: &[Record], plan: FaultRun) {
    let counted = scrape.count("dynamo_component_router_kv_worker_reused_tokens_total", &[]);
    let read: u64 = records.iter().filter_map(|record| record.reused).sum();
    let unread: u64 =
        records.iter().filter(|record| record.reused.is_none()).map(|record| record.prompt).sum();
    assert!(
        (read..=read + unread).contains(&counted),
        "{plan:?}: {counted} counted, {read} read, {unread} unread"
    );
}
