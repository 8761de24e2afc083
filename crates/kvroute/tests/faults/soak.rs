//! Random requests, clients that leave and faults of every kind at once: what a client sees is right or was injected, the books
//! close, and nothing grows.
//!
//! `KVROUTE_FAULT_SECONDS` says for how long (12 unless set), `KVROUTE_FAULT_SEED` by which seed (7 unless set).

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use kvroute_sim::Incident;
use kvroute_testkit::{Client, Fault, FaultRun};
use parking_lot::Mutex;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::site::{CHAT, COMPLETIONS, Question, Seen, Site};

const USERS: u64 = 6;
/// Engines that something befalls; one more is always well.
const VICTIMS: usize = 2;
/// Different prompts.
const PROMPTS: u32 = 12;
/// What a process may grow by beside what it had after the first part of the run: its caches fill, its heap is in pieces.
const GROWTH_MIB: u64 = 128;

/// A run that nobody asks for.
const USUAL: FaultRun = FaultRun { seconds: 12, seed: 7 };

/// A time in which something was injected, and what.
#[derive(Clone, Copy, Debug)]
struct Storm {
    began: Instant,
    /// When all was well again.
    over: Option<Instant>,
    fault: Fault,
}

/// An error that a client saw.
#[derive(Clone, Debug)]
struct Complaint {
    sent: Instant,
    ended: Instant,
    seen: Seen,
}

type Storms = Arc<Mutex<Vec<Storm>>>;

