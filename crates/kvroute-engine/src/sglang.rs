//! SGLang: everything stands in `/server_info`, event ports as a base to which the rank is added.

use kvroute_core::{BlockSize, Blocks, DpRank, Tokens, WorkerRole};
use kvroute_openai::{ChatPrompt, Unasked};
use kvroute_zmtp::Endpoint;
use serde::Deserialize;

use crate::capabilities::{AbortCall, Handoff, RankSteering};
use crate::load::{LoadAnswer, LoadFamilies, LoadQuestion, LoadReading};
use crate::probe::{Answers, Probe};
use crate::spec::{ChatStyle, EngineSpec, StepResult};
use crate::tokenize_remote::{ids_of_chat, ids_of_prompt};

/// Where a prefill server waits unless told otherwise.
const BOOTSTRAP_PORT: u16 = 8998;

pub(crate) static SPEC: EngineSpec = EngineSpec {
    name: "sglang",
    owner: "sglang",
    telltale: "/model_info",
    questions: &["/server_info", "/get_server_info", "/v1/loads"],
    describe,
    assumed_block_size: None,
    accepts_stream_options: true,
    heeds_continuous_usage_alone: true,
    // Older releases do not know the field; newer ones refuse it with a chat that is streamed, and leave the members out
    // where it was not asked for.
    gives_token_ids: false,
    unasked_token_ids: Unasked::Absent,
    takes_cache_salt: true,
    refuses_unknown_fields: false,
    sums_reuse_of_prompt_lists: true,
    rank_steering: RankSteering::Header("x-data-parallel-rank"),
    handoff: Some(Handoff::Bootstrap),
    aborts: Some(AbortCall { path: "/abort_request", id_member: "rid" }),
    chat_style: ChatStyle::Sglang,
    report_remedy: "start sglang with --enable-cache-report",
    caching_remedy: "start sglang without --disable-radix-cache",
    can_publish_events: true,
    events_remedy: "start sglang with --kv-events-config '{\"publisher\":\"zmq\",\"endpoint\":\"tcp://*:5557\",\
                    \"replay_endpoint\":\"tcp://*:5558\"}'",
    // The first needs no setting, and older releases do not have it; the second needs one.
    load: &[
        LoadQuestion { path: "/v1/loads", answer: LoadAnswer::Read(read_loads) },
        LoadQuestion {
            path: "/metrics",
            answer: LoadAnswer::Families(LoadFamilies {
                running: "sglang:num_running_reqs",
                waiting: "sglang:num_queue_reqs",
                kv_usage: &["sglang:token_usage"],
                rank_label: Some("dp_rank"),
            }),
        },
    ],
    load_remedy: "start sglang with --enable-metrics, or use a release that has /v1/loads",
    tokenize_chat: Some(ids_of_open_chat),
    tokenize_text: Some(ids_of_prompt),
    render: None,
    render_remedy: "",
};

#[derive(Deserialize)]
struct ServerInfo {
    version: Option<String>,
    page_size: Option<u32>,
    dp_size: Option<u32>,
    max_total_num_tokens: Option<u64>,
    /// -1 where prompts are not cut into chunks.
    chunked_prefill_size: Option<i64>,
    max_prefill_tokens: Option<u64>,
    context_length: Option<u64>,
    /// Also the word "null".
    disaggregation_mode: Option<String>,
    disaggregation_bootstrap_port: Option<u16>,
    enable_cache_report: Option<bool>,
    disable_radix_cache: Option<bool>,
    kv_events: Option<KvEvents>,
}

#[derive(Deserialize)]
struct KvEvents {
    publisher: Option<String>,
    endpoint_host: Option<String>,
    endpoint_port_base: Option<u16>,
    replay_endpoint_port_base: Option<u16>,
    topic: Option<String>,
    block_size: Option<u32>,
    dp_size: Option<u32>,
}

#[derive(Deserialize)]
struct Loads {
    version: Option<String>,
    loads: Vec<Load>,
}

#[derive(Deserialize)]
struct Load {
    max_total_num_tokens: Option<u64>,
}

/// The same answer, asked for what changes in it: one that cannot be read so must not cost the probe anything.
#[derive(Deserialize)]
struct ToldLoads {
    loads: Vec<ToldLoad>,
}

#[derive(Deserialize)]
struct ToldLoad {
    dp_rank: Option<u32>,
    num_running_reqs: Option<f64>,
    num_waiting_reqs: Option<f64>,
    token_usage: Option<f64>,
}

