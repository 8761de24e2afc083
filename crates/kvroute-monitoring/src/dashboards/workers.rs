//! The workers one by one: whether they are well, how far their word can be trusted, what they hold and have to do.

use kvroute_metrics::rows;

use super::{Dashboard, Panel, Section, Unit};
use crate::query::{Query, Spelling};

const RANK: [&str; 2] = ["worker_id", "dp_rank"];
const LEGEND: &str = "{{worker_id}}/{{dp_rank}}";

/// The workers' dashboard.
pub(super) fn dashboard(spelling: &Spelling) -> Dashboard {
    Dashboard {
        name: "workers",
        title: "kvroute: workers",
        about: "Whether each worker is well, how far its word can be trusted, what it holds and what it has to do.",
        sections: vec![
            Section::new("State", state(spelling)),
            Section::new("Identity of tokens", identity(spelling)),
            Section::new("Calibration", calibration(spelling)),
            Section::new("Load", load(spelling)),
            Section::new("What the index holds", index(spelling)),
            Section::new("KV events", events(spelling)),
            Section::new("Ranks without events", remembered(spelling)),
        ],
    }
}

fn state(spelling: &Spelling) -> Vec<Panel> {
    vec![
        Panel::bands("State of the workers", Unit::Count)
            .says("1 while a worker is in a state. unhealthy, open: its log and the network; starting: not answered yet.")
            .shows("{{worker_id}} {{state}}", spelling.now(rows::WORKER_STATE).max_by(&["worker_id", "state"])),
        Panel::lines("Workers of each pool", Unit::Count)
            .says("known: those that are configured, were added or discovered. ready well below known: see the states above.")
            .shows("{{pool}} {{state}}", spelling.now(rows::POOL_WORKERS).max_by(&["pool", "state"])),
        Panel::lines("Age of what was discovered", Unit::Seconds)
            .says(
                "Time since the last look of a discovery that succeeded. It grows while looks fail; the workers that were found                  before stay. GET /api/discovery says why.",
            )
            .shows("{{pool}}", spelling.now(rows::DISCOVERY_AGE).max_by(&["pool"])),
        Panel::lines("New configurations", Unit::PerSecond)
            .says("refused: the log has the text that `kvroute check` prints; the router goes on with the old one.")
            .shows("{{outcome}}", spelling.rate(rows::CONFIG_RELOADS).sum_by(&["outcome"])),
        Panel::bands("Does discovery fail?", Unit::Count)
            .says("1 while the last look failed.")
            .shows("{{pool}}", spelling.now(rows::DISCOVERY_FAILING).max_by(&["pool"])),
        Panel::bands("State of the index sources", Unit::Count)
            .says(
                "1 while a rank's source is in a state. blind: its KV events do not arrive. suspect: its reports contradict \
                 its events. degraded: something was missed; enable the engine's replay endpoint. GET /api/workers names \
                 the reason.",
            )
            .shows(
                "{{worker_id}}/{{dp_rank}} {{state}}",
                spelling.now(rows::SOURCE_STATE).max_by(&["worker_id", "dp_rank", "state"]),
            ),
    ]
}

/// Shown for pools that count prompts.
fn identity(spelling: &Spelling) -> Vec<Panel> {
    vec![
        Panel::bands("Are the router's tokens the engine's?", Unit::Count)
            .says(
                "1 while a worker is in a state. mismatch: no cached prefix is found there but by luck; the router's log \
                 names the first differing position and both ids. unproven: GET /api/workers says what is missing.",
            )
            .shows(
                "{{worker_id}} {{state}}",
                spelling.now(rows::IDENTITY_STATE).max_by(&["worker_id", "state"]),
            ),
        Panel::lines("Comparisons with the engines", Unit::PerSecond)
            .says(
                "By result. length, ids: the engine's tokens were others. failed: it was asked for ids and did not tell.",
            )
            .shows("{{model}} {{result}}", spelling.rate(rows::IDENTITY_CHECKS).sum_by(&["model", "result"])),
        Panel::stacked("Tokens from the tokenizer's cache", Unit::TokensPerSecond)
            .says("hit: the prompt, or its beginning, was tokenized before. miss: it had to be done.")
            .shows("{{model}} {{result}}", spelling.rate(rows::TOKENIZER_CACHE).sum_by(&["model", "result"])),
    ]
}

