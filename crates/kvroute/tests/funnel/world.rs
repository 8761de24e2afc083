//! What a long run happens in: pools of several policies, engines that keep to the rules and others that do not.

use std::net::SocketAddr;
use std::time::Duration;

use kvroute_core::{BlockSize, ModelName, Tokens, WorkerRole};
use kvroute_router::config::{
    BusyThreshold, CountMode, IndexSource, PoolConfig, TokenizerSource, WorkerConfig,
};
use kvroute_select::PolicyOptions;
use kvroute_server::ServeConfig;
use kvroute_sim::{EventEndpoint as SimEvents, Flavour, SimConfig, SimEngine};
use kvroute_testkit::{Client, Fleet, demo_tokenizer_folder, server_config};

use super::scripted::Scripted;
use super::stage::Stage;

/// What a run consists of: later ones repeat it with more switched on.
#[derive(Debug)]
pub(crate) struct Setting {
    /// The pools that random traffic goes to.
    pub(crate) casts: &'static [Cast],
    /// The last word on every pool.
    pub(crate) pool: fn(&mut PoolConfig),
    /// Every outcome of a report that can exist.
    pub(crate) reports: &'static [&'static str],
    /// Every reason of every stage that can exist.
    pub(crate) reasons: &'static [Reasons],
    /// Whether its pools with an index view have a history.
    pub(crate) remembers: bool,
}

/// One pool of the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cast {
    pub(crate) model: &'static str,
    /// Of a hundred requests so many go there.
    pub(crate) share: u64,
    /// How its engines behave, in their order.
    pub(crate) manners: &'static [Manners],
    /// What its engines do, in their order; empty where each of them does everything.
    pub(crate) roles: &'static [WorkerRole],
    pub(crate) engine: fn() -> SimConfig,
    pub(crate) pool: fn(&mut PoolConfig),
    /// Whether its prompts are counted, and whether an index is asked.
    pub(crate) counts: bool,
    pub(crate) has_view: bool,
}

/// Whether an engine keeps to the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manners {
    /// Always; and no client leaves it, so that whatever it reuses it reports.
    Calm,
    /// Its reports are true, but not all of them arrive.
    Breaking,
    /// Not at all.
    Wild,
}

/// The router and its engines.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) fleet: Fleet,
    pub(crate) setting: &'static Setting,
    /// Engines of each pool, by the order of its casts.
    pub(crate) engines: Vec<Vec<SimEngine>>,
    /// Two that have the stage to themselves.
    pub(crate) actors: Vec<SimEngine>,
    /// The one that holds an adapter's cache, and the one that serves it.
    pub(crate) adapters: [Scripted; 2],
}

use Manners::{Breaking, Calm, Wild};

/// No history, prompts computed by whoever answers them, and streams that break where they break.
pub(crate) static PLAIN: Setting = Setting {
    casts: &CASTS,
    pool: |pool| pool.migrations = 0,
    remembers: false,
    reports: &REPORTS,
    reasons: &[
        (
            "unavailable",
            &[
                "partial_block",
                "worker_gone",
                "cleared",
                "index_budget",
                "forgotten",
                "evicted",
                "source_blind",
                "not_cached",
            ],
        ),
        ELIGIBILITY,
        PLACEMENT,
        DELIVERY,
    ],
};

/// The same with a history, too small for all that is computed.
pub(crate) static REMEMBERING: Setting = Setting {
    casts: &CASTS,
    pool: |pool| {
        (pool.history.enabled, pool.history.bytes) = (true, 512 << 10);
        pool.migrations = 0;
    },
    remembers: true,
    reports: &REPORTS,
    reasons: &[
        ("new", &["partial_block", "unseen"]),
        (
            "residency",
            &["worker_gone", "cleared", "index_budget", "forgotten", "evicted", "source_blind", "unknown"],
        ),
        ELIGIBILITY,
        PLACEMENT,
        DELIVERY,
    ],
};

/// Prompts computed by some engines and answered by others, and streams that go on elsewhere when they break.
pub(crate) static IN_PARTS: Setting = Setting {
    casts: &IN_PARTS_CASTS,
    pool: |pool| (pool.history.enabled, pool.history.bytes) = (true, 512 << 10),
    remembers: true,
    reports: &["reported", "missing", "unfinished", "excluded"],
    reasons: &[],
};

const REPORTS: [&str; 8] =
    ["reported", "unchecked", "impossible", "ambiguous", "mismatched", "invalid", "missing", "unfinished"];

