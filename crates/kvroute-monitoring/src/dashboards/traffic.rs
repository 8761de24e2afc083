//! Requests, their times, the decisions about them, and the router itself.

use kvroute_metrics::{Row, rows};

use super::{Dashboard, Panel, Section, Unit};
use crate::query::{Query, Spelling};

/// The traffic's dashboard.
pub(super) fn dashboard(spelling: &Spelling) -> Dashboard {
    Dashboard {
        name: "traffic",
        title: "kvroute: traffic",
        about: "Requests, their times, the decisions about them, and the router itself.",
        sections: vec![
            Section::new("Requests", requests(spelling)),
            Section::new("From one worker to another", handovers(spelling)),
            Section::new("Times and lengths", times(spelling)),
            Section::new("Queue", queue(spelling)),
            Section::new("Decisions", decisions(spelling)),
            Section::new("What a decision costs", overhead(spelling)),
            Section::new("The router", process(spelling)),
        ],
    }
}

fn requests(spelling: &Spelling) -> Vec<Panel> {
    vec![
        Panel::stacked("Requests by outcome", Unit::PerSecond)
            .says(
                "failed: look at the workers. rejected: clients send what is refused, or no worker is there.",
            )
            .shows("{{outcome}}", spelling.rate(rows::REQUESTS).sum_by(&["outcome"])),
        Panel::lines("Requests by model and endpoint", Unit::PerSecond)
            .says("Model unknown: the request named none that is served. Endpoint unmatched: no such path.")
            .shows("{{model}} {{endpoint}}", spelling.rate(rows::REQUESTS).sum_by(&["model", "endpoint"])),
        Panel::stacked("Refused connections", Unit::PerSecond)
            .says(
                "Clients that were refused before a request of theirs could be read. limit: more than server.limits.connections \
                 at once. The others: what came was no head, or too large a one.",
            )
            .shows(
                "{{plane}} {{reason}}",
                spelling.rate(rows::REFUSED_CONNECTIONS).sum_by(&["plane", "reason"]),
            ),
        Panel::stacked("Attempts by outcome", Unit::PerSecond)
            .says(
                "One dispatch to one worker each. More than requests: retries, or several phases a request.",
            )
            .shows(
                "{{phase}} {{policy}} {{outcome}}",
                spelling.rate(rows::ATTEMPTS).sum_by(&["phase", "policy", "outcome"]),
            ),
        Panel::stacked("Sent again", Unit::PerSecond)
            .says(
                "Attempts that follow a failed one of the same request, by what failed. connect: a worker is down or its \
                 address wrong. Clients notice only the delay.",
            )
            .shows("{{model}} {{reason}}", spelling.rate(rows::RETRIES).sum_by(&["model", "reason"])),
        Panel::stacked("Not sent again", Unit::PerSecond)
            .says(
                "Requests that a worker failed and that no other worker was asked for. budget: so many workers fail that \
                 asking twice would double the load. suspect: two workers failed under the same request.",
            )
            .shows("{{model}} {{reason}}", spelling.rate(rows::RETRIES_REFUSED).sum_by(&["model", "reason"])),
        Panel::lines("Attempts booked and over", Unit::PerSecond)
            .says("Of all models. Booked far above over: they run long, or no worker can be reached.")
            .shows("booked", spelling.rate(rows::BOOKINGS).sum())
            .shows("dispatched and over", spelling.rate(rows::DISPATCHED_ATTEMPTS).sum()),
    ]
}