fn calibration(spelling: &Spelling) -> Vec<Panel> {
    let predicted = || spelling.rate(rows::WORKER_PREDICTED).sum_by(&RANK);
    let reported = || spelling.rate(rows::WORKER_REPORTED).sum_by(&RANK);
    vec![
        Panel::lines("The index believes, the engine reuses", Unit::TokensPerSecond)
            .says("Cached prefix that the index held for each rank, and what the rank reused, of the same attempts.")
            .shows("believed {{worker_id}}/{{dp_rank}}", predicted())
            .shows("reused {{worker_id}}/{{dp_rank}}", reported()),
        Panel::lines("Reused by what was believed", Unit::Share)
            .says(
                "Near 1 everywhere in good health. One rank far below: its cache was emptied unannounced, or its events \
                 speak of another block size. Above 1: it holds more than the index knows.",
            )
            .shows(LEGEND, reported().over(predicted())),
    ]
}

fn load(spelling: &Spelling) -> Vec<Panel> {
    vec![
        Panel::lines("Prompt tokens to be computed", Unit::Tokens)
            .says("As the routers booked them. Uneven over ranks: the cache outweighs the load; look at the weights.")
            .shows(LEGEND, spelling.now(rows::ACTIVE_PREFILL_TOKENS).sum_by(&RANK)),
        Panel::lines("Blocks of running sequences", Unit::Blocks)
            .says("As the routers booked them. Near a rank's capacity it will preempt or evict.")
            .shows(LEGEND, spelling.now(rows::ACTIVE_DECODE_BLOCKS).sum_by(&RANK)),
        Panel::lines("Requests by the engine's own count", Unit::Count)
            .says(
                "More than the routers booked: others use the engine too. Nothing is shown where engines are not asked \
                 (pool.engine_load).",
            )
            .shows(
                "{{state}} {{worker_id}}/{{dp_rank}}",
                spelling.now(rows::WORKER_ENGINE_REQUESTS).max_by(&["worker_id", "dp_rank", "state"]),
            ),
        Panel::lines("Age of the engine's count", Unit::Seconds)
            .says("Beyond three intervals of pool.engine_load decisions ignore it; the router's log names the cause.")
            .shows(LEGEND, spelling.now(rows::WORKER_ENGINE_LOAD_AGE).max_by(&RANK)),
        Panel::lines("Recent work", Unit::Tokens)
            .says("Tokens that each rank was lately given, fading. Uneven at low load: sessions gather on few ranks.")
            .shows(LEGEND, spelling.now(rows::WORKER_RECENT).sum_by(&RANK)),
        Panel::lines("Latest time to the first token", Unit::Seconds)
            .says("One rank far above the others: it is overloaded or ill. 0 until something was streamed.")
            .shows(LEGEND, spelling.now(rows::LAST_FIRST_TOKEN_SECONDS).max_by(&RANK)),
        Panel::lines("Latest time between tokens", Unit::Seconds)
            .says("One rank far above the others: its decode batch is too full.")
            .shows(LEGEND, spelling.now(rows::LAST_INTER_TOKEN_SECONDS).max_by(&RANK)),
        Panel::lines("Input of the latest streamed request", Unit::Tokens)
            .says("Explains the time to the first token beside it.")
            .shows(LEGEND, spelling.now(rows::LAST_INPUT_TOKENS).max_by(&RANK)),
    ]
}

