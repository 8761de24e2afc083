//! The build and the process.

use super::{Kind, Label, Row, Values};

const VERSION: Label = Label { name: "version", values: Values::NameOf("release") };

pub(crate) const BUILD_INFO: Row = Row {
    name: "kvroute_build_info",
    kind: Kind::Gauge,
    labels: &[VERSION],
    buckets: &[],
    unit: "always 1",
    help: "Version of the router that runs",
    population: "the router's process",
    moves: "never",
    zero: "never 0; absent: what is scraped is no router",
    act: "join it to see which version a change came with",
    differs: "",
};

pub(crate) const PROCESS_CPU_SECONDS: Row = Row {
    kind: Kind::Counter,
    ..process(
        "process_cpu_seconds_total",
        "seconds",
        "Total user and system CPU time spent in seconds.",
        "by its rate, the processors that the router uses",
    )
};

pub(crate) const PROCESS_OPEN_FDS: Row = process(
    "process_open_fds",
    "file descriptors",
    "Number of open file descriptors.",
    "near process_max_fds: raise the limit",
);

pub(crate) const PROCESS_MAX_FDS: Row = process(
    "process_max_fds",
    "file descriptors",
    "Maximum number of open file descriptors.",
    "two a stream are needed",
);

pub(crate) const PROCESS_VIRTUAL_MEMORY: Row = process(
    "process_virtual_memory_bytes",
    "bytes",
    "Virtual memory size in bytes.",
    "of little meaning by itself",
);

pub(crate) const PROCESS_RESIDENT_MEMORY: Row = process(
    "process_resident_memory_bytes",
    "bytes",
    "Resident memory size in bytes.",
    "grows with the index; steady under steady traffic",
);

pub(crate) const PROCESS_START_TIME: Row = process(
    "process_start_time_seconds",
    "seconds",
    "Start time of the process since unix epoch in seconds.",
    "a change is a restart",
);

pub(crate) const PROCESS_THREADS: Row =
    process("process_threads", "threads", "Number of OS threads in the process.", "constant after the start");

/// A gauge that the process collector fills at every scrape.
const fn process(name: &'static str, unit: &'static str, help: &'static str, act: &'static str) -> Row {
    Row {
        name,
        kind: Kind::Gauge,
        labels: &[],
        buckets: &[],
        unit,
        help,
        population: "the router's process",
        moves: "read from the operating system at every scrape",
        zero: "a real value; absent where the operating system does not tell",
        act,
        differs: "",
    }
}
