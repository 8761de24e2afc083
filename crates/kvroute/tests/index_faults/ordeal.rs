//! One engine and the faults that befall it, one after the other, by a seed.

use std::time::Duration;

use kvroute_sim::{Faults, Incident, SimConfig, SimEngine, UnseenPeriod};
use kvroute_testkit::{Client, engine};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::asking::COMPLETIONS;
use super::traffic::words;

/// What can befall an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// Event messages are lost; replay has them.
    EventsLost,
    /// Event messages are lost, and replay is not answered.
    EventsLostForGood,
    /// The cache is emptied and that is told at once.
    Reset,
    /// The cache is emptied and that is told with the next step.
    LateReset,
    /// The cache is emptied and nobody is told until a later reset.
    Wipe,
    /// Nothing is published until a later reset.
    Silence,
    /// The process is killed and started again at the same addresses.
    Restart,
    /// The engine is stopped and another one started at its address.
    Replacement,
}

/// An engine under test.
#[derive(Debug)]
pub(crate) struct Ordeal {
    /// Its place in the fleet.
    pub(crate) number: u64,
    /// The worker's name: its address.
    pub(crate) worker: String,
    /// What befell it, and when.
    pub(crate) journal: Vec<(Instant, Fault)>,
    engine: Option<SimEngine>,
    /// Since when the present process runs, at the latest.
    started: Instant,
    config: SimConfig,
    rng: ChaCha8Rng,
    /// Of engines that are gone.
    unseen: Vec<UnseenPeriod>,
    /// How it recovered.
    was_reset: bool,
}

/// Every process lives at least so long: start times that are closer are taken for one that is told inexactly.
const LIFE: Duration = Duration::from_millis(2_200);

/// How often each of them happens. Most of them empty the cache, and with it hide what went wrong before.
const WEIGHTS: [(Fault, u32); 8] = [
    (Fault::EventsLost, 8),
    (Fault::EventsLostForGood, 3),
    (Fault::Reset, 1),
    (Fault::LateReset, 2),
    (Fault::Wipe, 1),
    (Fault::Silence, 1),
    (Fault::Restart, 2),
    (Fault::Replacement, 1),
];

// === impl Ordeal ===

impl Ordeal {
    pub(crate) fn new(engine: SimEngine, config: SimConfig, number: u64, seed: u64) -> Self {
        Self {
            number,
            worker: engine.address().to_string(),
            journal: Vec::new(),
            config: SimConfig { listen: engine.address(), ..config },
            engine: Some(engine),
            started: Instant::now(),
            rng: ChaCha8Rng::seed_from_u64(seed ^ (number << 32)),
            unseen: Vec::new(),
            was_reset: false,
        }
    }

    /// Suffers faults until a time, and `last` behind them. It is over when this returns.
    pub(crate) async fn suffer(mut self, until: Instant, last: Option<Fault>) -> Self {
        loop {
            let pause = self.random_ms(100..1_500);
            if Instant::now() + pause >= until {
                break;
            }
            sleep(pause).await;
            let fault = self.next_fault();
            self.undergo(fault).await;
        }
        if let Some(fault) = last {
            self.undergo(fault).await;
        }
        self
    }

    fn next_fault(&mut self) -> Fault {
        let total = WEIGHTS.iter().map(|(_, weight)| weight).sum();
        let mut drawn = self.rng.random_range(0..total);
        let is_drawn = |(_, weight): &&(Fault, u32)| match drawn.checked_sub(*weight) {
            Some(rest) => {
                drawn = rest;
                false
            }
            None => true,
        };
        WEIGHTS.iter().find(is_drawn).unwrap().0
    }