fn index(spelling: &Spelling) -> Vec<Panel> {
    vec![
        Panel::lines("Blocks in the index", Unit::Blocks)
            .says("Device blocks of each rank. Flat near the engine's cache size: it evicts.")
            .shows(LEGEND, spelling.now(rows::INDEX_BLOCKS).max_by(&RANK)),
        Panel::lines("Blocks that the index could not place", Unit::BlocksPerSecond)
            .says("orphaned beside gaps: enable the engine's replay endpoint. The others: its events cannot be trusted.")
            .shows(
                "{{reason}} {{worker_id}}/{{dp_rank}}",
                spelling.rate(rows::BLOCKS_REJECTED).sum_by(&["worker_id", "dp_rank", "reason"]),
            ),
        Panel::lines("Memory of the index", Unit::Bytes)
            .says("By model. Near pool.index.bytes: see the panel beside it.")
            .shows("{{model}}", spelling.now(rows::INDEX_BYTES).max_by(&["model"])),
        Panel::lines("Forgotten for want of memory", Unit::BlocksPerSecond)
            .says("Blocks that engines still hold and the index had to forget. Above 0: raise pool.index.bytes.")
            .shows("{{model}}", spelling.rate(rows::BUDGET_EVICTIONS).sum_by(&["model"])),
    ]
}

fn events(spelling: &Spelling) -> Vec<Panel> {
    let incidents = |query: Query| query.sum_by(&RANK);
    vec![
        Panel::lines("Events", Unit::PerSecond)
            .says("By kind. None while requests run: they do not arrive. undecodable: the engine is newer than the router.")
            .shows("{{kind}} {{worker_id}}", spelling.rate(rows::INDEX_EVENTS).sum_by(&["worker_id", "kind"])),
        Panel::lines("Event lag", Unit::Seconds)
            .says("Age of the latest batch when it was applied. Seconds: clocks differ, or the router cannot keep up.")
            .shows(LEGEND, spelling.now(rows::EVENT_LAG_SECONDS).max_by(&RANK)),
        Panel::lines("Gaps, lost batches and restarts", Unit::PerSecond)
            .says(
                "Gaps that a replay fills do no harm. Lost batches cost the rank's part of the index: enable the engine's \
                 replay endpoint, or raise its buffer. Restarts without a deployment: the engine crashes.",
            )
            .shows("gaps {{worker_id}}/{{dp_rank}}", incidents(spelling.rate(rows::INDEX_GAPS)))
            .shows("lost batches {{worker_id}}/{{dp_rank}}", incidents(spelling.rate(rows::MISSED_BATCHES)))
            .shows("restarts {{worker_id}}/{{dp_rank}}", incidents(spelling.rate(rows::INDEX_RESTARTS))),
        Panel::lines("Replays", Unit::PerSecond)
            .says("By how they ended. short: raise the engine's replay buffer. failed: the replay endpoint does not answer.")
            .shows("{{outcome}} {{worker_id}}", spelling.rate(rows::INDEX_REPLAYS).sum_by(&["worker_id", "outcome"])),
    ]
}

/// Shown for ranks that are remembered; for others there is nothing to show.
fn remembered(spelling: &Spelling) -> Vec<Panel> {
    let by_rank = |query: Query| query.sum_by(&RANK);
    vec![
        Panel::lines("Remembered blocks", Unit::Blocks)
            .says(
                "What ranks without KV events are thought to hold: an estimate, as good as their calibration. Nothing is \
                 shown where every rank has events.",
            )
            .shows(LEGEND, spelling.now(rows::REMEMBERED_BLOCKS).max_by(&RANK)),
        Panel::lines("Let go to make room", Unit::BlocksPerSecond)
            .says("Fast: the rank's cache is small for its traffic.")
            .shows(LEGEND, by_rank(spelling.rate(rows::REMEMBERED_EVICTED))),
        Panel::lines("Prompts remembered by time only", Unit::PerSecond)
            .says("Above 0: nobody knows how much the rank's cache holds, and pool.index.ttl decides.")
            .shows(LEGEND, by_rank(spelling.rate(rows::REMEMBERED_FALLBACKS))),
        Panel::lines("Answers that took further blocks", Unit::PerSecond)
            .says("How much of the rank's cache answers take.")
            .shows(LEGEND, by_rank(spelling.rate(rows::REMEMBERED_OUTPUT_BATCHES))),
    ]
}
