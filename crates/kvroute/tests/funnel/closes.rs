//! Ten thousand requests of every kind, through whatever befalls engines, to the token.
//!
//! `KVROUTE_FUNNEL_REQUESTS` says how many (10,000 unless set; in fewer not everything may happen, and only the books are held
//! against each other), `KVROUTE_FUNNEL_SEED` by which seed.

use std::sync::Arc;

use kvroute_sim::SimEngine;
use kvroute_testkit::{Answer, CapturedLog, Exposition, Ledger};

use super::books::{Books, is_of_the_run};
use super::happened::{assert_all, endings, losses};
use super::stage::behave;
use super::user::{Progress, Record, Sending};
use super::world::{Manners, PLAIN, REMEMBERING, Setting, World};
use super::{eligibility, mishaps, placement};

const USERS: usize = 24;

/// Requests from which on everything happens.
const ENOUGH: u64 = 10_000;

/// What a run is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) requests: u64,
    pub(crate) seed: u64,
}

// === impl Run ===

impl Run {
    /// So many requests, unless the environment says otherwise.
    pub(crate) fn of(requests: u64) -> Self {
        let number = |name: &str| {
            let text = std::env::var(name).ok()?;
            Some(text.parse::<u64>().unwrap_or_else(|_| panic!("{name}={text:?} is no number")))
        };
        Self {
            requests: number("KVROUTE_FUNNEL_REQUESTS").unwrap_or(requests),
            seed: number("KVROUTE_FUNNEL_SEED").unwrap_or(7),
        }
    }

