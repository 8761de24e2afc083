//! The settings table: every key of this version, once.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use kvroute_core::BlockSize;
use kvroute_router::config::{CountMode, EventEndpoint, IndexSource, TokenizerSource};

use super::setting::{Row, Setting};
use super::value::{
    Auto, ByteSize, FilePath, IndexBytes, MetricPrefix, Name, PolicyName, ReplayEndpoint, Role, Timeout,
    Weight, WorkerUrl,
};

macro_rules! settings {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty = $key:literal $(.$option:ident($($value:literal),+))*;)+) => {
        $(
            $(#[doc = $doc])+
            pub(crate) const $name: Setting<$type> = {
                const DOC: &str = concat!($($doc),+);
                Setting::new($key, DOC)$(.$option($($value),+))*
            };
        )+

        /// Every row, in the order of the documentation.
        pub(crate) const ROWS: &[&Row] = &[$(&$name.row),+];
    };
}

settings! {
    /// Address of the data plane, which clients talk to.
    SERVER_LISTEN: SocketAddr = "server.listen".default("\"127.0.0.1:8080\"").flag("listen", "ADDRESS");
    /// Address of the admin plane, with metrics and workers. Keep it away from clients.
    SERVER_ADMIN_LISTEN: SocketAddr = "server.admin_listen".default("\"127.0.0.1:9090\"").flag("admin-listen", "ADDRESS");
    /// Largest request body; a larger one gets 413.
    SERVER_MAX_BODY: ByteSize = "server.max_body".default("\"32MiB\"");
    /// How long running streams may finish after SIGTERM or Ctrl-C.
    SERVER_DRAIN: Duration = "server.drain".default("\"30s\"");

    /// Model that the pool serves and counts under. Absent: the one its workers name.
    POOL_MODEL: Name = "pool.model".flag("model", "NAME");
    /// Further model names in requests that mean this pool.
    POOL_ALIASES: Vec<String> = "pool.aliases".default("[]");
    /// Model folder with `tokenizer.json`; `engine` lets the workers tokenize. The chat template lies beside it. A
    /// relative path is looked up where the router runs.
    POOL_TOKENIZER: TokenizerSource = "pool.tokenizer".default("\"engine\"").flag("tokenizer", "PATH");
    /// How a worker is picked: `kv`, `round-robin`, `random` or `least-loaded`.
    POOL_POLICY: PolicyName = "pool.policy".default("\"kv\"").flag("policy", "NAME");
    /// Tokens in a KV block. `"auto"` learns it from the engines; a number that they contradict is an error.
    POOL_BLOCK_SIZE: Auto<BlockSize> = "pool.block_size".default("\"auto\"");
    /// Look up the cached prefixes beside a policy that does not need them, to see what `kv` would save.
    POOL_OBSERVE: bool = "pool.observe".default("false");
    /// Whether prompts are tokenized and counted. `"off"` only with a policy other than `kv` and without
    /// `observe`.
    POOL_COUNT: CountMode = "pool.count".default("\"exact\"");
    /// What the index of cached prefixes may occupy at most. What does not fit pushes out what was not asked for
    /// the longest.
    POOL_INDEX_BYTES: IndexBytes = "pool.index.bytes".default("\"1GiB\"");
    /// How the caches are known: `"reported"` by KV events, `"remembered"` from what the router placed, `"auto"`
    /// by events where a worker publishes them and else from memory.
    POOL_INDEX_SOURCE: IndexSource = "pool.index.source".default("\"auto\"");
    /// How long a placed prompt is remembered for a worker without KV events and of unknown cache size, unless it
    /// is asked for again.
    POOL_INDEX_TTL: Timeout = "pool.index.ttl".default("\"120s\"");
    /// File that keeps the index over a restart of the router. Absent: the index starts empty.
    POOL_INDEX_SNAPSHOT: FilePath = "pool.index.snapshot";
    /// Limit until the connection to a worker stands.
    POOL_TIMEOUTS_CONNECT: Timeout = "pool.timeouts.connect".default("\"2s\"");
    /// Limit until a worker's response begins.
    POOL_TIMEOUTS_FIRST_BYTE: Timeout = "pool.timeouts.first_byte".default("\"300s\"");
    /// Limit between two pieces of a response.
    POOL_TIMEOUTS_IDLE: Timeout = "pool.timeouts.idle".default("\"120s\"");
    /// Limit of a whole response.
    POOL_TIMEOUTS_TOTAL: Timeout = "pool.timeouts.total".default("\"3600s\"");
    /// Weight of prompt blocks still to compute against blocks being decoded.
    POOL_KV_PREFILL_SCALE: Weight = "pool.kv.prefill_scale".default("1.0");
    /// Credit of a cached block in the accelerator's memory.
    POOL_KV_DEVICE_WEIGHT: Weight = "pool.kv.device_weight".default("1.0");
    /// Credit of a cached block in the host's memory.
    POOL_KV_HOST_WEIGHT: Weight = "pool.kv.host_weight".default("0.75");
    /// Credit of a cached block on disk.
    POOL_KV_DISK_WEIGHT: Weight = "pool.kv.disk_weight".default("0.25");
    /// Cost of each request in flight, in blocks.
    POOL_KV_REQUEST_WEIGHT: Weight = "pool.kv.request_weight".default("0.0");
    /// 0 picks the lowest cost; above, workers are sampled by cost, the more evenly the higher it is.
    POOL_KV_TEMPERATURE: Weight = "pool.kv.temperature".default("0.0");

    /// Base address of an engine, such as `http://10.0.0.1:8000`; without `/v1`. Required.
    WORKER_URL: WorkerUrl = "pool.worker.url";
    /// What the worker does. This version knows `"aggregated"`: prompt and generation on one worker.
    WORKER_ROLE: Role = "pool.worker.role".default("\"aggregated\"");
    /// Where the worker's KV events come from: `"auto"` asks the engine, `"none"` goes without,
    /// `"tcp://host:port"` connects and `"bind:tcp://host:port"` lets the engine connect. Rank r is at port + r.
    WORKER_KV_EVENTS: EventEndpoint = "pool.worker.kv_events".default("\"auto\"");
    /// Where lost KV events can be asked for: `"auto"`, `"none"` or `"tcp://host:port"`.
    WORKER_KV_REPLAY: ReplayEndpoint = "pool.worker.kv_replay".default("\"auto\"");
    /// Data-parallel ranks behind the address. `"auto"` asks the engine.
    WORKER_DP_RANKS: Auto<u32> = "pool.worker.dp_ranks".default("\"auto\"");

    /// Replaces the leading `dynamo` of every standard metric name.
    METRICS_PREFIX: MetricPrefix = "metrics.prefix".default("\"dynamo\"").dyn_env("DYN_METRICS_PREFIX");
    /// Labels with a fixed value on every metric, such as `{ dynamo_namespace = "prod" }`.
    METRICS_CONST_LABELS: BTreeMap<String, String> = "metrics.const_labels".default("{}");
}

/// The row of a key without indices.
pub(crate) fn row(key: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.key == key).copied()
}