fn describe(answers: &Answers, probe: &mut Probe) {
    let info: Option<ServerInfo> = answers.json("/server_info").or_else(|| answers.json("/get_server_info"));
    let loads: Option<Loads> = answers.json("/v1/loads");
    let mut capacity = None;
    if let Some(loads) = loads {
        probe.version = loads.version;
        probe.claim_ranks("/v1/loads", u32::try_from(loads.loads.len()).unwrap_or(u32::MAX));
        capacity = loads.loads.first().and_then(|load| load.max_total_num_tokens);
    }
    let Some(info) = info else { return };
    probe.version = info.version.or_else(|| probe.version.take());
    probe.block_size = info.page_size.and_then(|size| BlockSize::new(size).ok());
    if let Some(ranks) = info.dp_size {
        probe.claim_ranks("/server_info", ranks);
    }
    probe.context_length = probe.context_length.or_else(|| info.context_length.map(Tokens::new));
    probe.role = info.disaggregation_mode.as_deref().and_then(role_of);
    if probe.role == Some(WorkerRole::Prefill) {
        probe.bootstrap_port = Some(info.disaggregation_bootstrap_port.unwrap_or(BOOTSTRAP_PORT));
    }
    probe.reports_reuse = info.enable_cache_report;
    probe.caches_prefixes = info.disable_radix_cache.map(|is_off| !is_off);
    let chunk = info.chunked_prefill_size.and_then(|size| u64::try_from(size).ok());
    probe.batch_tokens = chunk.or(info.max_prefill_tokens).filter(|tokens| *tokens > 0).map(Tokens::new);
    let capacity = info.max_total_num_tokens.or(capacity);
    probe.kv_capacity =
        capacity.zip(probe.block_size).map(|(tokens, size)| Blocks::new(tokens / u64::from(size.get())));
    if let Some(events) = info.kv_events {
        announce(&events, probe);
    }
}

/// The tokenize endpoint wants both words of a chat that goes on with its last message; the chat endpoint heeds only one.
fn ids_of_open_chat(model: &str, chat: &ChatPrompt) -> StepResult {
    let add_generation_prompt = chat.add_generation_prompt || chat.continue_final_message;
    ids_of_chat(model, &ChatPrompt { add_generation_prompt, ..chat.clone() })
}

fn role_of(mode: &str) -> Option<WorkerRole> {
    match mode {
        "null" => Some(WorkerRole::Aggregated),
        "prefill" => Some(WorkerRole::Prefill),
        "decode" => Some(WorkerRole::Decode),
        _ => None,
    }
}

fn read_loads(answer: &[u8]) -> LoadReading {
    let mut reading = LoadReading::default();
    let Ok(ToldLoads { loads }) = serde_json::from_slice(answer) else { return reading };
    for load in loads {
        let rank = load.dp_rank.unwrap_or(0);
        load.num_running_reqs.into_iter().for_each(|requests| reading.running(rank, requests));
        load.num_waiting_reqs.into_iter().for_each(|requests| reading.waiting(rank, requests));
        load.token_usage.into_iter().for_each(|share| reading.kv_usage(rank, share));
    }
    reading
}

fn announce(events: &KvEvents, probe: &mut Probe) {
    let Some(base) = events.endpoint_port_base else { return };
    if events.publisher.as_deref().is_some_and(|publisher| publisher != "zmq") {
        return;
    }
    let host = events.endpoint_host.as_deref().filter(|host| !host.is_empty()).unwrap_or("*");
    let address = |base: u16, rank: u32| {
        let port = u32::from(base) + rank;
        u16::try_from(port).ok().map(|port| Endpoint::new(host, port).to_string())
    };
    let ranks = events.dp_size.unwrap_or(probe.dp_ranks);
    if !probe.has_ranks(ranks) {
        return;
    }
    if let Some(ranks) = events.dp_size {
        probe.claim_ranks("/server_info kv_events", ranks);
    }
    probe.announced_block_size = events.block_size.and_then(|size| BlockSize::new(size).ok());
    for rank in 0..ranks {
        let Some(endpoint) = address(base, rank) else { return };
        let replay = events.replay_endpoint_port_base.and_then(|base| address(base, rank));
        probe.announce(DpRank::new(rank), &endpoint, replay.as_deref(), events.topic.clone());
    }
}