    /// Who sends its requests there.
    pub(crate) fn in_world(self, world: &World) -> (Arc<Progress>, Sending) {
        let names =
            |engines: &Vec<SimEngine>| engines.iter().map(|engine| engine.address().to_string()).collect();
        let sending = Sending {
            setting: world.setting,
            seed: self.seed,
            users: USERS,
            url: world.fleet.data(""),
            workers: Arc::new(world.engines.iter().map(names).collect()),
        };
        (Arc::new(Progress::new(self.requests)), sending)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_funnel_closes_to_the_token() {
    close(&PLAIN, Run::of(ENOUGH)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_funnel_closes_to_the_token_with_a_history() {
    close(&REMEMBERING, Run::of(ENOUGH)).await;
}

async fn close(setting: &'static Setting, run: Run) {
    println!("{} requests, KVROUTE_FUNNEL_SEED={}", run.requests, run.seed);
    let log = CapturedLog::start();
    let mut world = World::begin(setting, run.seed).await;
    let records = live(&mut world, run).await;
    let scrape = world.fleet.at_rest().await;

    Ledger::after_departures(&scrape).assert_closes();
    assert_views(setting, &scrape);
    let books = until_written(setting, records, &log, &scrape).await;
    books.assert_clients_and_log_agree();
    books.assert_log_and_metrics_agree(&scrape);
    assert_engines(&world, &books, &scrape);
    let (losses, endings) = (losses(setting, &scrape), endings(&books));
    println!("happened {losses:?}\nended {endings:?}");
    if run.requests >= ENOUGH {
        assert_all(&losses);
        assert_all(&endings);
    }
    assert_engines_are_idle(&world).await;
    world.end().await;
}

/// All requests, all mishaps, and the acts on the stage at once.
async fn live(world: &mut World, run: Run) -> Vec<Record> {
    let (progress, sending) = run.in_world(world);
    let (alpha, gamma) = (world.cast("alpha"), world.cast("gamma"));
    let homes = std::mem::take(world.of(gamma));
    let mut wild = std::mem::take(world.of(alpha));
    let (mortal, breaker, liar) = (wild.pop().unwrap(), wild.pop().unwrap(), wild.pop().unwrap());
    let (records, liar, breaker, mortal, homes, ()) = tokio::join!(
        sending.all(&progress),
        mishaps::befall_the_liar(liar, &progress),
        mishaps::befall_the_breaker(breaker, &progress),
        mishaps::befall_the_mortal(mortal, alpha, &progress),
        mishaps::befall_the_homes(homes, gamma, &progress),
        act(world),
    );
    wild.extend([liar, breaker, mortal]);
    *world.of(alpha) = wild;
    *world.of(gamma) = homes;
    records
}

/// Each loss that random traffic may miss, one after the other, on engines that nobody else asks.
async fn act(world: &World) {
    let (stage, [one, other]) = (world.stage(), <&[SimEngine; 2]>::try_from(&world.actors[..]).unwrap());
    placement::tie(&stage, 100).await;
    placement::sampling(&stage, 200).await;
    placement::load(&stage, one, 300).await;
    behave(one).await;
    placement::request_count(&stage, one, 400).await;
    behave(one).await;
    placement::tier_weight(&stage, other, 500).await;
    behave(other).await;
    placement::expected(&stage, other, 600).await;
    behave(other).await;
    placement::recent(&stage, 700).await;
    eligibility::pinned(&stage, 800).await;
    placement::trust(&stage, one, 900).await;
    let (adapted, [holder, server]) = (world.adapted(), &world.adapters);
    eligibility::adapter(&world.fleet.client, &adapted, [holder, server], 1_000).await;
    eligibility::already_tried(&world.fleet.client, &adapted, [holder, server], 1_100).await;
}

/// The log's last lines are written a moment after the counters moved.
pub(crate) async fn until_written(
    setting: &'static Setting,
    records: Vec<Record>,
    log: &CapturedLog,
    scrape: &Exposition,
) -> Books {
    let requests = |model| scrape.count("kvroute_requests_total", &[("model", model)]);
    let over: u64 = setting.casts.iter().map(|cast| requests(cast.model)).sum();
    for _ in 0..500 {
        if log.entries(is_of_the_run).len() as u64 >= over {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let books = Books::open(setting, records, log);
    assert_eq!(books.lines() as u64, over, "one line a request");
    books
}

/// What is looked up nowhere is absent, and what nobody counts too.
fn assert_views(setting: &Setting, scrape: &Exposition) {
    for cast in setting.casts {
        let exists = |name: &str| scrape.sum(name, &[("model", cast.model)]).is_some();
        assert_eq!(exists("kvroute_router_best_cached_prefix_tokens_total"), cast.has_view, "{}", cast.model);
        let has_history = exists("kvroute_router_history_cached_tokens_total");
        assert_eq!(has_history, cast.has_view && setting.remembers, "{}", cast.model);
        assert_eq!(
            exists("dynamo_component_router_input_sequence_tokens_sum"),
            cast.counts,
            "{}",
            cast.model
        );
        assert!(exists("dynamo_component_router_kv_worker_reused_tokens_total"), "{}", cast.model);
    }
}

/// Where no report can get lost, F4 is what the engines say they reused, to the token.
fn assert_engines(world: &World, books: &Books, scrape: &Exposition) {
    for (cast, engines) in world.setting.casts.iter().zip(&world.engines) {
        for (engine, manners) in engines.iter().zip(cast.manners) {
            match manners {
                Manners::Calm => {
                    assert_eq!(books.untold_by(engine), 0, "{}: a report was lost", cast.model);
                    books.assert_engine_agrees(engine);
                }
                Manners::Breaking => books.assert_engine_agrees(engine),
                Manners::Wild => {}
            }
        }
        if cast.manners.iter().all(|manners| *manners == Manners::Calm) {
            let reused: u64 = engines.iter().map(|engine| engine.stats().reused_tokens).sum();
            let counted = "dynamo_component_router_kv_worker_reused_tokens_total";
            let counted = scrape.count(counted, &[("model", cast.model)]);
            assert_eq!(counted, reused, "{}: F4 against the engines' own word", cast.model);
            assert!(reused > 0, "{}: nothing was reused", cast.model);
        }
    }
}

/// What a client left is no work for an engine any more.
pub(crate) async fn assert_engines_are_idle(world: &World) {
    let is_idle = |answer: &Answer| answer.json()["running"] == 0 && answer.json()["waiting"] == 0;
    for engine in world.engines.iter().flatten().chain(&world.actors) {
        world.fleet.client.until(&format!("{}/stats", engine.url()), is_idle).await;
    }
}