/// Shown for pools that migrate, and for those with prefill workers.
fn handovers(spelling: &Spelling) -> Vec<Panel> {
    vec![
        Panel::stacked("Streams that went on elsewhere", Unit::PerSecond)
            .narrow()
            .says(
                "By what ended the first worker's part. Clients notice a pause only. broken: the worker dies of requests. \
                 stalled: it hangs, or pool.timeouts.idle is too short.",
            )
            .shows("{{model}} {{reason}}", spelling.rate(rows::MIGRATIONS).sum_by(&["model", "reason"])),
        Panel::stacked("Prompts that no prefill worker computed", Unit::PerSecond)
            .narrow()
            .says(
                "By why. no_worker, unhealthy, failed: look at the prefill workers. cached and unsupported are as they \
                 should be.",
            )
            .shows("{{model}} {{reason}}", spelling.rate(rows::PREFILL_FALLBACKS).sum_by(&["model", "reason"])),
        Panel::lines("Computed by a prefill worker for nobody", Unit::TokensPerSecond)
            .narrow()
            .says("Decode workers fail, or clients leave between the two steps; the memory is held meanwhile.")
            .shows("{{model}}", spelling.rate(rows::STRANDED_PREFILL).sum_by(&["model"])),
    ]
}

fn times(spelling: &Spelling) -> Vec<Panel> {
    vec![
        quantiles(spelling, "Time to the first token", Unit::Seconds, rows::FIRST_TOKEN_SECONDS).says(
            "Of streamed requests of all models. High with little to compute: look at the stages; else add prefill \
             capacity.",
        ),
        quantiles(spelling, "Time between tokens", Unit::Seconds, rows::INTER_TOKEN_SECONDS)
            .says("Of streamed choices of all models. High: the workers' decode batches are too full."),
        quantiles(spelling, "Input of an attempt", Unit::Tokens, rows::INPUT_TOKENS)
            .says("Prompt lengths of the chosen models and phases."),
        quantiles(spelling, "Output of a request", Unit::Tokens, rows::OUTPUT_TOKENS)
            .says("Generated tokens of requests of all models: the decode demand that a request brings."),
        Panel::lines("Stages on the way to the worker (p99)", Unit::Seconds)
            .says("preprocess: tokenizer. route: selection. dispatch: the network and the worker's own queue.")
            .shows("{{stage}}", spelling.quantile_by(rows::STAGE_SECONDS, 0.99, "stage")),
        Panel::lines("Added by the router (p99)", Unit::Seconds)
            .says(
                "before_dispatch: from the headers to the engine, without the queue. per_chunk: of each piece of a stream. \
                 High: see the stages beside this, or the router is short of processors.",
            )
            .shows("{{part}}", spelling.quantile_by(rows::ADDED_LATENCY_SECONDS, 0.99, "part")),
        Panel::stacked("Requests in a stage now", Unit::Count)
            .says("Stuck in dispatch: workers accept but do not answer.")
            .shows("{{stage}}", spelling.now(rows::STAGE_REQUESTS).sum_by(&["stage"])),
    ]
}

fn queue(spelling: &Spelling) -> Vec<Panel> {
    vec![
        Panel::lines("Requests that wait", Unit::Count)
            .narrow()
            .says("Above 0 for long: the pool is too small, or its busy threshold too low.")
            .shows("{{model}}", spelling.now(rows::QUEUE_PENDING).sum_by(&["model"])),
        quantiles(spelling, "Time in the queue", Unit::Seconds, rows::QUEUE_WAIT_SECONDS)
            .narrow()
            .says("Of requests that had to wait and were placed. Nothing is shown while nobody waits."),
        Panel::stacked("Turned away", Unit::PerSecond)
            .narrow()
            .says("full, timeout: add workers. no_worker: see the workers' state. stopping: raise server.drain.")
            .shows("{{model}} {{reason}}", spelling.rate(rows::QUEUE_REFUSED).sum_by(&["model", "reason"])),
    ]
}

