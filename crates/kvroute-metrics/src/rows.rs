//! Rows of the catalogue for who reads an exposition: the demo and tests find a family by what it means, so
//! that its name stays spelled in one place.

use crate::{Row, catalogue};

/// Input tokens received.
pub const INPUT_TOKENS: &Row = &catalogue::INPUT_TOKENS;
/// Longest cached prefix on a worker rank that could be picked.
pub const BEST_CACHED: &Row = &catalogue::BEST_CACHED;
/// Cached prefix on the worker rank that was picked.
pub const SELECTED_CACHED: &Row = &catalogue::SELECTED_CACHED;
/// Tokens that workers report to have reused.
pub const WORKER_REUSED: &Row = &catalogue::WORKER_REUSED;
/// Longest cached prefix on any worker rank that could take the attempt, eligible or not.
pub const ANYWHERE_CACHED: &Row = &catalogue::ANYWHERE_CACHED;
/// Attempts by what became of their reuse report; exactly one outcome an attempt.
pub const REUSE_REPORTS: &Row = &catalogue::REUSE_REPORTS;
/// Input tokens of the attempts whose report was counted.
pub const REPORTED_INPUT: &Row = &catalogue::REPORTED_INPUT;
/// Input tokens of the attempts that could have reported their reuse.
pub const EXPECTED_INPUT: &Row = &catalogue::EXPECTED_INPUT;
/// Input tokens of the attempts that the loss ledger covers: counted exactly, with an index view, in phases
/// aggregated and prefill.
pub const LEDGER_INPUT: &Row = &catalogue::LEDGER_INPUT;
/// Input tokens of attempts that follow an earlier attempt of the same request in the same phase; part of the input
/// as well.
pub const REPEATED_INPUT: &Row = &catalogue::REPEATED_INPUT;
/// Tokens lost between two stages of the funnel, by stage and reason.
pub const REUSE_LOST: &Row = &catalogue::REUSE_LOST;
/// Time that the lost tokens take to be computed, by the prefill speed that the picked worker showed.
pub const LOST_SECONDS: &Row = &catalogue::LOST_SECONDS;
/// Tokens of which a later stage had more than the earlier one.
pub const REUSE_SURPLUS: &Row = &catalogue::REUSE_SURPLUS;
/// What the index promised, of the attempts that were compared.
pub const COMPARED_PREDICTED: &Row = &catalogue::COMPARED_PREDICTED;
/// What the workers reused, of the same attempts.
pub const COMPARED_REPORTED: &Row = &catalogue::COMPARED_REPORTED;
/// Input tokens that workers had to compute: input less reused, of attempts with outcome reported.
pub const UNCACHED_PREFILL: &Row = &catalogue::UNCACHED_PREFILL;
/// Attempts whose prompt the router could not or was not to count, and that were routed by load.
pub const UNCOUNTED_ATTEMPTS: &Row = &catalogue::UNCOUNTED_ATTEMPTS;
/// Tokens in leading blocks that some request has computed before: a ceiling of what any cache could have saved, not what is cached; summed over all pools with a history.
pub const HISTORY_CACHED: &Row = &catalogue::HISTORY_CACHED;
/// Tokens in leading blocks that some request has computed before, cached or not, by phase and model.
pub const HISTORY_CACHED_BY_MODEL: &Row = &catalogue::HISTORY_CACHED_BY_MODEL;
/// Input tokens of the attempts that a history was asked about.
pub const HISTORY_OBSERVED_INPUT: &Row = &catalogue::HISTORY_OBSERVED_INPUT;
/// Attempts that a history was asked about, by whether it learned them; exactly one result an attempt.
pub const HISTORY_OBSERVATIONS: &Row = &catalogue::HISTORY_OBSERVATIONS;
/// Blocks that the histories know.
pub const HISTORY_UNIQUE_HASHES: &Row = &catalogue::HISTORY_UNIQUE_HASHES;
/// Tokens of the blocks that the histories know.
pub const HISTORY_REPRESENTED_TOKENS: &Row = &catalogue::HISTORY_REPRESENTED_TOKENS;
/// Memory that the histories really hold, everything included.
pub const HISTORY_ESTIMATED_BYTES: &Row = &catalogue::HISTORY_ESTIMATED_BYTES;
/// Blocks that the histories have room for.
pub const HISTORY_CAPACITY_BLOCKS: &Row = &catalogue::HISTORY_CAPACITY_BLOCKS;
/// Memory that the histories may hold, everything included.
pub const HISTORY_CAPACITY_BYTES: &Row = &catalogue::HISTORY_CAPACITY_BYTES;
/// How far back the history reaches: the age of its oldest block.
pub const HISTORY_OLDEST_ENTRY_AGE: &Row = &catalogue::HISTORY_OLDEST_ENTRY_AGE;
/// Generated tokens that the history did not learn, because their ids did not come.
pub const HISTORY_UNTRACKED_OUTPUT: &Row = &catalogue::HISTORY_UNTRACKED_OUTPUT;
/// How long the latest snapshot of the history took to be written.
pub const HISTORY_SNAPSHOT_SECONDS: &Row = &catalogue::HISTORY_SNAPSHOT_SECONDS;
/// Whether the replicas know together what was computed: 1 for the current state, 0 for the others.
pub const HISTORY_SHARING: &Row = &catalogue::HISTORY_SHARING;
/// Messages between replicas about what their histories learned, by what became of them.
pub const HISTORY_SYNC_MESSAGES: &Row = &catalogue::HISTORY_SYNC_MESSAGES;
/// Messages to other replicas that were never sent, because too many waited.
pub const HISTORY_SYNC_DROPPED: &Row = &catalogue::HISTORY_SYNC_DROPPED;
/// Other replicas that were heard of lately.
pub const CLUSTER_PEERS: &Row = &catalogue::CLUSTER_PEERS;
/// Attempts that were booked on a worker.
pub const BOOKINGS: &Row = &catalogue::BOOKINGS;
/// Attempts that a worker had and that are over, however they ended.
pub const DISPATCHED_ATTEMPTS: &Row = &catalogue::DISPATCHED_ATTEMPTS;
/// Attempts that are over.
pub const ATTEMPTS: &Row = &catalogue::ATTEMPTS;
/// Attempts that follow a failed one of the same request.
pub const RETRIES: &Row = &catalogue::RETRIES;
/// Requests that a worker failed and that were not sent to another one, by why.
pub const RETRIES_REFUSED: &Row = &catalogue::RETRIES_REFUSED;
/// Streams that went on with another worker behind their first token.
pub const MIGRATIONS: &Row = &catalogue::MIGRATIONS;
/// Requests whose prompt was not computed by a prefill worker, by why.
pub const PREFILL_FALLBACKS: &Row = &catalogue::PREFILL_FALLBACKS;
/// Prompt tokens that a prefill worker computed and no decode worker ever took.
pub const STRANDED_PREFILL: &Row = &catalogue::STRANDED_PREFILL;
/// Whether the router cuts prompts into the tokens of a worker's engine: 1 for the current state, 0 for the others.
pub const IDENTITY_STATE: &Row = &catalogue::IDENTITY_STATE;
/// Comparisons of the router's tokens with an engine's, by their result.
pub const IDENTITY_CHECKS: &Row = &catalogue::IDENTITY_CHECKS;
/// Prompt tokens by whether the tokenizer's cache had them.
pub const TOKENIZER_CACHE: &Row = &catalogue::TOKENIZER_CACHE;
/// Client requests by how they ended; model is unknown where none was recognised.
pub const REQUESTS: &Row = &catalogue::REQUESTS;
/// From a request's headers to its first non-empty token.
pub const FIRST_TOKEN_SECONDS: &Row = &catalogue::FIRST_TOKEN_SECONDS;
/// Mean time between the tokens of one choice.
pub const INTER_TOKEN_SECONDS: &Row = &catalogue::INTER_TOKEN_SECONDS;
/// Tokens that a request's client got, over all its choices.
pub const OUTPUT_TOKENS: &Row = &catalogue::OUTPUT_TOKENS;
/// Requests that are in a stage now.
pub const STAGE_REQUESTS: &Row = &catalogue::STAGE_REQUESTS;
/// Time a request spent in a stage: preprocess until tokenized, route until booked, dispatch until headers.
pub const STAGE_SECONDS: &Row = &catalogue::STAGE_SECONDS;
/// Time that a request or a piece of its answer spent in the router: before_dispatch from the request's headers
/// until it is handed to the HTTP client, less its wait in the queue; per_chunk from a piece's arrival until it is
/// handed on.
pub const ADDED_LATENCY_SECONDS: &Row = &catalogue::ADDED_LATENCY_SECONDS;
/// Requests that wait in the router for a worker with room.
pub const QUEUE_PENDING: &Row = &catalogue::QUEUE_PENDING;
/// Time a request waited in the router before it was placed; only requests that had to wait.
pub const QUEUE_WAIT_SECONDS: &Row = &catalogue::QUEUE_WAIT_SECONDS;
/// Requests that the router turned away because no worker had room, by why.
pub const QUEUE_REFUSED: &Row = &catalogue::QUEUE_REFUSED;
/// Decisions by why this worker.
pub const DECISIONS: &Row = &catalogue::DECISIONS;
/// Decisions that were kept for whoever asks why, until newer ones push them out.
pub const DECISIONS_RECORDED: &Row = &catalogue::DECISIONS_RECORDED;
/// Decisions that nobody can ask about: outside the sampled share, or above the rate that is kept.
pub const DECISIONS_UNRECORDED: &Row = &catalogue::DECISIONS_UNRECORDED;
/// Cached prefix on the worker rank that a shadow policy would have picked.
pub const SHADOW_SELECTED: &Row = &catalogue::SHADOW_SELECTED;
/// Input tokens of the selections that a shadow policy was asked about.
pub const SHADOW_INPUT: &Row = &catalogue::SHADOW_INPUT;
/// Tier-weighted cached blocks on the picked worker by the blocks of the prompt.
pub const HIT_RATE: &Row = &catalogue::HIT_RATE;
/// Selections of a worker with less weighted overlap than another eligible one.
pub const NON_MAX_OVERLAP: &Row = &catalogue::NON_MAX_OVERLAP;
/// Weighted overlap that such a selection gave away.
pub const OVERLAP_BLOCKS_LOST: &Row = &catalogue::OVERLAP_BLOCKS_LOST;
/// Time a decision spent hashing the prompt's blocks.
pub const BLOCK_HASHING_MS: &Row = &catalogue::BLOCK_HASHING_MS;
/// Time a decision spent chaining the block hashes.
pub const SEQUENCE_HASHING_MS: &Row = &catalogue::SEQUENCE_HASHING_MS;
/// Time a decision spent looking up cached prefixes.
pub const FIND_MATCHES_MS: &Row = &catalogue::FIND_MATCHES_MS;
/// Time a decision spent on costs, the pick and the booking.
pub const SCHEDULING_MS: &Row = &catalogue::SCHEDULING_MS;
/// Time of a whole decision, from token ids to a booked worker.
pub const DECISION_MS: &Row = &catalogue::DECISION_MS;
/// Connections of clients that were refused before a request of theirs could be read, by why.
pub const REFUSED_CONNECTIONS: &Row = &catalogue::REFUSED_CONNECTIONS;
/// Workers of a configured pool, and those of them that take requests.
pub const POOL_WORKERS: &Row = &catalogue::POOL_WORKERS;
/// Time since the last look of a pool's discovery that succeeded.
pub const DISCOVERY_AGE: &Row = &catalogue::DISCOVERY_AGE;
/// Whether the last look of a pool's discovery failed.
pub const DISCOVERY_FAILING: &Row = &catalogue::DISCOVERY_FAILING;
/// New configurations of a running router, by what became of them.
pub const CONFIG_RELOADS: &Row = &catalogue::CONFIG_RELOADS;
/// Whether a worker takes requests: 1 for its current state, 0 for the others.
pub const WORKER_STATE: &Row = &catalogue::WORKER_STATE;
/// Blocks of the sequences that the router booked on a rank, shared prefixes once.
pub const ACTIVE_DECODE_BLOCKS: &Row = &catalogue::ACTIVE_DECODE_BLOCKS;
/// Prompt tokens that a rank still has to compute, as the router booked them.
pub const ACTIVE_PREFILL_TOKENS: &Row = &catalogue::ACTIVE_PREFILL_TOKENS;
/// Time to the first token of the latest streamed request; 0 until there was one.
pub const LAST_FIRST_TOKEN_SECONDS: &Row = &catalogue::LAST_FIRST_TOKEN_SECONDS;
/// Input tokens of the latest streamed request; 0 until there was one.
pub const LAST_INPUT_TOKENS: &Row = &catalogue::LAST_INPUT_TOKENS;
/// Mean time between tokens of the latest streamed choice; 0 until there was one.
pub const LAST_INTER_TOKEN_SECONDS: &Row = &catalogue::LAST_INTER_TOKEN_SECONDS;
/// Cached prefix that the index held for a rank, of attempts that the rank then reported on.
pub const WORKER_PREDICTED: &Row = &catalogue::WORKER_PREDICTED;
/// Tokens that a rank reported to have reused, of the attempts with a prediction.
pub const WORKER_REPORTED: &Row = &catalogue::WORKER_REPORTED;
/// Tokens that a rank was lately given to compute, fading with time.
pub const WORKER_RECENT: &Row = &catalogue::WORKER_RECENT;
/// Requests of a rank as its engine counts them, whoever sent them.
pub const WORKER_ENGINE_REQUESTS: &Row = &catalogue::WORKER_ENGINE_REQUESTS;
/// Time since the engine last told the load of a rank, or since it was first asked.
pub const WORKER_ENGINE_LOAD_AGE: &Row = &catalogue::WORKER_ENGINE_LOAD_AGE;
/// Memory that the prefix index of a model occupies, everything included; never above its budget.
pub const INDEX_BYTES: &Row = &catalogue::INDEX_BYTES;
/// Copies of blocks that the index forgot to stay within its byte budget, though engines still hold them.
pub const BUDGET_EVICTIONS: &Row = &catalogue::BUDGET_EVICTIONS;
/// Trust in what the index holds of a rank: 1 for the current state, 0 for the others.
pub const SOURCE_STATE: &Row = &catalogue::SOURCE_STATE;
/// Device blocks that the index holds for a rank.
pub const INDEX_BLOCKS: &Row = &catalogue::INDEX_BLOCKS;
/// Blocks of a rank that the index cannot place, or that contradict what it holds.
pub const BLOCKS_REJECTED: &Row = &catalogue::BLOCKS_REJECTED;
/// Age of the latest event batch of a rank when it was applied.
pub const EVENT_LAG_SECONDS: &Row = &catalogue::EVENT_LAG_SECONDS;
/// KV events of a rank by what they did.
pub const INDEX_EVENTS: &Row = &catalogue::INDEX_EVENTS;
/// Times that sequence numbers of a rank's events skipped.
pub const INDEX_GAPS: &Row = &catalogue::INDEX_GAPS;
/// Event batches of a rank that no replay brought back.
pub const MISSED_BATCHES: &Row = &catalogue::MISSED_BATCHES;
/// Replays that were asked of a rank's engine, by how they ended.
pub const INDEX_REPLAYS: &Row = &catalogue::INDEX_REPLAYS;
/// Times that an engine began its event stream anew, so that the rank was cleared.
pub const INDEX_RESTARTS: &Row = &catalogue::INDEX_RESTARTS;
/// Blocks that a rank without events is thought to hold, because the router placed them there.
pub const REMEMBERED_BLOCKS: &Row = &catalogue::REMEMBERED_BLOCKS;
/// Remembered blocks of a rank without events that were let go, because its cache has no room for more.
pub const REMEMBERED_EVICTED: &Row = &catalogue::REMEMBERED_EVICTED;
/// Prompts that are remembered for a time only, because nobody knows how much the rank's cache holds.
pub const REMEMBERED_FALLBACKS: &Row = &catalogue::REMEMBERED_FALLBACKS;
/// Times that a growing answer took further blocks of the cache of a rank without events.
pub const REMEMBERED_OUTPUT_BATCHES: &Row = &catalogue::REMEMBERED_OUTPUT_BATCHES;
/// Version of the router that runs.
pub const BUILD_INFO: &Row = &catalogue::BUILD_INFO;
/// Processor time that the router used.
pub const PROCESS_CPU_SECONDS: &Row = &catalogue::PROCESS_CPU_SECONDS;
/// Open file descriptors.
pub const PROCESS_OPEN_FDS: &Row = &catalogue::PROCESS_OPEN_FDS;
/// File descriptors that may be open.
pub const PROCESS_MAX_FDS: &Row = &catalogue::PROCESS_MAX_FDS;
/// Virtual memory.
pub const PROCESS_VIRTUAL_MEMORY: &Row = &catalogue::PROCESS_VIRTUAL_MEMORY;
/// Resident memory.
pub const PROCESS_RESIDENT_MEMORY: &Row = &catalogue::PROCESS_RESIDENT_MEMORY;
/// When the process started.
pub const PROCESS_START_TIME: &Row = &catalogue::PROCESS_START_TIME;
/// Threads.
pub const PROCESS_THREADS: &Row = &catalogue::PROCESS_THREADS;
