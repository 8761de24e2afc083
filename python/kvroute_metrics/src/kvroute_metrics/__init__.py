"""Every metric family that kvroute exports.

Generated from the metric catalogue by `cargo xtask bless`; never edit. A constant is the name of a family under
the default prefix; `name` gives it under another one (`metrics.prefix` of the router), and `FAMILIES` tells the
type, the labels, the unit and the meaning of each.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal

DEFAULT_PREFIX: Final = "dynamo"
"""What the names of the standard families begin with."""

DYNAMO_COMPONENT_ROUTER_INPUT_SEQUENCE_TOKENS: Final = "dynamo_component_router_input_sequence_tokens"
"""Input tokens of an attempt as the router tokenized them; the sum is the funnel's input."""
DYNAMO_COMPONENT_ROUTER_KV_BEST_ELIGIBLE_CACHED_PREFIX_TOKENS_TOTAL: Final = "dynamo_component_router_kv_best_eligible_cached_prefix_tokens_total"
"""Longest cached prefix on any worker rank that the picker could choose."""
DYNAMO_COMPONENT_ROUTER_KV_SELECTED_CACHED_PREFIX_TOKENS_TOTAL: Final = "dynamo_component_router_kv_selected_cached_prefix_tokens_total"
"""Cached prefix on the worker rank that was picked."""
DYNAMO_COMPONENT_ROUTER_KV_WORKER_REUSED_TOKENS_TOTAL: Final = "dynamo_component_router_kv_worker_reused_tokens_total"
"""Tokens that workers report to have reused; divide by kvroute_router_reuse_reported_input_tokens_total."""
KVROUTE_ROUTER_BEST_CACHED_PREFIX_TOKENS_TOTAL: Final = "kvroute_router_best_cached_prefix_tokens_total"
"""Longest cached prefix on any worker rank that could take the attempt, eligible or not."""
KVROUTE_ROUTER_REUSE_REPORTS_TOTAL: Final = "kvroute_router_reuse_reports_total"
"""Attempts by what became of their reuse report; exactly one outcome an attempt."""
KVROUTE_ROUTER_REUSE_REPORTED_INPUT_TOKENS_TOTAL: Final = "kvroute_router_reuse_reported_input_tokens_total"
"""Input tokens of the attempts whose report was counted."""
KVROUTE_ROUTER_REUSE_EXPECTED_INPUT_TOKENS_TOTAL: Final = "kvroute_router_reuse_expected_input_tokens_total"
"""Input tokens of the attempts that could have reported their reuse."""
KVROUTE_ROUTER_LEDGER_INPUT_TOKENS_TOTAL: Final = "kvroute_router_ledger_input_tokens_total"
"""Input tokens of the attempts that the loss ledger covers: counted exactly, with an index view, in phases aggregated and prefill."""
KVROUTE_ROUTER_REPEATED_INPUT_TOKENS_TOTAL: Final = "kvroute_router_repeated_input_tokens_total"
"""Input tokens of attempts that follow an earlier attempt of the same request in the same phase; part of the input as well."""
KVROUTE_ROUTER_REUSE_LOST_TOKENS_TOTAL: Final = "kvroute_router_reuse_lost_tokens_total"
"""Tokens lost between two stages of the funnel, by the one reason of each; of phases aggregated and prefill."""
KVROUTE_ROUTER_LOST_PREFILL_SECONDS_TOTAL: Final = "kvroute_router_lost_prefill_seconds_total"
"""Time that the lost tokens take to be computed, by the prefill speed that the picked worker showed."""
KVROUTE_ROUTER_REUSE_SURPLUS_TOKENS_TOTAL: Final = "kvroute_router_reuse_surplus_tokens_total"
"""Tokens of which the later stage of the funnel had more than the earlier one."""
KVROUTE_ROUTER_REUSE_COMPARED_PREDICTED_TOKENS_TOTAL: Final = "kvroute_router_reuse_compared_predicted_tokens_total"
"""Cached prefix on the picked worker rank, of the attempts whose report it was compared with."""
KVROUTE_ROUTER_REUSE_COMPARED_REPORTED_TOKENS_TOTAL: Final = "kvroute_router_reuse_compared_reported_tokens_total"
"""Tokens that workers report to have reused, of the attempts with an index view."""
KVROUTE_UNCACHED_PREFILL_TOKENS_TOTAL: Final = "kvroute_uncached_prefill_tokens_total"
"""Input tokens that workers had to compute: input less reused, of attempts with outcome reported."""
KVROUTE_UNCOUNTED_ATTEMPTS_TOTAL: Final = "kvroute_uncounted_attempts_total"
"""Attempts whose prompt the router could not or was not to count, and that were routed by load."""
DYNAMO_COMPONENT_ROUTER_KV_HISTORY_CACHED_PREFIX_TOKENS_TOTAL: Final = "dynamo_component_router_kv_history_cached_prefix_tokens_total"
"""Tokens in leading blocks that some request has computed before: a ceiling of what any cache could have saved, not what is cached; summed over all pools with a history."""
KVROUTE_ROUTER_HISTORY_CACHED_TOKENS_TOTAL: Final = "kvroute_router_history_cached_tokens_total"
"""Tokens in leading blocks that some request has computed before, cached or not, by phase and model."""
DYNAMO_COMPONENT_ROUTER_CACHE_LOSS_OBSERVATION_INPUT_TOKENS_TOTAL: Final = "dynamo_component_router_cache_loss_observation_input_tokens_total"
"""Input tokens of the attempts that a history was asked about."""
DYNAMO_COMPONENT_ROUTER_CACHE_LOSS_OBSERVATIONS_TOTAL: Final = "dynamo_component_router_cache_loss_observations_total"
"""Attempts that a history was asked about, by whether it learned them; exactly one result an attempt."""
DYNAMO_COMPONENT_ROUTER_CACHE_LOSS_HISTORY_UNIQUE_HASHES: Final = "dynamo_component_router_cache_loss_history_unique_hashes"
"""Blocks that the histories know."""
DYNAMO_COMPONENT_ROUTER_CACHE_LOSS_HISTORY_REPRESENTED_TOKENS: Final = "dynamo_component_router_cache_loss_history_represented_tokens"
"""Tokens of the blocks that the histories know."""
DYNAMO_COMPONENT_ROUTER_CACHE_LOSS_HISTORY_ESTIMATED_BYTES: Final = "dynamo_component_router_cache_loss_history_estimated_bytes"
"""Memory that the histories really hold, everything included."""
DYNAMO_COMPONENT_ROUTER_CACHE_LOSS_HISTORY_CAPACITY_BLOCKS: Final = "dynamo_component_router_cache_loss_history_capacity_blocks"
"""Blocks that the histories have room for."""
DYNAMO_COMPONENT_ROUTER_CACHE_LOSS_HISTORY_CAPACITY_BYTES: Final = "dynamo_component_router_cache_loss_history_capacity_bytes"
"""Memory that the histories may hold, everything included."""
KVROUTE_HISTORY_OLDEST_ENTRY_AGE_SECONDS: Final = "kvroute_history_oldest_entry_age_seconds"
"""How far back the history reaches: the age of its oldest block."""
KVROUTE_HISTORY_UNTRACKED_OUTPUT_TOKENS_TOTAL: Final = "kvroute_history_untracked_output_tokens_total"
"""Generated tokens that the history did not learn, because their ids did not come."""
KVROUTE_HISTORY_SNAPSHOT_SECONDS: Final = "kvroute_history_snapshot_seconds"
"""How long the latest snapshot of the history took to be written."""
KVROUTE_HISTORY_SHARING: Final = "kvroute_history_sharing"
"""Whether the replicas know together what was computed: 1 for the current state, 0 for the others."""
KVROUTE_HISTORY_SYNC_MESSAGES_TOTAL: Final = "kvroute_history_sync_messages_total"
"""Messages between replicas about what their histories learned, by what became of them."""
KVROUTE_HISTORY_SYNC_DROPPED_TOTAL: Final = "kvroute_history_sync_dropped_total"
"""Messages to other replicas that were never sent: there was no connection, or too many waited."""
KVROUTE_CLUSTER_PEERS: Final = "kvroute_cluster_peers"
"""Other replicas that were heard of lately."""
DYNAMO_COMPONENT_ROUTER_REQUESTS_STARTED_TOTAL: Final = "dynamo_component_router_requests_started_total"
"""Attempts that were booked on a worker."""
DYNAMO_COMPONENT_ROUTER_REQUESTS_TOTAL: Final = "dynamo_component_router_requests_total"
"""Attempts that a worker had and that are over, however they ended."""
KVROUTE_ATTEMPTS_TOTAL: Final = "kvroute_attempts_total"
"""Attempts by how they ended, dispatched or not."""
KVROUTE_RETRIES_TOTAL: Final = "kvroute_retries_total"
"""Attempts that follow a failed one of the same request, by what failed."""
KVROUTE_RETRIES_REFUSED_TOTAL: Final = "kvroute_retries_refused_total"
"""Requests that a worker failed and that were not sent to another one though they might have been, by why."""
KVROUTE_MIGRATIONS_TOTAL: Final = "kvroute_migrations_total"
"""Streams that went on with another worker behind their first token, by what ended the worker's part."""
KVROUTE_PREFILL_FALLBACKS_TOTAL: Final = "kvroute_prefill_fallbacks_total"
"""Requests whose prompt was not computed by a prefill worker, by why."""
KVROUTE_STRANDED_PREFILL_TOKENS_TOTAL: Final = "kvroute_stranded_prefill_tokens_total"
"""Prompt tokens that a prefill worker computed and no decode worker ever took."""
KVROUTE_IDENTITY_STATE: Final = "kvroute_identity_state"
"""Whether the router cuts prompts into the tokens of a worker's engine: 1 for the current state, 0 for the others."""
KVROUTE_IDENTITY_CHECKS_TOTAL: Final = "kvroute_identity_checks_total"
"""Comparisons of the router's tokens with an engine's, by their result."""
KVROUTE_TOKENIZER_CACHE_TOKENS_TOTAL: Final = "kvroute_tokenizer_cache_tokens_total"
"""Prompt tokens by whether the tokenizer's cache had them."""
KVROUTE_REQUESTS_TOTAL: Final = "kvroute_requests_total"
"""Client requests by how they ended; model is unknown where none was recognised."""
DYNAMO_COMPONENT_ROUTER_TIME_TO_FIRST_TOKEN_SECONDS: Final = "dynamo_component_router_time_to_first_token_seconds"
"""From a request's headers to its first non-empty token."""
DYNAMO_COMPONENT_ROUTER_INTER_TOKEN_LATENCY_SECONDS: Final = "dynamo_component_router_inter_token_latency_seconds"
"""Mean time between the tokens of one choice."""
DYNAMO_COMPONENT_ROUTER_OUTPUT_SEQUENCE_TOKENS: Final = "dynamo_component_router_output_sequence_tokens"
"""Tokens that a request's client got, over all its choices."""
DYNAMO_FRONTEND_STAGE_REQUESTS: Final = "dynamo_frontend_stage_requests"
"""Requests that are in a stage now."""
DYNAMO_FRONTEND_STAGE_DURATION_SECONDS: Final = "dynamo_frontend_stage_duration_seconds"
"""Time a request spent in a stage: preprocess until tokenized, route until booked, dispatch until headers."""
KVROUTE_ADDED_LATENCY_SECONDS: Final = "kvroute_added_latency_seconds"
"""Time that a request or a piece of its answer spent in the router: before_dispatch from the request's headers until it is handed to the HTTP client, less its wait in the queue; per_chunk from a piece's arrival until it is handed on."""
DYNAMO_FRONTEND_ROUTER_QUEUE_PENDING_REQUESTS: Final = "dynamo_frontend_router_queue_pending_requests"
"""Requests that wait in the router for a worker with room."""
KVROUTE_QUEUE_WAIT_SECONDS: Final = "kvroute_queue_wait_seconds"
"""Time a request waited in the router before it was placed; only requests that had to wait."""
KVROUTE_QUEUE_REFUSED_TOTAL: Final = "kvroute_queue_refused_total"
"""Requests that the router turned away because no worker had room, by why."""
KVROUTE_DECISIONS_TOTAL: Final = "kvroute_decisions_total"
"""Decisions by why this worker."""
KVROUTE_DECISIONS_RECORDED_TOTAL: Final = "kvroute_decisions_recorded_total"
"""Decisions that were kept for whoever asks why, until newer ones push them out."""
KVROUTE_DECISIONS_UNRECORDED_TOTAL: Final = "kvroute_decisions_unrecorded_total"
"""Decisions that nobody can ask about: outside the sampled share, or above the rate that is kept."""
KVROUTE_SHADOW_SELECTED_CACHED_TOKENS_TOTAL: Final = "kvroute_shadow_selected_cached_tokens_total"
"""Cached prefix on the worker rank that a shadow policy would have picked."""
KVROUTE_SHADOW_COMPARED_INPUT_TOKENS_TOTAL: Final = "kvroute_shadow_compared_input_tokens_total"
"""Input tokens of the selections that a shadow policy was asked about."""
DYNAMO_COMPONENT_ROUTER_KV_HIT_RATE: Final = "dynamo_component_router_kv_hit_rate"
"""Tier-weighted cached blocks on the picked worker by the blocks of the prompt."""
DYNAMO_COMPONENT_ROUTER_NON_MAX_OVERLAP_SELECTIONS_TOTAL: Final = "dynamo_component_router_non_max_overlap_selections_total"
"""Selections of a worker with less weighted overlap than another eligible one."""
DYNAMO_COMPONENT_ROUTER_OVERLAP_BLOCKS_LOST: Final = "dynamo_component_router_overlap_blocks_lost"
"""Weighted overlap that such a selection gave away."""
DYNAMO_ROUTER_OVERHEAD_BLOCK_HASHING_MS: Final = "dynamo_router_overhead_block_hashing_ms"
"""Time a decision spent hashing the prompt's blocks."""
DYNAMO_ROUTER_OVERHEAD_SEQ_HASHING_MS: Final = "dynamo_router_overhead_seq_hashing_ms"
"""Time a decision spent chaining the block hashes."""
DYNAMO_ROUTER_OVERHEAD_INDEXER_FIND_MATCHES_MS: Final = "dynamo_router_overhead_indexer_find_matches_ms"
"""Time a decision spent looking up cached prefixes."""
DYNAMO_ROUTER_OVERHEAD_SCHEDULING_MS: Final = "dynamo_router_overhead_scheduling_ms"
"""Time a decision spent on costs, the pick and the booking."""
DYNAMO_ROUTER_OVERHEAD_TOTAL_MS: Final = "dynamo_router_overhead_total_ms"
"""Time of a whole decision, from token ids to a booked worker."""
KVROUTE_REFUSED_CONNECTIONS_TOTAL: Final = "kvroute_refused_connections_total"
"""Connections of clients that were refused before a request of theirs could be read, by why."""
KVROUTE_POOL_WORKERS: Final = "kvroute_pool_workers"
"""Workers of a configured pool: those that are known, and those of them that take requests."""
KVROUTE_DISCOVERY_AGE_SECONDS: Final = "kvroute_discovery_age_seconds"
"""Time since the last look of a pool's discovery that succeeded; since the router's start where none did."""
KVROUTE_DISCOVERY_FAILING: Final = "kvroute_discovery_failing"
"""Whether the last look of a pool's discovery failed, so that the workers found before it stay."""
KVROUTE_CONFIG_RELOADS_TOTAL: Final = "kvroute_config_reloads_total"
"""New configurations that a running router was given, by what became of them."""
KVROUTE_WORKER_STATE: Final = "kvroute_worker_state"
"""Whether a worker takes requests: 1 for its current state, 0 for the others."""
DYNAMO_FRONTEND_WORKER_ACTIVE_DECODE_BLOCKS: Final = "dynamo_frontend_worker_active_decode_blocks"
"""Blocks of the sequences that the router booked on a rank, shared prefixes once."""
DYNAMO_FRONTEND_WORKER_ACTIVE_PREFILL_TOKENS: Final = "dynamo_frontend_worker_active_prefill_tokens"
"""Prompt tokens that a rank still has to compute, as the router booked them."""
DYNAMO_FRONTEND_WORKER_LAST_TIME_TO_FIRST_TOKEN_SECONDS: Final = "dynamo_frontend_worker_last_time_to_first_token_seconds"
"""Time to the first token of the latest streamed request; 0 until there was one."""
DYNAMO_FRONTEND_WORKER_LAST_INPUT_SEQUENCE_TOKENS: Final = "dynamo_frontend_worker_last_input_sequence_tokens"
"""Input tokens of the latest streamed request; 0 until there was one."""
DYNAMO_FRONTEND_WORKER_LAST_INTER_TOKEN_LATENCY_SECONDS: Final = "dynamo_frontend_worker_last_inter_token_latency_seconds"
"""Mean time between tokens of the latest streamed choice; 0 until there was one."""
KVROUTE_REUSE_WORKER_PREDICTED_TOKENS_TOTAL: Final = "kvroute_reuse_worker_predicted_tokens_total"
"""Cached prefix that the index held for a rank, of attempts that the rank then reported on."""
KVROUTE_REUSE_WORKER_REPORTED_TOKENS_TOTAL: Final = "kvroute_reuse_worker_reported_tokens_total"
"""Tokens that a rank reported to have reused, of the attempts with a prediction."""
KVROUTE_WORKER_RECENT_TOKENS: Final = "kvroute_worker_recent_tokens"
"""Tokens that a rank was lately given to compute, fading with time."""
KVROUTE_WORKER_ENGINE_REQUESTS: Final = "kvroute_worker_engine_requests"
"""Requests of a rank as its engine counts them, whoever sent them."""
KVROUTE_WORKER_ENGINE_LOAD_AGE_SECONDS: Final = "kvroute_worker_engine_load_age_seconds"
"""Time since the engine last told the load of a rank, or since it was first asked."""
KVROUTE_INDEX_BYTES: Final = "kvroute_index_bytes"
"""Memory that the prefix index of a model occupies, everything included; never above its budget."""
KVROUTE_INDEX_BUDGET_EVICTIONS_TOTAL: Final = "kvroute_index_budget_evictions_total"
"""Copies of blocks that the index forgot to stay within its byte budget, though engines still hold them."""
KVROUTE_INDEX_SOURCE_STATE: Final = "kvroute_index_source_state"
"""Trust in what the index holds of a rank: 1 for the current state, 0 for the others."""
KVROUTE_INDEX_BLOCKS: Final = "kvroute_index_blocks"
"""Device blocks that the index holds for a rank."""
KVROUTE_INDEX_BLOCKS_REJECTED_TOTAL: Final = "kvroute_index_blocks_rejected_total"
"""Blocks of a rank that the index cannot place, or that contradict what it holds."""
KVROUTE_INDEX_EVENT_LAG_SECONDS: Final = "kvroute_index_event_lag_seconds"
"""Age of the latest event batch of a rank when it was applied."""
KVROUTE_INDEX_EVENTS_TOTAL: Final = "kvroute_index_events_total"
"""KV events of a rank by what they did."""
KVROUTE_INDEX_GAPS_TOTAL: Final = "kvroute_index_gaps_total"
"""Times that sequence numbers of a rank's events skipped."""
KVROUTE_INDEX_MISSED_BATCHES_TOTAL: Final = "kvroute_index_missed_batches_total"
"""Event batches of a rank that no replay brought back."""
KVROUTE_INDEX_REPLAYS_TOTAL: Final = "kvroute_index_replays_total"
"""Replays that were asked of a rank's engine, by how they ended."""
KVROUTE_INDEX_RESTARTS_TOTAL: Final = "kvroute_index_restarts_total"
"""Times that an engine began its event stream anew, so that the rank was cleared."""
KVROUTE_INDEX_REMEMBERED_BLOCKS: Final = "kvroute_index_remembered_blocks"
"""Blocks that a rank without events is thought to hold, because the router placed them there."""
KVROUTE_INDEX_REMEMBERED_EVICTED_TOTAL: Final = "kvroute_index_remembered_evicted_total"
"""Remembered blocks of a rank without events that were let go, because its cache has no room for more."""
KVROUTE_INDEX_REMEMBERED_FALLBACKS_TOTAL: Final = "kvroute_index_remembered_fallbacks_total"
"""Prompts that are remembered for a time only, because nobody knows how much the rank's cache holds."""
KVROUTE_INDEX_REMEMBERED_OUTPUT_BATCHES_TOTAL: Final = "kvroute_index_remembered_output_batches_total"
"""Times that a growing answer took further blocks of the cache of a rank without events."""
KVROUTE_BUILD_INFO: Final = "kvroute_build_info"
"""Version of the router that runs."""
PROCESS_CPU_SECONDS_TOTAL: Final = "process_cpu_seconds_total"
"""Total user and system CPU time spent in seconds."""
PROCESS_OPEN_FDS: Final = "process_open_fds"
"""Number of open file descriptors."""
PROCESS_MAX_FDS: Final = "process_max_fds"
"""Maximum number of open file descriptors."""
PROCESS_VIRTUAL_MEMORY_BYTES: Final = "process_virtual_memory_bytes"
"""Virtual memory size in bytes."""
PROCESS_RESIDENT_MEMORY_BYTES: Final = "process_resident_memory_bytes"
"""Resident memory size in bytes."""
PROCESS_START_TIME_SECONDS: Final = "process_start_time_seconds"
"""Start time of the process since unix epoch in seconds."""
PROCESS_THREADS: Final = "process_threads"
"""Number of OS threads in the process."""