    async fn undergo(&mut self, fault: Fault) {
        self.journal.push((Instant::now(), fault));
        match fault {
            Fault::EventsLost => {
                let lose_events_percent = self.rng.random_range(5..=100);
                self.hold(Faults { lose_events_percent, ..Faults::default() }, 300..3_000).await;
            }
            Fault::EventsLostForGood => {
                // Some arrive, so that the loss is noticed and asked for in vain.
                let lose_events_percent = self.rng.random_range(5..=80);
                let faults = Faults { lose_events_percent, no_replay: true, ..Faults::default() };
                self.hold(faults, 300..7_000).await;
            }
            Fault::Reset => self.engine().cause(Incident::Reset).await,
            Fault::LateReset => self.engine().cause(Incident::LateReset).await,
            Fault::Restart => {
                tokio::time::sleep_until(self.started + LIFE).await;
                self.engine().cause(Incident::Restart).await;
                self.started = Instant::now();
            }
            Fault::Wipe => {
                self.engine().cause(Incident::Wipe).await;
                let pause = self.random_ms(300..5_000);
                sleep(pause).await;
                self.engine().cause(Incident::Reset).await;
            }
            Fault::Silence => {
                self.hold(Faults { silent: true, ..Faults::default() }, 300..5_000).await;
                self.engine().cause(Incident::Reset).await;
            }
            Fault::Replacement => self.replace().await,
        }
    }

    /// The next engine has other words, other block names and other event sockets.
    async fn replace(&mut self) {
        tokio::time::sleep_until(self.started + LIFE).await;
        if let Some(old) = self.engine.take() {
            self.unseen.extend(ended(old.unseen()));
            old.stop().await;
        }
        let pause = self.random_ms(0..3_000);
        sleep(pause).await;
        self.config.seed = self.rng.random_range(0..u64::MAX);
        self.engine = Some(engine(self.config.clone()).await);
        self.started = Instant::now();
    }

    async fn hold(&mut self, faults: Faults, milliseconds: std::ops::Range<u64>) {
        let pause = self.random_ms(milliseconds);
        self.engine().set_faults(faults).await.unwrap();
        sleep(pause).await;
        self.engine().set_faults(Faults::default()).await.unwrap();
    }

    /// Makes all that is in doubt certain: empties the cache.
    pub(crate) async fn reset(&mut self) {
        self.was_reset = true;
        self.engine().cause(Incident::Reset).await;
    }

    /// Makes all that is in doubt certain: stores a whole cache anew.
    pub(crate) async fn refill(&mut self) {
        let url = format!("{}{COMPLETIONS}", self.engine().url());
        let client = Client::default();
        let tokens = u64::from(self.config.kv_blocks + 1) * u64::from(self.config.block_size.get());
        let mut stored = 0;
        while stored < tokens {
            let prompt = words(&mut self.rng, 640..641);
            stored += 640;
            let body = json!({"model": "sim", "prompt": prompt, "max_tokens": 1});
            assert_eq!(client.post(&url, &body).await.status, 200);
        }
    }

    /// Says so if an index that is exact may not hold that many blocks of it. Nothing may be known that is not there.
    /// Of what was stored since a reset a part may be unknown: an engine announces the end of each of two copies of a
    /// block, and the index forgets the block with the first. Equal prompts gather on one worker and are computed there
    /// side by side, so in a cache this small many blocks have two copies. What outlived a loss in the engine's cache may stay
    /// unknown. An index can't know what no event has told, and cannot be blamed while that is so.
    pub(crate) fn contradicts(&self, blocks: u64) -> Option<String> {
        let stats = self.engine().stats();
        let cached = stats.kv_contents_cached;
        let agrees = blocks <= cached && (!self.was_reset || cached - blocks <= cached / 3);
        let (worker, recovered) = (&self.worker, if self.was_reset { "reset" } else { "not reset" });
        (!agrees && self.is_told())
            .then(|| format!("{worker}, {recovered}: the index holds {blocks}, the engine {stats:?}"))
    }

    /// Whether its events have told all there is to tell.
    pub(crate) fn is_told(&self) -> bool {
        self.engine().unseen().iter().all(|period| period.until.is_some())
    }

    /// Every time in which its events did not tell the truth.
    pub(crate) fn unseen(&self) -> Vec<UnseenPeriod> {
        self.unseen.iter().copied().chain(self.engine().unseen()).collect()
    }

    pub(crate) async fn stop(self) {
        if let Some(engine) = self.engine {
            engine.stop().await;
        }
    }

    fn engine(&self) -> &SimEngine {
        self.engine.as_ref().unwrap()
    }

    fn random_ms(&mut self, range: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(self.rng.random_range(range))
    }
}

/// An engine that stops takes with it what it did not tell.
fn ended(periods: Vec<UnseenPeriod>) -> impl Iterator<Item = UnseenPeriod> {
    let now = Instant::now();
    periods.into_iter().map(move |period| UnseenPeriod { until: period.until.or(Some(now)), ..period })
}
