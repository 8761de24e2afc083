//! Any other server with OpenAI's API: nothing is known but what every such server answers.

use kvroute_core::BlockSize;
use kvroute_openai::Unasked;

use crate::capabilities::RankSteering;
use crate::spec::{ChatStyle, EngineSpec};

pub(crate) static SPEC: EngineSpec = EngineSpec {
    name: "openai",
    owner: "",
    telltale: "",
    questions: &[],
    describe: |_, _| {},
    assumed_block_size: Some(BlockSize::DEFAULT),
    accepts_stream_options: true,
    heeds_continuous_usage_alone: false,
    gives_token_ids: false,
    unasked_token_ids: Unasked::Absent,
    takes_cache_salt: false,
    refuses_unknown_fields: false,
    sums_reuse_of_prompt_lists: false,
    rank_steering: RankSteering::None,
    handoff: None,
    aborts: None,
    chat_style: ChatStyle::Plain,
    report_remedy: "let the server report usage.prompt_tokens_details.cached_tokens",
    caching_remedy: "let the server cache prefixes",
    can_publish_events: false,
    events_remedy: "this server is not known to publish kv events; name their address in kv_events if it does",
    load: &[],
    load_remedy: "nothing: this server is not known to tell its load; set engine_load to off for its pool",
    tokenize_chat: None,
    tokenize_text: None,
    render: None,
    render_remedy: "",
};