/// A stage with all of its reasons.
type Reasons = (&'static str, &'static [&'static str]);

const ELIGIBILITY: Reasons =
    ("eligibility", &["pinned", "affinity", "unhealthy", "adapter", "already_tried"]);

const PLACEMENT: Reasons = (
    "placement",
    &["policy", "sampling", "tie", "load", "request_count", "recent", "tier_weight", "expected", "trust"],
);

const DELIVERY: Reasons = ("delivery", &["last_block", "stale_index", "unexplained"]);

const CASTS: [Cast; 6] = [
    Cast {
        model: "alpha",
        share: 35,
        manners: &[Calm, Wild, Breaking, Wild],
        roles: &[],
        engine: || SimConfig { kv_blocks: 240, decode_tps: 400, ..SimConfig::default() },
        pool: |pool| pool.queue.timeout = Duration::from_secs(2),
        counts: true,
        has_view: true,
    },
    Cast {
        model: "beta",
        share: 22,
        manners: &[Calm, Calm],
        roles: &[],
        engine: || SimConfig {
            kv_blocks: 100_000,
            block_size: BlockSize::new(2).unwrap(),
            ..SimConfig::default()
        },
        pool: |pool| {
            (pool.policy, pool.observe) = ("round-robin".to_owned(), true);
            pool.shadow = vec!["kv".to_owned(), "least-loaded".to_owned()];
            pool.index.bytes = 1 << 20;
        },
        counts: true,
        has_view: true,
    },
    Cast {
        model: "gamma",
        share: 12,
        manners: &[Wild, Wild],
        roles: &[],
        engine: || SimConfig { kv_blocks: 400, decode_tps: 400, ..SimConfig::default() },
        pool: |pool| {
            (pool.policy, pool.observe) = ("sticky".to_owned(), true);
            pool.policy_options = PolicyOptions { hard_sessions: true, ..PolicyOptions::default() };
            pool.queue.timeout = Duration::from_millis(300);
            pool.timeouts.first_byte = Duration::from_millis(500);
        },
        counts: true,
        has_view: true,
    },
    Cast {
        model: "delta",
        share: 13,
        manners: &[Calm, Calm],
        roles: &[],
        engine: || SimConfig { prefill_tps: 40_000, ..without_events() },
        pool: |pool| {
            pool.policy = "least-loaded".to_owned();
            pool.queue.threshold = BusyThreshold::Tokens(Tokens::ZERO);
            pool.queue.limit = 4;
        },
        counts: true,
        has_view: false,
    },
    Cast {
        model: "epsilon",
        share: 11,
        manners: &[Calm, Calm],
        roles: &[],
        engine: || SimConfig { kv_blocks: 300, ..without_events() },
        pool: |pool| {
            pool.index.source = IndexSource::Remembered;
            pool.index.ttl = Duration::from_secs(1);
        },
        counts: true,
        has_view: true,
    },
    Cast {
        model: "zeta",
        share: 7,
        manners: &[Calm],
        roles: &[],
        engine: without_events,
        pool: |pool| (pool.policy, pool.count) = ("least-loaded".to_owned(), CountMode::Off),
        counts: false,
        has_view: false,
    },
];

use WorkerRole::{Aggregated, Decode, Prefill};

const IN_PARTS_CASTS: [Cast; 4] = [
    Cast {
        model: "alpha",
        share: 35,
        manners: &[Wild, Calm, Wild, Calm],
        roles: &[Prefill, Prefill, Decode, Decode],
        engine: || SimConfig { kv_blocks: 240, decode_tps: 400, ..SimConfig::default() },
        pool: |pool| {
            pool.queue.timeout = Duration::from_secs(2);
            pool.local_prefill = Tokens::new(16);
        },
        counts: true,
        has_view: true,
    },
    Cast {
        model: "beta",
        share: 25,
        manners: &[Calm, Calm, Calm, Calm],
        roles: &[Prefill, Prefill, Decode, Decode],
        engine: || SimConfig { flavour: Flavour::Sglang, kv_blocks: 2_000, ..SimConfig::default() },
        pool: |_| {},
        counts: true,
        has_view: true,
    },
    Cast {
        model: "gamma",
        share: 10,
        manners: &[Calm, Calm, Calm],
        roles: &[Prefill, Decode, Aggregated],
        engine: || SimConfig { kv_blocks: 400, ..SimConfig::default() },
        pool: |pool| pool.local_prefill = Tokens::new(64),
        counts: true,
        has_view: true,
    },
    Cast {
        model: "delta",
        share: 30,
        manners: &[Calm, Wild, Wild],
        roles: &[],
        engine: || SimConfig { kv_blocks: 240, decode_tps: 400, ..SimConfig::default() },
        pool: |pool| pool.migrations = 2,
        counts: true,
        has_view: true,
    },
];

const STAGE: &str = "stage";
const ADAPTED: &str = "adapted";

fn without_events() -> SimConfig {
    SimConfig { kv_events: SimEvents::None, ..SimConfig::default() }
}

// === impl Cast ===

impl Cast {
    /// What one of its engines does.
    fn role(&self, number: usize) -> WorkerRole {
        self.roles.get(number).copied().unwrap_or(WorkerRole::Aggregated)
    }
}

// === impl World ===

impl World {
    pub(crate) async fn begin(setting: &'static Setting, seed: u64) -> Self {
        let adapters = [Scripted::start(&[ADAPTED]).await, Scripted::start(&[ADAPTED, "lora"]).await];
        let of_cast = |cast: &Cast| {
            let engine = |number: usize| SimConfig {
                model: cast.model.to_owned(),
                role: cast.role(number),
                seed: seed ^ number as u64,
                ..(cast.engine)()
            };
            (0..cast.manners.len()).map(engine).collect::<Vec<_>>()
        };
        let mut configs: Vec<_> = setting.casts.iter().flat_map(of_cast).collect();
        configs.extend([0, 1].map(|_| SimConfig { model: STAGE.to_owned(), ..SimConfig::default() }));
        let mut fleet = Fleet::start_with(configs, |urls| serve_config(setting, urls, &adapters, seed)).await;
        let mut engines = fleet.engines.drain(..);
        let of_cast = |cast: &Cast| engines.by_ref().take(cast.manners.len()).collect();
        let of_pools = setting.casts.iter().map(of_cast).collect();
        let actors = engines.collect();
        Self { setting, engines: of_pools, actors, adapters, fleet }
    }

    /// The pool of a model.
    pub(crate) fn cast(&self, model: &str) -> &'static Cast {
        self.setting.casts.iter().find(|cast| cast.model == model).unwrap()
    }

    /// The engines of a pool, which somebody may take care of for a while.
    pub(crate) fn of(&mut self, cast: &Cast) -> &mut Vec<SimEngine> {
        let position = self.setting.casts.iter().position(|other| other.model == cast.model);
        &mut self.engines[position.unwrap()]
    }

    /// The pool that has two engines without any other traffic.
    pub(crate) fn stage(&self) -> Stage {
        self.stage_of(STAGE, self.actors.iter().map(|engine| engine.address().to_string()).collect())
    }

    /// The pool of the adapter.
    pub(crate) fn adapted(&self) -> Stage {
        self.stage_of(ADAPTED, self.adapters.iter().map(|engine| engine.name.clone()).collect())
    }

    fn stage_of(&self, model: &str, workers: Vec<String>) -> Stage {
        let (data, admin) = (self.fleet.data(""), self.fleet.admin(""));
        Stage::new(&Client::default(), (&data, &admin), model, workers)
    }

    pub(crate) async fn end(self) {
        self.fleet.stop().await;
        for engine in self.engines.into_iter().flatten().chain(self.actors) {
            engine.stop().await;
        }
    }
}

/// The same engine again, as another process would be: other words, other sockets for events.
pub(crate) fn successor(cast: &Cast, address: SocketAddr) -> SimConfig {
    SimConfig { model: cast.model.to_owned(), listen: address, seed: 77, ..(cast.engine)() }
}

fn serve_config(setting: &Setting, urls: &[String], adapters: &[Scripted; 2], seed: u64) -> ServeConfig {
    let mut config = server_config(&[], "kv");
    config.trusted = vec!["127.0.0.0/8".parse().unwrap()];
    config.router.seed = seed;
    config.router.pools.clear();
    let mut urls = urls.iter();
    for cast in setting.casts {
        let mut pool = pool_of(cast.model, urls.by_ref().take(cast.manners.len()));
        let workers = pool.workers.iter_mut().enumerate();
        workers.for_each(|(number, worker)| worker.role = cast.role(number));
        (cast.pool)(&mut pool);
        // Everything is to befall everybody in a short time, so whoever fails is tried again soon.
        pool.breaker.cooldown = Duration::from_millis(20);
        pool.breaker.longest = Duration::from_millis(20);
        config.router.pools.push(pool);
    }
    config.router.pools.push(pool_of(STAGE, urls));
    config.router.pools.push(pool_of(ADAPTED, adapters.each_ref().map(Scripted::url).iter()));
    config.router.pools.iter_mut().for_each(setting.pool);
    config
}

fn pool_of<'a>(model: &str, urls: impl Iterator<Item = &'a String>) -> PoolConfig {
    let mut pool = PoolConfig::of_workers(urls.map(WorkerConfig::at).collect());
    pool.model = Some(ModelName::new(model));
    pool.tokenizer = TokenizerSource::Path(demo_tokenizer_folder());
    pool
}
