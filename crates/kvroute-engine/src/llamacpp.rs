//! llama.cpp's `llama-server`: no blocks, no events, a cache per slot; it renders and tokenizes in two calls.

use kvroute_core::{BlockSize, Tokens};
use kvroute_openai::{ChatPrompt, Unasked};
use serde::Deserialize;
use serde_json::json;

use crate::capabilities::RankSteering;
use crate::load::{LoadAnswer, LoadFamilies, LoadQuestion};
use crate::probe::{Answers, Probe};
use crate::spec::{Brings, ChatStyle, EngineSpec, StepResult, TokenizeStep};
use crate::tokenize_remote::chat_body;

pub(crate) static SPEC: EngineSpec = EngineSpec {
    name: "llama.cpp",
    owner: "llamacpp",
    telltale: "/props",
    questions: &["/props"],
    describe,
    assumed_block_size: Some(BlockSize::DEFAULT),
    // Its streams end with `timings` anyway, and usage would move them into the chunk that is taken out again.
    accepts_stream_options: false,
    heeds_continuous_usage_alone: false,
    // Its `return_tokens` works at its own endpoints only.
    gives_token_ids: false,
    unasked_token_ids: Unasked::Absent,
    takes_cache_salt: false,
    refuses_unknown_fields: false,
    sums_reuse_of_prompt_lists: false,
    rank_steering: RankSteering::None,
    handoff: None,
    aborts: None,
    chat_style: ChatStyle::LlamaCpp,
    report_remedy: "upgrade llama-server: it reports reuse in timings and usage by default",
    caching_remedy: "llama-server caches prefixes unless a request says cache_prompt: false",
    can_publish_events: false,
    events_remedy: "llama.cpp publishes no kv events",
    load: &[LoadQuestion {
        path: "/metrics",
        answer: LoadAnswer::Families(LoadFamilies {
            running: "llamacpp:requests_processing",
            waiting: "llamacpp:requests_deferred",
            // Older releases tell how full the cache is, with all that idle slots keep for later: no load.
            kv_usage: &[],
            rank_label: None,
        }),
    }],
    load_remedy: "start llama-server with --metrics",
    tokenize_chat: Some(text_of_chat),
    tokenize_text: Some(ids_of_text),
    render: None,
    render_remedy: "",
};

#[derive(Deserialize)]
struct Props {
    build_info: Option<String>,
    total_slots: Option<u64>,
    default_generation_settings: Option<Settings>,
}

#[derive(Deserialize)]
struct Settings {
    n_ctx: Option<u64>,
}

fn describe(answers: &Answers, probe: &mut Probe) {
    let Some(props) = answers.json::<Props>("/props") else { return };
    probe.version = props.build_info;
    let context_of_slot = props.default_generation_settings.and_then(|settings| settings.n_ctx);
    let tokens = props.total_slots.zip(context_of_slot).map(|(slots, context)| slots.saturating_mul(context));
    probe.kv_capacity = tokens.map(|tokens| BlockSize::DEFAULT.complete_blocks(Tokens::new(tokens)));
}

fn text_of_chat(model: &str, chat: &ChatPrompt) -> StepResult {
    Ok(TokenizeStep { path: "/apply-template", body: chat_body(model, chat)?, brings: Brings::Text })
}

/// The server adds the model's special tokens to every prompt and reads those in the text.
fn ids_of_text(_model: &str, text: &str, _add_special_tokens: bool) -> StepResult {
    let body = json!({ "content": text, "add_special": true, "parse_special": true });
    Ok(TokenizeStep { path: "/tokenize", body: serde_json::to_vec(&body)?, brings: Brings::Tokens })
}
