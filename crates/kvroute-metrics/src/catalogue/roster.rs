//! Who is there: the workers of each pool, how they are found, and what became of new configurations.

use super::{Kind, Label, Presence, ReloadOutcome, Row, Values};

const POOL: Label =
    Label { name: "pool", values: Values::NameOf("pool by its configured model, or by its number") };
const PRESENCE: Label = Label { name: "state", values: Values::Of(Presence::VALUES) };
const OUTCOME: Label = Label { name: "outcome", values: Values::Of(ReloadOutcome::VALUES) };

pub(crate) const POOL_WORKERS: Row = Row {
    name: "kvroute_pool_workers",
    kind: Kind::Gauge,
    labels: &[POOL, PRESENCE],
    buckets: &[],
    unit: "workers",
    help: "Workers of a configured pool: those that are known, and those of them that take requests",
    population: "every worker that is configured, was added or was discovered and has not left",
    moves: "within a second of a change",
    zero: "ready 0: nobody serves the pool; known 0: nobody is named for it",
    act: "ready well below known: see kvroute_worker_state",
    differs: "",
};

pub(crate) const DISCOVERY_AGE: Row = Row {
    name: "kvroute_discovery_age_seconds",
    kind: Kind::Gauge,
    labels: &[POOL],
    buckets: &[],
    unit: "seconds",
    help: "Time since the last look of a pool's discovery that succeeded; since the router's start where none did",
    population: "pools with a discovery",
    moves: "every second; back to 0 with a look that succeeds",
    zero: "0: it has just looked; absent: the pool has no discovery",
    act: "beyond pool.discovery.refresh: the list of workers is old; see kvroute_discovery_failing and the log",
    differs: "",
};

pub(crate) const DISCOVERY_FAILING: Row = Row {
    name: "kvroute_discovery_failing",
    kind: Kind::Gauge,
    labels: &[POOL],
    buckets: &[],
    unit: "1 while the last look failed",
    help: "Whether the last look of a pool's discovery failed, so that the workers found before it stay",
    population: "pools with a discovery",
    moves: "with every look",
    zero: "0: the list is as fresh as it can be; absent: the pool has no discovery",
    act: "1: GET /api/discovery and the log say why; mend the file, the record or the name server",
    differs: "",
};

pub(crate) const CONFIG_RELOADS: Row = Row {
    name: "kvroute_config_reloads_total",
    kind: Kind::Counter,
    labels: &[OUTCOME],
    buckets: &[],
    unit: "configurations",
    help: "New configurations that a running router was given, by what became of them",
    population: "SIGHUP, and changes of the watched files",
    moves: "with each of them",
    zero: "no configuration came since the start",
    act: "refused: the log has the text that `kvroute check` prints; the router goes on with the old one",
    differs: "",
};