/// Random numbers of one part of a run.
fn rng_of(plan: FaultRun, number: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(plan.seed ^ (number << 32))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_client_sees_is_right_or_was_injected() {
    let plan = FaultRun::from_environment(USUAL);
    println!("faults for {} s, KVROUTE_FAULT_SEED={}", plan.seconds, plan.seed);
    let site = Arc::new(Site::of(VICTIMS + 1, |pool| pool.breaker.enabled = true).await);
    let (stop, storms) = (CancellationToken::new(), Storms::default());
    let mut chaos = JoinSet::new();
    for victim in 0..VICTIMS {
        let (site, storms, rng) = (Arc::clone(&site), Arc::clone(&storms), rng_of(plan, victim as u64));
        chaos.spawn(befall(site, victim, rng, storms, stop.clone()));
    }
    let users = start_users(&site, plan, &stop);
    sleep(Duration::from_secs(plan.seconds) / 3).await;
    let warm = resident_mib();
    sleep(Duration::from_secs(plan.seconds) * 2 / 3).await;
    stop.cancel();
    chaos.join_all().await;
    let complaints: Vec<_> = users.join_all().await.into_iter().flatten().collect();
    let storms = storms.lock().clone();
    println!("{} storms, {} complaints", storms.len(), complaints.len());
    assert!(storms.len() > 3, "{plan:?}: hardly anything happened");
    assert_injected(&complaints, &storms, plan);

    site.is_sound().await;
    all_are_whole(&site, plan).await;
    let grown = resident_mib().saturating_sub(warm);
    assert!(grown < GROWTH_MIB, "{plan:?}: {grown} MiB more than the {warm} MiB of the beginning");
    Arc::into_inner(site).unwrap().stop().await;
}

/// One fault after the other, each until the worker is known to be well again.
async fn befall(
    site: Arc<Site>,
    victim: usize,
    mut rng: ChaCha8Rng,
    storms: Storms,
    stop: CancellationToken,
) {
    while stop.run_until_cancelled(sleep(milliseconds(&mut rng, 50..300))).await.is_some() {
        let fault = any_fault(&mut rng);
        let place = storms.lock().len();
        storms.lock().push(Storm { began: Instant::now(), over: None, fault });
        let proxy = &site.proxies[victim];
        proxy.set(fault);
        sleep(milliseconds(&mut rng, 50..500)).await;
        if rng.random_ratio(1, 4) {
            site.fleet.engines[victim].cause(Incident::Restart).await;
        }
        proxy.set(Fault::None);
        let name = proxy.address().to_string();
        // A breaker that is open keeps requests away, as a worker that is ready serves them.
        let is_well = |list: serde_json::Value| {
            let workers = list.as_array().unwrap().iter();
            workers
                .filter(|worker| worker["id"] == *name)
                .any(|worker| ["ready", "open"].contains(&worker["state"].as_str().unwrap()))
        };
        let workers = site.fleet.admin("/api/workers");
        site.fleet.client.until(&workers, |answer| is_well(answer.json())).await;
        storms.lock()[place].over = Some(Instant::now());
    }
}

fn any_fault(rng: &mut ChaCha8Rng) -> Fault {
    let position = rng.random_range(0..1_500);
    match rng.random_range(0..10) {
        0 => Fault::Refuse,
        1 | 2 => Fault::ResetAt(position),
        3 | 4 => Fault::EarlyEof(position),
        5 => Fault::Hold,
        6 => Fault::Drip { bytes: 50, every: Duration::from_millis(1) },
        7 => Fault::HalfClose,
        8 => Fault::Garbage,
        _ => Fault::WrongLength(7),
    }
}

/// Users who ask one thing after the other, and what each of them complains of.
fn start_users(site: &Arc<Site>, plan: FaultRun, stop: &CancellationToken) -> JoinSet<Vec<Complaint>> {
    let mut users = JoinSet::new();
    for user in 0..USERS {
        let (site, stop, mut rng) = (Arc::clone(site), stop.clone(), rng_of(plan, 100 + user));
        users.spawn(async move {
            let mut complaints = Vec::new();
            while !stop.is_cancelled() {
                let question = any_question(&mut rng);
                if rng.random_ratio(1, 5) {
                    leave(&site, question, &mut rng).await;
                    continue;
                }
                let sent = Instant::now();
                let seen = site.ask(question).await;
                if !seen.is_whole() {
                    complaints.push(Complaint { sent, ended: Instant::now(), seen });
                }
            }
            complaints
        });
    }
    users
}

fn any_question(rng: &mut ChaCha8Rng) -> Question {
    let path = if rng.random() { COMPLETIONS } else { CHAT };
    Question { path, stream: rng.random(), pin: None, number: rng.random_range(0..PROMPTS) }
}

/// A client that stays for some pieces of its answer at most.
async fn leave(site: &Site, question: Question, rng: &mut ChaCha8Rng) {
    let pieces = rng.random_range(1..4);
    site.counts_one_more();
    let (client, url) = (Client::default(), site.fleet.data(question.path));
    let mut answer = client.open(&url, &question.body()).await.into_body();
    for _ in 0..pieces {
        if !matches!(answer.frame().await, Some(Ok(_))) {
            return;
        }
    }
}

/// Each error falls into a time in which something went wrong.
fn assert_injected(complaints: &[Complaint], storms: &[Storm], plan: FaultRun) {
    let excuses = |storm: &Storm, complaint: &Complaint| {
        storm.began <= complaint.ended && storm.over.is_none_or(|over| over >= complaint.sent)
    };
    for complaint in complaints {
        let is_founded = storms.iter().any(|storm| excuses(storm, complaint));
        let last = storms.iter().rfind(|storm| storm.began <= complaint.sent).map(|storm| storm.fault);
        assert!(is_founded, "{plan:?}: nothing was wrong for {:?}, last there was {last:?}", complaint.seen);
    }
}

/// Behind the last fault there is no error any more.
async fn all_are_whole(site: &Site, plan: FaultRun) {
    let mut rng = rng_of(plan, 1_000);
    for _ in 0..40 {
        let question = any_question(&mut rng);
        assert!(site.ask(question).await.is_whole(), "{plan:?}: {question:?}");
    }
}

fn milliseconds(rng: &mut ChaCha8Rng, range: std::ops::Range<u64>) -> Duration {
    Duration::from_millis(rng.random_range(range))
}

/// What this process occupies, engines included.
fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
}
