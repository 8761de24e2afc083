//! The same where a request may have several workers: one that computes its prompt and one that answers, and another one where
//! its stream breaks off. A request takes longer then, so there are fewer unless `KVROUTE_FUNNEL_REQUESTS` says how many.

use kvroute_core::WorkerRole;
use kvroute_sim::{Faults, SimEngine};
use kvroute_testkit::{CapturedLog, Exposition, Ledger, engine};

use super::closes::{Run, assert_engines_are_idle, until_written};
use super::happened::assert_all;
use super::user::{Progress, Record};
use super::world::{Cast, IN_PARTS, World, successor};

/// Requests from which on everything happens.
const ENOUGH: u64 = 3_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_funnel_closes_to_the_token_with_prefill_workers_and_migrations() {
    let run = Run::of(ENOUGH);
    println!("{} requests, KVROUTE_FUNNEL_SEED={}", run.requests, run.seed);
    let log = CapturedLog::start();
    let mut world = World::begin(&IN_PARTS, run.seed).await;
    let records = live(&mut world, run).await;
    let scrape = world.fleet.at_rest().await;

    Ledger::after_departures(&scrape).assert_closes();
    let books = until_written(&IN_PARTS, records, &log, &scrape).await;
    books.assert_clients_and_log_end_alike();
    assert_calm_engines(&world, &scrape);
    let happened = happened(&scrape);
    println!("happened {happened:?}");
    if run.requests >= ENOUGH {
        assert_all(&happened);
    }
    assert_engines_are_idle(&world).await;
    world.end().await;
}

async fn live(world: &mut World, run: Run) -> Vec<Record> {
    let (progress, sending) = run.in_world(world);
    let (alpha, delta) = (world.cast("alpha"), world.cast("delta"));
    let mut split = std::mem::take(world.of(alpha));
    let mut whole = std::mem::take(world.of(delta));
    let (mortal, breaker) = (whole.pop().unwrap(), whole.pop().unwrap());
    let (decode, prefill) = (split.remove(2), split.remove(0));
    let (records, prefill, decode, breaker, mortal) = tokio::join!(
        sending.all(&progress),
        befall_the_prefill(prefill, &progress),
        befall_the_decode(decode, &progress),
        befall_the_breaker(breaker, &progress),
        befall_the_mortal(mortal, delta, &progress),
    );
    split.insert(0, prefill);
    split.insert(2, decode);
    whole.extend([breaker, mortal]);
    *world.of(alpha) = split;
    *world.of(delta) = whole;
    records
}

async fn through(engine: &SimEngine, progress: &Progress, switches: &[(u64, Faults)]) {
    for (permille, faults) in switches {
        progress.reaches(*permille).await;
        engine.set_faults(faults.clone()).await.unwrap();
    }
    progress.reaches(1_000).await;
    engine.set_faults(Faults::default()).await.unwrap();
}

/// It fails, refuses, hands over what expires, and says nothing of where its KV lies.
async fn befall_the_prefill(prefill: SimEngine, progress: &Progress) -> SimEngine {
    let none = Faults::default;
    let switches = [
        (100, Faults { fail_prefill: true, ..none() }),
        (250, Faults { expire_leases: true, ..none() }),
        (400, Faults { refuse_status: Some(429), ..none() }),
        (450, Faults { no_report: true, ..none() }),
        (600, none()),
    ];
    through(&prefill, progress, &switches).await;
    prefill
}

/// It cannot get the KV, or a part of it, or breaks off.
async fn befall_the_decode(decode: SimEngine, progress: &Progress) -> SimEngine {
    let none = Faults::default;
    let switches = [
        (150, Faults { fail_decode: true, ..none() }),
        (300, Faults { transfer_percent: Some(50), ..none() }),
        (500, Faults { break_after_chunks: Some(2), ..none() }),
        (700, none()),
    ];
    through(&decode, progress, &switches).await;
    decode
}

/// Its streams break, stall or end too early.
async fn befall_the_breaker(breaker: SimEngine, progress: &Progress) -> SimEngine {
    let none = Faults::default;
    let switches = [
        (50, Faults { break_after_chunks: Some(2), ..none() }),
        (350, Faults { end_after_chunks: Some(3), ..none() }),
        (600, none()),
        (700, Faults { break_after_chunks: Some(1), ..none() }),
        (850, none()),
    ];
    through(&breaker, progress, &switches).await;
    breaker
}

/// It dies again and again, and comes back as another.
async fn befall_the_mortal(mut mortal: SimEngine, cast: &Cast, progress: &Progress) -> SimEngine {
    let address = mortal.address();
    for (death, birth) in [(200, 300), (450, 500), (800, 850)] {
        progress.reaches(death).await;
        mortal.stop().await;
        progress.reaches(birth).await;
        mortal = engine(successor(cast, address)).await;
    }
    progress.reaches(1_000).await;
    mortal
}

/// Where no report can get lost, F4 of what is handed over is what the prefill engines say they reused, to the token. What
/// decode engines find in their own caches, so that less is handed over, is no reuse of the router's doing.
fn assert_calm_engines(world: &World, scrape: &Exposition) {
    for model in ["beta", "gamma"] {
        let position = world.setting.casts.iter().position(|cast| cast.model == model).unwrap();
        let roles = IN_PARTS.casts[position].roles;
        let prefills =
            world.engines[position].iter().zip(roles).filter(|(_, role)| **role == WorkerRole::Prefill);
        let reused: u64 = prefills.map(|(engine, _)| engine.stats().reused_tokens).sum();
        let counted = "dynamo_component_router_kv_worker_reused_tokens_total";
        let of_phase =
            |phase| scrape.sum(counted, &[("model", model), ("phase", phase)]).unwrap_or_default() as u64;
        assert_eq!(of_phase("decode"), 0, "{model}");
        assert_eq!(of_phase("prefill"), reused, "{model}: F4");
        assert!(reused > 0, "{model}: nothing was reused");
    }
}

/// One in which something never happened proves nothing about it.
fn happened(scrape: &Exposition) -> Vec<(String, u64)> {
    let of = |name: &str, labels: &[(&str, &str)]| {
        let what = labels.iter().map(|(_, value)| *value).collect::<Vec<_>>().join(" ");
        (format!("{name} {what}"), scrape.sum(name, labels).unwrap_or_default() as u64)
    };
    let fallbacks = ["failed", "cached", "unsupported"];
    let fallbacks = fallbacks.map(|reason| of("kvroute_prefill_fallbacks_total", &[("reason", reason)]));
    let migrations = ["broken", "ended_early"];
    let migrations = migrations.map(|reason| of("kvroute_migrations_total", &[("reason", reason)]));
    let attempts =
        [("prefill", "completed"), ("prefill", "failed"), ("decode", "completed"), ("decode", "failed")];
    let attempts = attempts
        .map(|(phase, outcome)| of("kvroute_attempts_total", &[("phase", phase), ("outcome", outcome)]));
    let repeated = ["aggregated", "decode"];
    let repeated =
        repeated.map(|phase| of("kvroute_router_repeated_input_tokens_total", &[("phase", phase)]));
    let reports = ["excluded", "missing", "unfinished", "reported"];
    let reports = reports.map(|outcome| of("kvroute_router_reuse_reports_total", &[("outcome", outcome)]));
    let rest = [of("kvroute_stranded_prefill_tokens_total", &[])];
    let all = [&fallbacks[..], &migrations, &attempts, &repeated, &reports, &rest];
    all.concat()
}