fn decisions(spelling: &Spelling) -> Vec<Panel> {
    let kept = |row: &'static Row| spelling.rate(row).sum();
    vec![
        Panel::stacked("Decisions by reason", Unit::PerSecond)
            .says("Whether the policy decides, or chance among equals does.")
            .shows(
                "{{model}} {{policy}}: {{reason}}",
                spelling.rate(rows::DECISIONS).sum_by(&["model", "policy", "reason"]),
            ),
        Panel::lines("Decisions that can be explained", Unit::PerSecond)
            .says("Kept for GET /api/decisions. Unrecorded with decisions.sample = 1: more a second than are kept.")
            .shows("recorded", kept(rows::DECISIONS_RECORDED))
            .shows("unrecorded", kept(rows::DECISIONS_UNRECORDED)),
        quantiles(spelling, "Hit rate of decisions", Unit::Share, rows::HIT_RATE).says(
            "Shares of single prompts, weighted by tier, of all models: kept for panels of the public Dynamo router. For \
             shares of tokens use the funnel.",
        ),
        Panel::lines("Decisions that gave overlap away", Unit::PerSecond)
            .says("The pick had less weighted overlap than another worker. Rising with load is normal.")
            .shows("{{worker_type}}", spelling.rate(rows::NON_MAX_OVERLAP).sum_by(&["worker_type"])),
        Panel::lines("Overlap that was given away", Unit::BlocksPerSecond)
            .says("Weighted blocks. Large: look at the cost weights of the pool.")
            .shows(
                "{{worker_type}}",
                spelling.series(rows::OVERLAP_BLOCKS_LOST).total().rate().sum_by(&["worker_type"]),
            ),
    ]
}

fn overhead(spelling: &Spelling) -> Vec<Panel> {
    let p99 = |row: &'static Row| spelling.quantile(row, 0.99);
    vec![
        quantiles(spelling, "Whole decision", Unit::Milliseconds, rows::DECISION_MS)
            .says("From token ids to a booked worker. Above a millisecond: the router's machine is short of processors."),
        Panel::lines("Parts of a decision (p99)", Unit::Milliseconds)
            .says("Hashing grows with the prompt, the lookup with prompt and ranks, scheduling with the ranks.")
            .shows("block hashes", p99(rows::BLOCK_HASHING_MS))
            .shows("sequence hashes", p99(rows::SEQUENCE_HASHING_MS))
            .shows("lookup", p99(rows::FIND_MATCHES_MS))
            .shows("scheduling", p99(rows::SCHEDULING_MS)),
    ]
}

fn process(spelling: &Spelling) -> Vec<Panel> {
    let of_routers = |query: Query| query.of_routers(spelling.now(rows::BUILD_INFO));
    let now = |row: &'static Row| of_routers(spelling.now(row));
    let started = Query::time().minus(spelling.now(rows::PROCESS_START_TIME));
    vec![
        Panel::lines("Processors", Unit::SecondsPerSecond)
            .narrow()
            .says("Processors that each router uses.")
            .shows("{{instance}}", of_routers(spelling.rate(rows::PROCESS_CPU_SECONDS))),
        Panel::lines("Memory", Unit::Bytes)
            .narrow()
            .says("Grows with the index; steady under steady traffic.")
            .shows("resident {{instance}}", now(rows::PROCESS_RESIDENT_MEMORY))
            .shows("virtual {{instance}}", now(rows::PROCESS_VIRTUAL_MEMORY)),
        Panel::lines("File descriptors", Unit::Count)
            .narrow()
            .says("Two a stream. Near the limit: raise it.")
            .shows("open {{instance}}", now(rows::PROCESS_OPEN_FDS))
            .shows("limit {{instance}}", now(rows::PROCESS_MAX_FDS)),
        Panel::lines("Threads", Unit::Count)
            .narrow()
            .says("Constant after the start.")
            .shows("{{instance}}", now(rows::PROCESS_THREADS)),
        Panel::figures("Running for", Unit::Seconds)
            .narrow()
            .says("How long each router has been up. A fall is a restart.")
            .shows("{{instance}}", of_routers(started)),
        Panel::figures("Version", Unit::Count)
            .narrow()
            .says("Routers by version. Two versions outside a roll-out: one was forgotten.")
            .shows("{{version}}", spelling.now(rows::BUILD_INFO).sum_by(&["version"])),
    ]
}

/// The middle and the tail of a histogram.
fn quantiles(spelling: &Spelling, title: &'static str, unit: Unit, row: &'static Row) -> Panel {
    Panel::lines(title, unit)
        .shows("p50", spelling.quantile(row, 0.5))
        .shows("p90", spelling.quantile(row, 0.9))
        .shows("p99", spelling.quantile(row, 0.99))
}