@dataclass(frozen=True)
class Family:
    """One metric family."""

    name: str
    """Name under the default prefix; of a histogram without `_bucket`, `_sum` and `_count`."""
    type: Literal["counter", "gauge", "histogram"]
    """What kind of metric it is."""
    labels: tuple[str, ...]
    """Labels of its own, in a fixed order."""
    unit: str
    """What one unit of its value is."""
    help: str
    """What its value means."""


FAMILIES: Final[tuple[Family, ...]] = (
    Family(
        name=DYNAMO_COMPONENT_ROUTER_INPUT_SEQUENCE_TOKENS,
        type="histogram",
        labels=("phase", "model",),
        unit="tokens",
        help="Input tokens of an attempt as the router tokenized them; the sum is the funnel's input",
    ),
    Family(
        name=DYNAMO_COMPONENT_ROUTER_KV_BEST_ELIGIBLE_CACHED_PREFIX_TOKENS_TOTAL,
        type="counter",
        labels=("phase", "model",),
        unit="tokens",
        help="Longest cached prefix on any worker rank that the picker could choose",
    ),
    Family(
        name=DYNAMO_COMPONENT_ROUTER_KV_SELECTED_CACHED_PREFIX_TOKENS_TOTAL,
        type="counter",
        labels=("phase", "model",),
        unit="tokens",
        help="Cached prefix on the worker rank that was picked",
    ),
    Family(
        name=DYNAMO_COMPONENT_ROUTER_KV_WORKER_REUSED_TOKENS_TOTAL,
        type="counter",
        labels=("phase", "model",),
        unit="tokens",
        help="Tokens that workers report to have reused; divide by kvroute_router_reuse_reported_input_tokens_total",
    ),
    Family(
        name=KVROUTE_ROUTER_BEST_CACHED_PREFIX_TOKENS_TOTAL,
        type="counter",
        labels=("phase", "model",),
        unit="tokens",
        help="Longest cached prefix on any worker rank that could take the attempt, eligible or not",
    ),
    Family(
        name=KVROUTE_ROUTER_REUSE_REPORTS_TOTAL,
        type="counter",
        labels=("phase", "model", "outcome",),
        unit="attempts",
        help="Attempts by what became of their reuse report; exactly one outcome an attempt",
    ),
    Family(
        name=KVROUTE_ROUTER_REUSE_REPORTED_INPUT_TOKENS_TOTAL,
        type="counter",
        labels=("phase", "model",),
        unit="tokens",
        help="Input tokens of the attempts whose report was counted",
    ),
    Family(
        name=KVROUTE_ROUTER_REUSE_EXPECTED_INPUT_TOKENS_TOTAL,
        type="counter",
        labels=("phase", "model",),
        unit="tokens",
        help="Input tokens of the attempts that could have reported their reuse",
    ),
    Family(
        name=KVROUTE_ROUTER_LEDGER_INPUT_TOKENS_TOTAL,
        type="counter",
        labels=("phase", "model",),
        unit="tokens",
        help="Input tokens of the attempts that the loss ledger covers: counted exactly, with an index view, in phases aggregated and prefill",
    ),
    Family(
        name=KVROUTE_ROUTER_REPEATED_INPUT_TOKENS_TOTAL,
        type="counter",
        labels=("phase", "model",),
        unit="tokens",
        help="Input tokens of attempts that follow an earlier attempt of the same request in the same phase; part of the input as well",
    ),
    Family(
        name=KVROUTE_ROUTER_REUSE_LOST_TOKENS_TOTAL,
        type="counter",
        labels=("phase", "model", "stage", "reason",),
        unit="tokens",
        help="Tokens lost between two stages of the funnel, by the one reason of each; of phases aggregated and prefill",
    ),
    Family(
        name=KVROUTE_ROUTER_LOST_PREFILL_SECONDS_TOTAL,
        type="counter",
        labels=("model", "stage", "reason",),
        unit="seconds",
        help="Time that the lost tokens take to be computed, by the prefill speed that the picked worker showed",
    ),
    Family(
        name=KVROUTE_ROUTER_REUSE_SURPLUS_TOKENS_TOTAL,
        type="counter",
        labels=("phase", "model", "stage",),
        unit="tokens",
        help="Tokens of which the later stage of the funnel had more than the earlier one",
    ),
    Family(
        name=KVROUTE_ROUTER_REUSE_COMPARED_PREDICTED_TOKENS_TOTAL,
        type="counter",
        labels=("phase", "model",),
        unit="tokens",
        help="Cached prefix on the picked worker rank, of the attempts whose report it was compared with",
    ),
    Family(
        name=KVROUTE_ROUTER_REUSE_COMPARED_REPORTED_TOKENS_TOTAL,
        type="counter",
        labels=("phase", "model",),
        unit="tokens",
        help="Tokens that workers report to have reused, of the attempts with an index view",
    ),
    Family(
        name=KVROUTE_UNCACHED_PREFILL_TOKENS_TOTAL,
        type="counter",
        labels=("phase", "model",),
        unit="tokens",
        help="Input tokens that workers had to compute: input less reused, of attempts with outcome reported",
    ),
    Family(
        name=KVROUTE_UNCOUNTED_ATTEMPTS_TOTAL,
        type="counter",
        labels=("phase", "model", "reason",),
        unit="attempts",
        help="Attempts whose prompt the router could not or was not to count, and that were routed by load",
    ),
    Family(
        name=DYNAMO_COMPONENT_ROUTER_KV_HISTORY_CACHED_PREFIX_TOKENS_TOTAL,
        type="counter",
        labels=(),
        unit="tokens",
        help="Tokens in leading blocks that some request has computed before: a ceiling of what any cache could have saved, not what is cached; summed over all pools with a history",
    ),
    Family(
        name=KVROUTE_ROUTER_HISTORY_CACHED_TOKENS_TOTAL,
        type="counter",
        labels=("phase", "model",),
        unit="tokens",
        help="Tokens in leading blocks that some request has computed before, cached or not, by phase and model",
    ),
    Family(
        name=DYNAMO_COMPONENT_ROUTER_CACHE_LOSS_OBSERVATION_INPUT_TOKENS_TOTAL,
        type="counter",
        labels=(),
        unit="tokens",
        help="Input tokens of the attempts that a history was asked about",
    ),
    Family(
        name=DYNAMO_COMPONENT_ROUTER_CACHE_LOSS_OBSERVATIONS_TOTAL,
        type="counter",
        labels=("result",),
        unit="attempts",
        help="Attempts that a history was asked about, by whether it learned them; exactly one result an attempt",
    ),
    Family(
        name=DYNAMO_COMPONENT_ROUTER_CACHE_LOSS_HISTORY_UNIQUE_HASHES,
        type="gauge",
        labels=(),
        unit="blocks",
        help="Blocks that the histories know",
    ),
    Family(
        name=DYNAMO_COMPONENT_ROUTER_CACHE_LOSS_HISTORY_REPRESENTED_TOKENS,
        type="gauge",
        labels=(),
        unit="tokens",
        help="Tokens of the blocks that the histories know",
    ),
    Family(
        name=DYNAMO_COMPONENT_ROUTER_CACHE_LOSS_HISTORY_ESTIMATED_BYTES,
        type="gauge",
        labels=(),
        unit="bytes",
        help="Memory that the histories really hold, everything included",
    ),
    Family(
        name=DYNAMO_COMPONENT_ROUTER_CACHE_LOSS_HISTORY_CAPACITY_BLOCKS,
        type="gauge",
        labels=(),
        unit="blocks",
        help="Blocks that the histories have room for",
    ),
    Family(
        name=DYNAMO_COMPONENT_ROUTER_CACHE_LOSS_HISTORY_CAPACITY_BYTES,
        type="gauge",
        labels=(),
        unit="bytes",
        help="Memory that the histories may hold, everything included",
    ),
    Family(
        name=KVROUTE_HISTORY_OLDEST_ENTRY_AGE_SECONDS,
        type="gauge",
        labels=("model",),
        unit="seconds",
        help="How far back the history reaches: the age of its oldest block",
    ),
    Family(
        name=KVROUTE_HISTORY_UNTRACKED_OUTPUT_TOKENS_TOTAL,
        type="counter",
        labels=("model",),
        unit="tokens",
        help="Generated tokens that the history did not learn, because their ids did not come",
    ),
    Family(
        name=KVROUTE_HISTORY_SNAPSHOT_SECONDS,
        type="gauge",
        labels=("model",),
        unit="seconds",
        help="How long the latest snapshot of the history took to be written",
    ),
    Family(
        name=KVROUTE_HISTORY_SHARING,
        type="gauge",
        labels=("state",),
        unit="1 or 0",
        help="Whether the replicas know together what was computed: 1 for the current state, 0 for the others",
    ),
    Family(
        name=KVROUTE_HISTORY_SYNC_MESSAGES_TOTAL,
        type="counter",
        labels=("direction", "result",),
        unit="messages",
        help="Messages between replicas about what their histories learned, by what became of them",
    ),
    Family(
        name=KVROUTE_HISTORY_SYNC_DROPPED_TOTAL,
        type="counter",
        labels=(),
        unit="messages",
        help="Messages to other replicas that were never sent: there was no connection, or too many waited",
    ),
    Family(
        name=KVROUTE_CLUSTER_PEERS,
        type="gauge",
        labels=(),
        unit="replicas",
        help="Other replicas that were heard of lately",
    ),
    Family(
        name=DYNAMO_COMPONENT_ROUTER_REQUESTS_STARTED_TOTAL,
        type="counter",
        labels=(),
        unit="attempts",
        help="Attempts that were booked on a worker",
    ),
    Family(
        name=DYNAMO_COMPONENT_ROUTER_REQUESTS_TOTAL,
        type="counter",
        labels=(),
        unit="attempts",
        help="Attempts that a worker had and that are over, however they ended",
    ),
    Family(
        name=KVROUTE_ATTEMPTS_TOTAL,
        type="counter",
        labels=("phase", "model", "policy", "outcome",),
        unit="attempts",
        help="Attempts by how they ended, dispatched or not",
    ),
    Family(
        name=KVROUTE_RETRIES_TOTAL,
        type="counter",
        labels=("model", "reason",),
        unit="attempts",
        help="Attempts that follow a failed one of the same request, by what failed",
    ),
    Family(
        name=KVROUTE_RETRIES_REFUSED_TOTAL,
        type="counter",
        labels=("model", "reason",),
        unit="requests",
        help="Requests that a worker failed and that were not sent to another one though they might have been, by why",
    ),
    Family(
        name=KVROUTE_MIGRATIONS_TOTAL,
        type="counter",
        labels=("model", "reason",),
        unit="streams",
        help="Streams that went on with another worker behind their first token, by what ended the worker's part",
    ),
    Family(
        name=KVROUTE_PREFILL_FALLBACKS_TOTAL,
        type="counter",
        labels=("model", "reason",),
        unit="requests",
        help="Requests whose prompt was not computed by a prefill worker, by why",
    ),
    Family(
        name=KVROUTE_STRANDED_PREFILL_TOKENS_TOTAL,
        type="counter",
        labels=("model",),
        unit="tokens",
        help="Prompt tokens that a prefill worker computed and no decode worker ever took",
    ),
    Family(
        name=KVROUTE_IDENTITY_STATE,
        type="gauge",
        labels=("model", "worker_id", "state",),
        unit="1 for the current state",
        help="Whether the router cuts prompts into the tokens of a worker's engine: 1 for the current state, 0 for the others",
    ),
    Family(
        name=KVROUTE_IDENTITY_CHECKS_TOTAL,
        type="counter",
        labels=("model", "result",),
        unit="checks",
        help="Comparisons of the router's tokens with an engine's, by their result",
    ),
    Family(
        name=KVROUTE_TOKENIZER_CACHE_TOKENS_TOTAL,
        type="counter",
        labels=("model", "result",),
        unit="tokens",
        help="Prompt tokens by whether the tokenizer's cache had them",
    ),
    Family(
        name=KVROUTE_REQUESTS_TOTAL,
        type="counter",
        labels=("model", "endpoint", "outcome",),
        unit="requests",
        help="Client requests by how they ended; model is unknown where none was recognised",
    ),
    Family(
        name=DYNAMO_COMPONENT_ROUTER_TIME_TO_FIRST_TOKEN_SECONDS,
        type="histogram",
        labels=(),
        unit="seconds",
        help="From a request's headers to its first non-empty token",
    ),
    Family(
        name=DYNAMO_COMPONENT_ROUTER_INTER_TOKEN_LATENCY_SECONDS,
        type="histogram",
        labels=(),
        unit="seconds",
        help="Mean time between the tokens of one choice",
    ),
    Family(
        name=DYNAMO_COMPONENT_ROUTER_OUTPUT_SEQUENCE_TOKENS,
        type="histogram",
        labels=(),
        unit="tokens",
        help="Tokens that a request's client got, over all its choices",
    ),
    Family(
        name=DYNAMO_FRONTEND_STAGE_REQUESTS,
        type="gauge",
        labels=("stage", "phase",),
        unit="requests",
        help="Requests that are in a stage now",
    ),
    Family(
        name=DYNAMO_FRONTEND_STAGE_DURATION_SECONDS,
        type="histogram",
        labels=("stage", "phase",),
        unit="seconds",
        help="Time a request spent in a stage: preprocess until tokenized, route until booked, dispatch until headers",
    ),
    Family(
        name=KVROUTE_ADDED_LATENCY_SECONDS,
        type="histogram",
        labels=("part",),
        unit="seconds",
        help="Time that a request or a piece of its answer spent in the router: before_dispatch from the request's headers until it is handed to the HTTP client, less its wait in the queue; per_chunk from a piece's arrival until it is handed on",
    ),
    Family(
        name=DYNAMO_FRONTEND_ROUTER_QUEUE_PENDING_REQUESTS,
        type="gauge",
        labels=("model", "worker_type",),
        unit="requests",
        help="Requests that wait in the router for a worker with room",
    ),
    Family(
        name=KVROUTE_QUEUE_WAIT_SECONDS,
        type="histogram",
        labels=("model",),
        unit="seconds",
        help="Time a request waited in the router before it was placed; only requests that had to wait",
    ),
    Family(
        name=KVROUTE_QUEUE_REFUSED_TOTAL,
        type="counter",
        labels=("model", "reason",),
        unit="requests",
        help="Requests that the router turned away because no worker had room, by why",
    ),
    Family(
        name=KVROUTE_DECISIONS_TOTAL,
        type="counter",
        labels=("model", "policy", "reason",),
        unit="decisions",
        help="Decisions by why this worker",
    ),
    Family(
        name=KVROUTE_DECISIONS_RECORDED_TOTAL,
        type="counter",
        labels=("model",),
        unit="decisions",
        help="Decisions that were kept for whoever asks why, until newer ones push them out",
    ),
    Family(
        name=KVROUTE_DECISIONS_UNRECORDED_TOTAL,
        type="counter",
        labels=("model",),
        unit="decisions",
        help="Decisions that nobody can ask about: outside the sampled share, or above the rate that is kept",
    ),
    Family(
        name=KVROUTE_SHADOW_SELECTED_CACHED_TOKENS_TOTAL,
        type="counter",
        labels=("model", "policy",),
        unit="tokens",
        help="Cached prefix on the worker rank that a shadow policy would have picked",
    ),
    Family(
        name=KVROUTE_SHADOW_COMPARED_INPUT_TOKENS_TOTAL,
        type="counter",
        labels=("model", "policy",),
        unit="tokens",
        help="Input tokens of the selections that a shadow policy was asked about",
    ),
    Family(
        name=DYNAMO_COMPONENT_ROUTER_KV_HIT_RATE,
        type="histogram",
        labels=(),
        unit="share",
        help="Tier-weighted cached blocks on the picked worker by the blocks of the prompt",
    ),
    Family(
        name=DYNAMO_COMPONENT_ROUTER_NON_MAX_OVERLAP_SELECTIONS_TOTAL,
        type="counter",
        labels=("worker_type",),
        unit="selections",
        help="Selections of a worker with less weighted overlap than another eligible one",
    ),
    Family(
        name=DYNAMO_COMPONENT_ROUTER_OVERLAP_BLOCKS_LOST,
        type="histogram",
        labels=("worker_type",),
        unit="weighted blocks",
        help="Weighted overlap that such a selection gave away",
    ),
    Family(
        name=DYNAMO_ROUTER_OVERHEAD_BLOCK_HASHING_MS,
        type="histogram",
        labels=(),
        unit="milliseconds",
        help="Time a decision spent hashing the prompt's blocks",
    ),
    Family(
        name=DYNAMO_ROUTER_OVERHEAD_SEQ_HASHING_MS,
        type="histogram",
        labels=(),
        unit="milliseconds",
        help="Time a decision spent chaining the block hashes",
    ),
    Family(
        name=DYNAMO_ROUTER_OVERHEAD_INDEXER_FIND_MATCHES_MS,
        type="histogram",
        labels=(),
        unit="milliseconds",
        help="Time a decision spent looking up cached prefixes",
    ),
    Family(
        name=DYNAMO_ROUTER_OVERHEAD_SCHEDULING_MS,
        type="histogram",
        labels=(),
        unit="milliseconds",
        help="Time a decision spent on costs, the pick and the booking",
    ),
    Family(
        name=DYNAMO_ROUTER_OVERHEAD_TOTAL_MS,
        type="histogram",
        labels=(),
        unit="milliseconds",
        help="Time of a whole decision, from token ids to a booked worker",
    ),
    Family(
        name=KVROUTE_REFUSED_CONNECTIONS_TOTAL,
        type="counter",
        labels=("plane", "reason",),
        unit="connections",
        help="Connections of clients that were refused before a request of theirs could be read, by why",
    ),
    Family(
        name=KVROUTE_POOL_WORKERS,
        type="gauge",
        labels=("pool", "state",),
        unit="workers",
        help="Workers of a configured pool: those that are known, and those of them that take requests",
    ),
    Family(
        name=KVROUTE_DISCOVERY_AGE_SECONDS,
        type="gauge",
        labels=("pool",),
        unit="seconds",
        help="Time since the last look of a pool's discovery that succeeded; since the router's start where none did",
    ),
    Family(
        name=KVROUTE_DISCOVERY_FAILING,
        type="gauge",
        labels=("pool",),
        unit="1 while the last look failed",
        help="Whether the last look of a pool's discovery failed, so that the workers found before it stay",
    ),
    Family(
        name=KVROUTE_CONFIG_RELOADS_TOTAL,
        type="counter",
        labels=("outcome",),
        unit="configurations",
        help="New configurations that a running router was given, by what became of them",
    ),
    Family(
        name=KVROUTE_WORKER_STATE,
        type="gauge",
        labels=("worker_id", "state",),
        unit="1 for the current state",
        help="Whether a worker takes requests: 1 for its current state, 0 for the others",
    ),
    Family(
        name=DYNAMO_FRONTEND_WORKER_ACTIVE_DECODE_BLOCKS,
        type="gauge",
        labels=("worker_id", "dp_rank", "worker_type",),
        unit="blocks",
        help="Blocks of the sequences that the router booked on a rank, shared prefixes once",
    ),
    Family(
        name=DYNAMO_FRONTEND_WORKER_ACTIVE_PREFILL_TOKENS,
        type="gauge",
        labels=("worker_id", "dp_rank", "worker_type",),
        unit="tokens",
        help="Prompt tokens that a rank still has to compute, as the router booked them",
    ),
    Family(
        name=DYNAMO_FRONTEND_WORKER_LAST_TIME_TO_FIRST_TOKEN_SECONDS,
        type="gauge",
        labels=("worker_id", "dp_rank", "worker_type",),
        unit="seconds",
        help="Time to the first token of the latest streamed request; 0 until there was one",
    ),
    Family(
        name=DYNAMO_FRONTEND_WORKER_LAST_INPUT_SEQUENCE_TOKENS,
        type="gauge",
        labels=("worker_id", "dp_rank", "worker_type",),
        unit="tokens",
        help="Input tokens of the latest streamed request; 0 until there was one",
    ),
    Family(
        name=DYNAMO_FRONTEND_WORKER_LAST_INTER_TOKEN_LATENCY_SECONDS,
        type="gauge",
        labels=("worker_id", "dp_rank", "worker_type",),
        unit="seconds",
        help="Mean time between tokens of the latest streamed choice; 0 until there was one",
    ),
    Family(
        name=KVROUTE_REUSE_WORKER_PREDICTED_TOKENS_TOTAL,
        type="counter",
        labels=("worker_id", "dp_rank",),
        unit="tokens",
        help="Cached prefix that the index held for a rank, of attempts that the rank then reported on",
    ),
    Family(
        name=KVROUTE_REUSE_WORKER_REPORTED_TOKENS_TOTAL,
        type="counter",
        labels=("worker_id", "dp_rank",),
        unit="tokens",
        help="Tokens that a rank reported to have reused, of the attempts with a prediction",
    ),
    Family(
        name=KVROUTE_WORKER_RECENT_TOKENS,
        type="gauge",
        labels=("worker_id", "dp_rank",),
        unit="tokens",
        help="Tokens that a rank was lately given to compute, fading with time",
    ),
    Family(
        name=KVROUTE_WORKER_ENGINE_REQUESTS,
        type="gauge",
        labels=("worker_id", "dp_rank", "state",),
        unit="requests",
        help="Requests of a rank as its engine counts them, whoever sent them",
    ),
    Family(
        name=KVROUTE_WORKER_ENGINE_LOAD_AGE_SECONDS,
        type="gauge",
        labels=("worker_id", "dp_rank",),
        unit="seconds",
        help="Time since the engine last told the load of a rank, or since it was first asked",
    ),
    Family(
        name=KVROUTE_INDEX_BYTES,
        type="gauge",
        labels=("model",),
        unit="bytes",
        help="Memory that the prefix index of a model occupies, everything included; never above its budget",
    ),
    Family(
        name=KVROUTE_INDEX_BUDGET_EVICTIONS_TOTAL,
        type="counter",
        labels=("model",),
        unit="blocks",
        help="Copies of blocks that the index forgot to stay within its byte budget, though engines still hold them",
    ),
    Family(
        name=KVROUTE_INDEX_SOURCE_STATE,
        type="gauge",
        labels=("worker_id", "dp_rank", "state",),
        unit="1 for the current state",
        help="Trust in what the index holds of a rank: 1 for the current state, 0 for the others",
    ),
    Family(
        name=KVROUTE_INDEX_BLOCKS,
        type="gauge",
        labels=("worker_id", "dp_rank",),
        unit="blocks",
        help="Device blocks that the index holds for a rank",
    ),
    Family(
        name=KVROUTE_INDEX_BLOCKS_REJECTED_TOTAL,
        type="counter",
        labels=("worker_id", "dp_rank", "reason",),
        unit="blocks; with reason rejected whole events and prompts",
        help="Blocks of a rank that the index cannot place, or that contradict what it holds",
    ),
    Family(
        name=KVROUTE_INDEX_EVENT_LAG_SECONDS,
        type="gauge",
        labels=("worker_id", "dp_rank",),
        unit="seconds",
        help="Age of the latest event batch of a rank when it was applied",
    ),
    Family(
        name=KVROUTE_INDEX_EVENTS_TOTAL,
        type="counter",
        labels=("worker_id", "dp_rank", "kind",),
        unit="events",
        help="KV events of a rank by what they did",
    ),
    Family(
        name=KVROUTE_INDEX_GAPS_TOTAL,
        type="counter",
        labels=("worker_id", "dp_rank",),
        unit="gaps",
        help="Times that sequence numbers of a rank's events skipped",
    ),
    Family(
        name=KVROUTE_INDEX_MISSED_BATCHES_TOTAL,
        type="counter",
        labels=("worker_id", "dp_rank",),
        unit="batches",
        help="Event batches of a rank that no replay brought back",
    ),
    Family(
        name=KVROUTE_INDEX_REPLAYS_TOTAL,
        type="counter",
        labels=("worker_id", "dp_rank", "outcome",),
        unit="replays",
        help="Replays that were asked of a rank's engine, by how they ended",
    ),
    Family(
        name=KVROUTE_INDEX_RESTARTS_TOTAL,
        type="counter",
        labels=("worker_id", "dp_rank",),
        unit="restarts",
        help="Times that an engine began its event stream anew, so that the rank was cleared",
    ),
    Family(
        name=KVROUTE_INDEX_REMEMBERED_BLOCKS,
        type="gauge",
        labels=("worker_id", "dp_rank",),
        unit="blocks",
        help="Blocks that a rank without events is thought to hold, because the router placed them there",
    ),
    Family(
        name=KVROUTE_INDEX_REMEMBERED_EVICTED_TOTAL,
        type="counter",
        labels=("worker_id", "dp_rank",),
        unit="blocks",
        help="Remembered blocks of a rank without events that were let go, because its cache has no room for more",
    ),
    Family(
        name=KVROUTE_INDEX_REMEMBERED_FALLBACKS_TOTAL,
        type="counter",
        labels=("worker_id", "dp_rank",),
        unit="prompts",
        help="Prompts that are remembered for a time only, because nobody knows how much the rank's cache holds",
    ),
    Family(
        name=KVROUTE_INDEX_REMEMBERED_OUTPUT_BATCHES_TOTAL,
        type="counter",
        labels=("worker_id", "dp_rank",),
        unit="batches",
        help="Times that a growing answer took further blocks of the cache of a rank without events",
    ),
    Family(
        name=KVROUTE_BUILD_INFO,
        type="gauge",
        labels=("version",),
        unit="always 1",
        help="Version of the router that runs",
    ),
    Family(
        name=PROCESS_CPU_SECONDS_TOTAL,
        type="counter",
        labels=(),
        unit="seconds",
        help="Total user and system CPU time spent in seconds.",
    ),
    Family(
        name=PROCESS_OPEN_FDS,
        type="gauge",
        labels=(),
        unit="file descriptors",
        help="Number of open file descriptors.",
    ),
    Family(
        name=PROCESS_MAX_FDS,
        type="gauge",
        labels=(),
        unit="file descriptors",
        help="Maximum number of open file descriptors.",
    ),
    Family(
        name=PROCESS_VIRTUAL_MEMORY_BYTES,
        type="gauge",
        labels=(),
        unit="bytes",
        help="Virtual memory size in bytes.",
    ),
    Family(
        name=PROCESS_RESIDENT_MEMORY_BYTES,
        type="gauge",
        labels=(),
        unit="bytes",
        help="Resident memory size in bytes.",
    ),
    Family(
        name=PROCESS_START_TIME_SECONDS,
        type="gauge",
        labels=(),
        unit="seconds",
        help="Start time of the process since unix epoch in seconds.",
    ),
    Family(
        name=PROCESS_THREADS,
        type="gauge",
        labels=(),
        unit="threads",
        help="Number of OS threads in the process.",
    ),
)
"""Every family, in the order of the documentation."""

