//! SGLang: everything stands in `/server_info`, event ports as a base to which the rank is added.

use kvroute_core::{BlockSize, Blocks, DpRank};
use kvroute_zmtp::Endpoint;
use serde::Deserialize;

use crate::probe::{Answers, Probe};
use crate::spec::{ChatStyle, EngineSpec};
use crate::tokenize_remote::{ids_of_chat, ids_of_prompt};

pub(crate) static SPEC: EngineSpec = EngineSpec {
    name: "sglang",
    owner: "sglang",
    telltale: "/model_info",
    questions: &["/server_info", "/get_server_info", "/v1/loads"],
    describe,
    assumed_block_size: None,
    accepts_stream_options: true,
    accepts_return_token_ids: false,
    refuses_unknown_fields: false,
    sums_reuse_of_prompt_lists: true,
    rank_header: Some("x-data-parallel-rank"),
    chat_style: ChatStyle::Sglang,
    report_remedy: "start sglang with --enable-cache-report",
    events_remedy: "start sglang with --kv-events-config '{\"publisher\":\"zmq\",\"endpoint\":\"tcp://*:5557\",\
                    \"replay_endpoint\":\"tcp://*:5558\"}'",
    tokenize_chat: Some(ids_of_chat),
    tokenize_text: Some(ids_of_prompt),
};

#[derive(Deserialize)]
struct ServerInfo {
    version: Option<String>,
    page_size: Option<u32>,
    dp_size: Option<u32>,
    max_total_num_tokens: Option<u64>,
    kv_events: Option<KvEvents>,
}

#[derive(Deserialize)]
struct KvEvents {
    publisher: Option<String>,
    endpoint_host: Option<String>,
    endpoint_port_base: Option<u16>,
    replay_endpoint_port_base: Option<u16>,
    topic: Option<String>,
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

fn describe(answers: &Answers, probe: &mut Probe) {
    let info: Option<ServerInfo> = answers.json("/server_info").or_else(|| answers.json("/get_server_info"));
    let loads: Option<Loads> = answers.json("/v1/loads");
    let mut capacity = None;
    if let Some(loads) = loads {
        probe.version = loads.version;
        probe.claim_ranks(u32::try_from(loads.loads.len()).unwrap_or(u32::MAX));
        capacity = loads.loads.first().and_then(|load| load.max_total_num_tokens);
    }
    let Some(info) = info else { return };
    probe.version = info.version.or_else(|| probe.version.take());
    probe.block_size = info.page_size.and_then(|size| BlockSize::new(size).ok());
    probe.claim_ranks(info.dp_size.unwrap_or(1));
    let capacity = info.max_total_num_tokens.or(capacity);
    probe.kv_capacity =
        capacity.zip(probe.block_size).map(|(tokens, size)| Blocks::new(tokens / u64::from(size.get())));
    if let Some(events) = info.kv_events {
        announce(&events, probe);
    }
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
    if !probe.claim_ranks(ranks) {
        return;
    }
    for rank in 0..ranks {
        let Some(endpoint) = address(base, rank) else { return };
        let replay = events.replay_endpoint_port_base.and_then(|base| address(base, rank));
        probe.announce(DpRank::new(rank), &endpoint, replay.as_deref(), events.topic.clone());
    }
}
