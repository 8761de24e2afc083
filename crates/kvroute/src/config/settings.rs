//! The settings table: every key of this version, once.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use kvroute_core::{BlockSize, WorkerRole};
use kvroute_router::config::{
    BusyThreshold, CountMode, EventEndpoint, HistoryOutputs, IndexSource, OnMismatch, OnNoPrefill, ReadyWhen,
    TokenizerSource,
};
use kvroute_select::QueueOrder;

use super::setting::{Row, Setting};
use super::value::{
    Auto, ByteSize, Count, DnsNameText, FilePath, FoundBy, IndexBytes, Interval, LocalPrefill, LogFormat,
    MetricPrefix, Migrations, Most, MostOrAny, Name, NatsServers, Networks, OtlpEndpoint, PolicyName,
    PolicyNames, Port, QueueLimit, RateOrAny, RecordedCandidates, ReplayEndpoint, Retries, Scheme,
    SessionMode, Share, Timeout, Weight, WorkerUrl,
};

macro_rules! settings {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty = $key:literal $(.$option:ident($($value:literal),*))*;)+) => {
        $(
            $(#[doc = $doc])+
            pub(crate) const $name: Setting<$type> = {
                const DOC: &str = concat!($($doc),+);
                Setting::new($key, DOC)$(.$option($($value),*))*
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
    /// Callers that may steer a request, by `x-kvroute-worker` and `x-kvroute-override`, and that are told where it
    /// went. They are known by the address of their connection, never by a header. IPv4 addresses in IPv6 form count
    /// as IPv4.
    SERVER_TRUSTED: Networks = "server.trusted".default("[]");
    /// File with the keys of those who may ask, a line each: `sha256:` and the SHA-256 of the key in hexadecimal digits, then
    /// `tenant=NAME` (whose caches are shared with no other tenant), `rate=10/s` or `rate=600/m,burst=50` (more get 429) and
    /// `trusted` (see `trusted`). Absent: open to all.
    SERVER_API_KEYS_FILE: FilePath = "server.api_keys_file";
    /// Largest request body; a larger one gets 413.
    SERVER_MAX_BODY: ByteSize = "server.max_body".default("\"32MiB\"");
    /// When `/ready` says that requests would be served: `"any"`, one model has a worker that takes requests; `"all"`, every pool
    /// has.
    SERVER_READY: ReadyWhen = "server.ready".default("\"any\"");
    /// How long running streams may finish after SIGTERM or Ctrl-C.
    SERVER_DRAIN: Duration = "server.drain".default("\"30s\"");
    /// File with the tokens of those who may use the admin plane, a line each. Needed where `admin_listen` is no loopback
    /// address. Absent: programs of this machine may, web pages in its browsers may not.
    SERVER_ADMIN_TOKEN_FILE: FilePath = "server.admin_token_file";
    /// Certificate of the data plane, with those that it was issued by behind it; PEM. With it the data plane speaks TLS.
    SERVER_TLS_CERT: FilePath = "server.tls.cert";
    /// Private key of that certificate; PEM, not encrypted.
    SERVER_TLS_KEY: FilePath = "server.tls.key";
    /// Authorities of clients; PEM. With it every client has to show a certificate of one of them.
    SERVER_TLS_CLIENT_CA: FilePath = "server.tls.client_ca";
    /// Certificate of the admin plane. With it the admin plane speaks TLS.
    SERVER_ADMIN_TLS_CERT: FilePath = "server.admin_tls.cert";
    /// Private key of that certificate.
    SERVER_ADMIN_TLS_KEY: FilePath = "server.admin_tls.key";
    /// Authorities of those who use the admin plane; their certificates come beside the token, not in its place.
    SERVER_ADMIN_TLS_CLIENT_CA: FilePath = "server.admin_tls.client_ca";
    /// Connections that each plane serves at once; one more is told 503 and closed.
    SERVER_LIMITS_CONNECTIONS: Most = "server.limits.connections".default("10000");
    /// Requests that one connection of HTTP/2 may carry at once.
    SERVER_LIMITS_STREAMS: Most = "server.limits.streams".default("1000");
    /// Requests of the data plane that are served at once; one more gets 503.
    SERVER_LIMITS_REQUESTS: MostOrAny = "server.limits.requests".default("\"off\"");
    /// How often requests may come to the data plane, all clients together; one more gets 429. A key has its own `rate=`.
    SERVER_LIMITS_RATE: RateOrAny = "server.limits.rate".default("\"off\"");
    /// Time for a request's head, and for what comes before the first one, such as the handshake of TLS.
    SERVER_LIMITS_HEAD: Timeout = "server.limits.head".default("\"30s\"");
    /// Time for a request's body; a slower one gets 408.
    SERVER_LIMITS_BODY: Timeout = "server.limits.body".default("\"120s\"");
    /// How long a connection may stay open without a request. Above that of a load balancer in front, whose next request
    /// would meet a closed connection otherwise.
    SERVER_LIMITS_KEEP_ALIVE: Timeout = "server.limits.keep_alive".default("\"90s\"");
    /// How long a client may read nothing of what is there for it. Then its connection is closed, over HTTP/2 its stream.
    SERVER_LIMITS_STALL: Timeout = "server.limits.stall".default("\"120s\"");

    /// Model that the pool serves and counts under. Absent: the one its workers name.
    POOL_MODEL: Name = "pool.model".flag("model", "NAME");
    /// Further model names in requests that mean this pool.
    POOL_ALIASES: Vec<String> = "pool.aliases".default("[]");
    /// Model folder with `tokenizer.json`; `engine` lets the workers tokenize. The chat template lies beside it. A
    /// relative path is looked up where the router runs.
    POOL_TOKENIZER: TokenizerSource = "pool.tokenizer".default("\"engine\"").flag("tokenizer", "PATH");
    /// How a worker is picked.
    POOL_POLICY: PolicyName = "pool.policy".default("\"kv\"").flag("policy", "NAME");
    /// Further policies that are asked for every request and never followed, to see what each would have found cached.
    /// Requests whose caller names the worker are left out, so with `direct` there is none. Only with `count = "exact"`.
    POOL_SHADOW: PolicyNames = "pool.shadow".default("[]");
    /// Tokens in a KV block. `"auto"` learns it from the engines; a number that they contradict is an error.
    POOL_BLOCK_SIZE: Auto<BlockSize> = "pool.block_size".default("\"auto\"");
    /// Look up the cached prefixes beside a policy that does not need them, to see what `kv` would save.
    POOL_OBSERVE: bool = "pool.observe".default("false");
    /// Whether prompts are tokenized and counted. `"off"` only with a policy other than `kv` and without
    /// `observe`.
    POOL_COUNT: CountMode = "pool.count".default("\"exact\"");
    /// What happens where an engine is found to count other tokens than the pool's tokenizer does: `"engine"` has the
    /// engine tokenize from then on, `"load"` routes by load alone.
    POOL_ON_MISMATCH: OnMismatch = "pool.on_mismatch".default("\"engine\"");
    /// What a request for a pool with prefill workers gets while none of them can take it: `"fallback"` has a decode or an
    /// aggregated worker compute the prompt too, which is counted with its reason; `"strict"` waits, and refuses in the end.
    POOL_ON_NO_PREFILL: OnNoPrefill = "pool.on_no_prefill".default("\"fallback\"");
    /// A prompt of which a decode or an aggregated worker has all but so many tokens cached is computed there, since
    /// handing over its KV would cost more. 0: every prompt goes to a prefill worker.
    POOL_LOCAL_PREFILL: LocalPrefill = "pool.local_prefill".default("0");
    /// How often one stream that breaks off may go on where its worker left it, on another worker. 0: never.
    POOL_MIGRATIONS: Migrations = "pool.migrations".default("1");
    /// How often the workers are asked for the load that they have from elsewhere. `"off"`: what this router placed is
    /// all that counts.
    POOL_ENGINE_LOAD: Interval = "pool.engine_load".default("\"off\"");
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
    /// Remember what was ever computed, so that new text can be told from text whose cache was lost. Needs an index to be
    /// asked (policy `kv` or `observe`).
    POOL_HISTORY_ENABLED: bool = "pool.history.enabled".default("false").dyn_env("DYN_ROUTER_CACHE_REUSE_HISTORY").lenient();
    /// Whether generated text is remembered, too. `"auto"`: where the engine is known to give token ids when asked;
    /// `"ids"`: every engine is asked; `"off"`: only prompts are remembered.
    POOL_HISTORY_OUTPUTS: HistoryOutputs = "pool.history.outputs".default("\"auto\"");
    /// What the history may occupy at most. Beyond it the oldest entries go. A value that is no size is ignored with a
    /// warning, and the default is used.
    POOL_HISTORY_BYTES: ByteSize = "pool.history.bytes".default("\"256MiB\"").dyn_env("DYN_ROUTER_CACHE_REUSE_HISTORY_BYTES").lenient();
    /// File that keeps the history over a restart of the router. Absent: the history starts empty.
    POOL_HISTORY_SNAPSHOT: FilePath = "pool.history.snapshot";
    /// Limit until the connection to a worker stands.
    POOL_TIMEOUTS_CONNECT: Timeout = "pool.timeouts.connect".default("\"2s\"");
    /// Limit until a worker's response begins.
    POOL_TIMEOUTS_FIRST_BYTE: Timeout = "pool.timeouts.first_byte".default("\"300s\"");
    /// Limit between two pieces of a response.
    POOL_TIMEOUTS_IDLE: Timeout = "pool.timeouts.idle".default("\"120s\"");
    /// Limit of a whole response.
    POOL_TIMEOUTS_TOTAL: Timeout = "pool.timeouts.total".default("\"3600s\"");
    /// Authorities of the workers with an `https` address; PEM. Absent: those of the system.
    POOL_TLS_CA: FilePath = "pool.tls.ca";
    /// Certificate that is shown to workers that ask for one; PEM.
    POOL_TLS_CERT: FilePath = "pool.tls.cert";
    /// Private key of that certificate; PEM, not encrypted.
    POOL_TLS_KEY: FilePath = "pool.tls.key";
    /// Whether workers that fail their requests are left alone for a while (see docs/faults.md).
    POOL_BREAKER_ENABLED: bool = "pool.breaker.enabled".default("true");
    /// Failures in a row after which a worker is left alone.
    POOL_BREAKER_FAILURES: Count = "pool.breaker.failures".default("5");
    /// Share of failures within the window after which a worker is left alone, of at least ten attempts.
    POOL_BREAKER_SHARE: Share = "pool.breaker.share".default("0.5");
    /// How far back that share looks.
    POOL_BREAKER_WINDOW: Timeout = "pool.breaker.window".default("\"10s\"");
    /// How long a worker is left alone the first time, up to a quarter less by chance; twice as long each further time until
    /// it has answered a request.
    POOL_BREAKER_COOLDOWN: Timeout = "pool.breaker.cooldown".default("\"5s\"");
    /// The longest time that a worker is left alone.
    POOL_BREAKER_LONGEST: Timeout = "pool.breaker.longest".default("\"60s\"");
    /// Time between two questions to a worker whether it is well.
    POOL_HEALTH_INTERVAL: Timeout = "pool.health.interval".default("\"2s\"");
    /// How long the answer to such a question may take.
    POOL_HEALTH_TIMEOUT: Timeout = "pool.health.timeout".default("\"5s\"");
    /// Questions in a row without a proper answer after which a worker gets no more requests.
    POOL_HEALTH_FAILURES: Count = "pool.health.failures".default("3");
    /// Answers in a row after which it gets requests again.
    POOL_HEALTH_SUCCESSES: Count = "pool.health.successes".default("1");
    /// How often one request is sent to another worker at most because one failed; 0: never.
    POOL_RETRIES_LIMIT: Retries = "pool.retries.limit".default("2");
    /// Share of the requests of the last ten seconds that may be sent again.
    POOL_RETRIES_SHARE: Share = "pool.retries.share".default("0.2");
    /// Retries a second that are allowed beside that share, however few requests there are.
    POOL_RETRIES_FLOOR: Weight = "pool.retries.floor".default("3.0");
    /// Weight of prompt blocks still to compute against blocks being decoded.
    POOL_KV_PREFILL_SCALE: Weight = "pool.kv.prefill_scale".default("1.0");
    /// Credit of a cached block in the accelerator's memory.
    POOL_KV_DEVICE_WEIGHT: Weight = "pool.kv.device_weight".default("1.0");
    /// Credit of a cached block in the host's memory.
    POOL_KV_HOST_WEIGHT: Weight = "pool.kv.host_weight".default("0.75");
    /// Credit of a cached block on disk.
    POOL_KV_DISK_WEIGHT: Weight = "pool.kv.disk_weight".default("0.25");
    /// Weight of a token of context that running requests read at every step, against one that is to be computed.
    POOL_KV_DECODE_WEIGHT: Weight = "pool.kv.decode_weight".default("0.03");
    /// Cost of each request in flight, in blocks.
    POOL_KV_REQUEST_WEIGHT: Weight = "pool.kv.request_weight".default("0.0");
    /// Weight of what a worker was given lately against its fair share, so that requests with pauses between them spread.
    POOL_KV_RECENT_WEIGHT: Weight = "pool.kv.recent_weight".default("1.0");
    /// 0 picks the lowest cost; above, workers are sampled by cost, the more evenly the higher it is.
    POOL_KV_TEMPERATURE: Weight = "pool.kv.temperature".default("0.0");
    /// How long policy `sticky` keeps a session on its worker while it sends nothing.
    POOL_STICKY_TTL: Timeout = "pool.sticky.ttl".default("\"1h\"");
    /// What a session of policy `sticky` does while its worker cannot be used: `"soft"` moves to another one, `"hard"`
    /// waits.
    POOL_STICKY_MODE: SessionMode = "pool.sticky.mode".default("\"soft\"");
    /// Requests that may wait at once while every worker is busy; one more gets 429. 0 lets nobody wait.
    POOL_QUEUE_LIMIT: QueueLimit = "pool.queue.limit".default("1000");
    /// How long a request may wait for a worker that is not busy, or for the first worker; then it gets 503.
    POOL_QUEUE_TIMEOUT: Timeout = "pool.queue.timeout".default("\"30s\"");
    /// Prompt tokens placed on a worker and not computed yet above which it is busy. `"auto"` makes it of what the
    /// engine computes in a step; `"off"`: no worker is ever busy.
    POOL_QUEUE_THRESHOLD: BusyThreshold = "pool.queue.threshold".default("\"auto\"");
    /// Who of those with the same priority is next: `"fcfs"` whoever came first, `"shortest-prefill"` whoever has the
    /// fewest tokens to compute among those who came at about the same time.
    POOL_QUEUE_ORDER: QueueOrder = "pool.queue.order".default("\"fcfs\"");
    /// Share of the decisions that are kept for a while, to be asked for under `/api/decisions`.
    POOL_DECISIONS_SAMPLE: Share = "pool.decisions.sample".default("1.0");
    /// Workers that are kept of each decision: the picked one, the one with the longest cached prefix, then the
    /// cheapest.
    POOL_DECISIONS_CANDIDATES: RecordedCandidates = "pool.decisions.candidates".default("8");

    /// Where workers are found beside those that are configured: `"file"` in a file that something else writes, `"dns"` by the
    /// domain name system. Absent: nowhere.
    POOL_DISCOVERY_KIND: FoundBy = "pool.discovery.kind";
    /// With `"file"`: the file, looked at every second. A worker a line, its address first and then perhaps `role=…`,
    /// `kv_events=…`, `kv_replay=…` and `dp_ranks=…`; or a JSON list of addresses and of objects with those keys and `url`.
    POOL_DISCOVERY_PATH: FilePath = "pool.discovery.path";
    /// With `"dns"`: the name. Without a port, a service whose SRV records tell hosts and ports; with one, a host whose
    /// addresses are the workers.
    POOL_DISCOVERY_NAME: DnsNameText = "pool.discovery.name";
    /// With `"dns"`: the port of the workers, where the name is that of a host.
    POOL_DISCOVERY_PORT: Port = "pool.discovery.port";
    /// With `"dns"`: how the workers are asked.
    POOL_DISCOVERY_SCHEME: Scheme = "pool.discovery.scheme".default("\"http\"");
    /// With `"dns"`: the name server that is asked. Absent: those of the system.
    POOL_DISCOVERY_SERVER: SocketAddr = "pool.discovery.server";
    /// With `"dns"`: longest time between two questions. An answer that holds for a shorter time is asked for again when it
    /// ends, but not within a second.
    POOL_DISCOVERY_REFRESH: Timeout = "pool.discovery.refresh".default("\"30s\"");

    /// Base address of an engine, such as `http://10.0.0.1:8000`; without `/v1`. Required.
    WORKER_URL: WorkerUrl = "pool.worker.url";
    /// What the worker does: `"aggregated"` computes prompts and generates; `"prefill"` only computes prompts and hands
    /// their KV over to `"decode"` workers, which generate.
    WORKER_ROLE: WorkerRole = "pool.worker.role".default("\"aggregated\"");
    /// Where the worker's KV events come from: `"auto"` asks the engine, `"none"` goes without,
    /// `"tcp://host:port"` connects and `"bind:tcp://host:port"` lets the engine connect. Rank r is at port + r.
    WORKER_KV_EVENTS: EventEndpoint = "pool.worker.kv_events".default("\"auto\"");
    /// Where lost KV events can be asked for: `"auto"`, `"none"` or `"tcp://host:port"`.
    WORKER_KV_REPLAY: ReplayEndpoint = "pool.worker.kv_replay".default("\"auto\"");
    /// Data-parallel ranks behind the address. `"auto"` asks the engine.
    WORKER_DP_RANKS: Auto<u32> = "pool.worker.dp_ranks".default("\"auto\"");

    /// NATS server that replicas of this router talk over, such as `nats://127.0.0.1:4222`; several with commas between
    /// them. Absent: this replica is alone.
    CLUSTER_NATS: NatsServers = "cluster.nats";
    /// Whether replicas share their histories; needs `cluster.nats`, and `pool.history.enabled` in a pool.
    CLUSTER_REPLICA_SYNC: bool = "cluster.replica_sync".default("false");

    /// Replaces the leading `dynamo` of every standard metric name.
    METRICS_PREFIX: MetricPrefix = "metrics.prefix".default("\"dynamo\"").dyn_env("DYN_METRICS_PREFIX");
    /// Labels with a fixed value on every metric, such as `{ dynamo_namespace = "prod" }`.
    METRICS_CONST_LABELS: BTreeMap<String, String> = "metrics.const_labels".default("{}");

    /// Whether each request leaves a line in the log when it is over, under the target `kvroute::access` and at level
    /// `info`, which the log filter has to let through.
    LOG_ACCESS: bool = "log.access".default("true");
    /// What the lines of the log look like: `"text"`, or `"json"` with one object a line.
    LOG_FORMAT: LogFormat = "log.format".default("\"text\"");

    /// Collector that the spans of requests are sent to, by OTLP over HTTP. `"off"`: nothing is exported, and workers are
    /// still told which trace a request belongs to.
    TRACING_OTLP: OtlpEndpoint = "tracing.otlp".default("\"off\"").standard_env("OTEL_EXPORTER_OTLP_ENDPOINT");
    /// Share of the traces that begin at this router which are kept. Where a client sends a trace of its own, that trace
    /// says whether it is.
    TRACING_SAMPLE: Share = "tracing.sample".default("1.0");
}

/// The row of a key without indices.
pub(crate) fn row(key: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.key == key).copied()
}