_STANDARD: Final = frozenset((
    DYNAMO_COMPONENT_ROUTER_INPUT_SEQUENCE_TOKENS,
    DYNAMO_COMPONENT_ROUTER_KV_BEST_ELIGIBLE_CACHED_PREFIX_TOKENS_TOTAL,
    DYNAMO_COMPONENT_ROUTER_KV_SELECTED_CACHED_PREFIX_TOKENS_TOTAL,
    DYNAMO_COMPONENT_ROUTER_KV_WORKER_REUSED_TOKENS_TOTAL,
    DYNAMO_COMPONENT_ROUTER_KV_HISTORY_CACHED_PREFIX_TOKENS_TOTAL,
    DYNAMO_COMPONENT_ROUTER_CACHE_LOSS_OBSERVATION_INPUT_TOKENS_TOTAL,
    DYNAMO_COMPONENT_ROUTER_CACHE_LOSS_OBSERVATIONS_TOTAL,
    DYNAMO_COMPONENT_ROUTER_CACHE_LOSS_HISTORY_UNIQUE_HASHES,
    DYNAMO_COMPONENT_ROUTER_CACHE_LOSS_HISTORY_REPRESENTED_TOKENS,
    DYNAMO_COMPONENT_ROUTER_CACHE_LOSS_HISTORY_ESTIMATED_BYTES,
    DYNAMO_COMPONENT_ROUTER_CACHE_LOSS_HISTORY_CAPACITY_BLOCKS,
    DYNAMO_COMPONENT_ROUTER_CACHE_LOSS_HISTORY_CAPACITY_BYTES,
    DYNAMO_COMPONENT_ROUTER_REQUESTS_STARTED_TOTAL,
    DYNAMO_COMPONENT_ROUTER_REQUESTS_TOTAL,
    DYNAMO_COMPONENT_ROUTER_TIME_TO_FIRST_TOKEN_SECONDS,
    DYNAMO_COMPONENT_ROUTER_INTER_TOKEN_LATENCY_SECONDS,
    DYNAMO_COMPONENT_ROUTER_OUTPUT_SEQUENCE_TOKENS,
    DYNAMO_FRONTEND_STAGE_REQUESTS,
    DYNAMO_FRONTEND_STAGE_DURATION_SECONDS,
    DYNAMO_FRONTEND_ROUTER_QUEUE_PENDING_REQUESTS,
    DYNAMO_COMPONENT_ROUTER_KV_HIT_RATE,
    DYNAMO_COMPONENT_ROUTER_NON_MAX_OVERLAP_SELECTIONS_TOTAL,
    DYNAMO_COMPONENT_ROUTER_OVERLAP_BLOCKS_LOST,
    DYNAMO_ROUTER_OVERHEAD_BLOCK_HASHING_MS,
    DYNAMO_ROUTER_OVERHEAD_SEQ_HASHING_MS,
    DYNAMO_ROUTER_OVERHEAD_INDEXER_FIND_MATCHES_MS,
    DYNAMO_ROUTER_OVERHEAD_SCHEDULING_MS,
    DYNAMO_ROUTER_OVERHEAD_TOTAL_MS,
    DYNAMO_FRONTEND_WORKER_ACTIVE_DECODE_BLOCKS,
    DYNAMO_FRONTEND_WORKER_ACTIVE_PREFILL_TOKENS,
    DYNAMO_FRONTEND_WORKER_LAST_TIME_TO_FIRST_TOKEN_SECONDS,
    DYNAMO_FRONTEND_WORKER_LAST_INPUT_SEQUENCE_TOKENS,
    DYNAMO_FRONTEND_WORKER_LAST_INTER_TOKEN_LATENCY_SECONDS,
))
_NAMES: Final = frozenset(family.name for family in FAMILIES)

def name(constant: str, prefix: str = DEFAULT_PREFIX) -> str:
    """The name of a family under a prefix, as a router with this `metrics.prefix` exports it.

    Only standard families have the prefix; the names of all others are always the same. Raises `ValueError` for a
    name that is none of the constants, and for a prefix that cannot begin a metric name.
    """
    if constant not in _NAMES:
        raise ValueError(f"{constant!r} is no metric family of kvroute; use a constant of this module")
    if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", prefix, re.ASCII):
        raise ValueError(f"prefix {prefix!r} cannot begin a metric name; use letters, digits and _")
    return prefix + constant[len(DEFAULT_PREFIX) :] if constant in _STANDARD else constant
