//! Requests of which two engines do a part each: one computes the prompt, the other one takes its KV and answers.
//!
//! What passes between client and engines is each engine's own; what passes between the engines is
//! [`transfer`](crate::transfer).

use kvroute_core::{TokenId, WorkerRole};
use serde_json::{Value, json};

use super::App;
use super::error::ApiError;
use super::request::{EngineFields, SimRequest};
use crate::config::Flavour;
use crate::faults::Faults;
use crate::transfer::{Pulled, pull};

/// Port of SGLang's prefill engines where nobody says otherwise.
const BOOTSTRAP_PORT: u16 = 8998;

/// What another engine has to do with a request.
#[derive(Debug, Default)]
pub(super) struct Handover {
    leg: Leg,
    /// What usage tells instead of what this engine found.
    pub(super) told: ToldUsage,
}

/// Usage of the engine that computed the prompt, where the request brings it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ToldUsage {
    pub(super) cached_tokens: Option<u64>,
    pub(super) prompt_tokens: Option<u64>,
}

/// What a prefill leg came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prefilled {
    /// The token that the prompt led to, where it is known.
    pub(super) first_token: Option<TokenId>,
    /// Prompt tokens that were found in the cache.
    pub(super) cached_tokens: u64,
}

/// Which part of a request is done here.
#[derive(Debug, Default)]
enum Leg {
    #[default]
    Whole,
    /// The prompt; its KV is handed over by this name.
    Prefill { key: String },
    /// The answer; the KV is there.
    Decode { host: String, port: u16, key: String },
}

// === impl Handover ===

impl Handover {
    /// Reads what a request says about it.
    pub(super) fn read(app: &App, fields: &EngineFields) -> Result<Self, ApiError> {
        if app.config.role == WorkerRole::Aggregated {
            return Ok(Self::default());
        }
        match app.config.flavour {
            Flavour::Vllm => {
                Ok(fields.kv_transfer_params.as_ref().map(|params| nixl(app, params)).unwrap_or_default())
            }
            Flavour::TrtLlm => Ok(fields
                .disaggregated_params
                .as_ref()
                .map(|params| context(app, params))
                .unwrap_or_default()),
            Flavour::Sglang => bootstrap(app, fields),
            Flavour::LlamaCpp => Ok(Self::default()),
        }
    }

    /// Whether only the prompt is computed here.
    pub(super) const fn is_prefill(&self) -> bool {
        matches!(self.leg, Leg::Prefill { .. })
    }

    /// The name by which KV is handed over.
    pub(super) fn key(&self) -> Option<&str> {
        match &self.leg {
            Leg::Prefill { key } => Some(key),
            Leg::Whole | Leg::Decode { .. } => None,
        }
    }
}

impl From<Leg> for Handover {
    fn from(leg: Leg) -> Self {
        Self { leg, told: ToldUsage::default() }
    }
}

/// Fetches the KV of a decode leg, as far as it comes.
pub(super) async fn fetch(app: &App, request: &mut SimRequest, faults: &Faults) -> Result<(), ApiError> {
    let Leg::Decode { host, port, key } = &request.handover.leg else { return Ok(()) };
    if faults.fail_decode {
        return Err(ApiError::no_kv("the simulated engine was told to fail decode legs"));
    }
    let prompt = request.generation.prompts.first().map(Vec::as_slice).unwrap_or_default();
    let pulled = match app.config.flavour {
        // A room is for one answer; the second one waits in vain, and with it the first.
        Flavour::Sglang if request.generation.choices > 1 => {
            tokio::time::sleep(app.config.transfer_patience).await;
            Pulled::TimedOut
        }
        _ => pull(host, *port, key, prompt, app.config.transfer_patience).await,
    };
    let (arrived, reused) = match pulled {
        Pulled::Kv(kv) => (kv.tokens * u64::from(faults.transfer_percent.unwrap_or(100)) / 100, kv.reused),
        Pulled::Nothing | Pulled::TimedOut => (0, 0),
    };
    let is_lost = !matches!(pulled, Pulled::Kv(_));
    let is_fatal = match app.config.flavour {
        Flavour::Vllm => is_lost && !app.config.recomputes_lost_kv,
        _ => arrived == 0,
    };
    if is_fatal {
        return Err(not_come(app.config.flavour, pulled, key, &request.id));
    }
    request.generation.arriving = usize::try_from(arrived).unwrap_or(usize::MAX);
    if app.config.flavour == Flavour::Sglang {
        request.handover.told.cached_tokens = Some(reused);
    }
    Ok(())
}

/// KV that does not come: how each engine says so.
fn not_come(flavour: Flavour, pulled: Pulled, key: &str, id: &str) -> ApiError {
    let why = if pulled == Pulled::TimedOut { "timed out" } else { "failed" };
    match flavour {
        Flavour::Vllm => ApiError::no_kv("Internal server error"),
        Flavour::Sglang => ApiError::no_transfer(format!(
            "Decode transfer {why} for request rank=0 decode_req.req.rid='{id}' \
             decode_req.req.bootstrap_room={key} with exception KVTransferError(bootstrap_room={key}): Lost connection \
             with prefill instance"
        )),
        _ => ApiError::no_kv(format!("transfer of the kv cache {why} for context request {key}")),
    }
}

/// What the answer of a prefill leg says, for whoever sends the other leg.
pub(super) fn handed(app: &App, key: &str, prompt: &[TokenId], prefilled: Prefilled) -> Value {
    let Some(transfer) = &app.transfer else { return Value::Null };
    let host = app.own_host();
    match app.config.flavour {
        Flavour::Vllm => {
            let blocks = prompt.len().div_ceil(app.config.block_size.get() as usize);
            json!({
                "do_remote_prefill": true, "do_remote_decode": false,
                "remote_block_ids": [(0..blocks).collect::<Vec<_>>()],
                "remote_engine_id": app.engine_id(), "remote_request_id": key,
                "remote_host": host, "remote_port": transfer.port,
                "tp_size": 1, "dcp_size": 1, "pp_size": 1, "remote_num_tokens": prompt.len(),
                "remote_blocks_expiry_time": null, "transfer_mode": "pull",
                "remote_prefill_cached_tokens": prefilled.cached_tokens,
            })
        }
        Flavour::TrtLlm => json!({
            "request_type": "context_only", "first_gen_tokens": prefilled.first_token.map(|token| [token]),
            "first_gen_log_probs": null, "first_gen_logits": null,
            "ctx_request_id": key.parse::<u64>().ok(),
            "encoded_opaque_state": format!("{host}:{}", transfer.port),
            "draft_tokens": null, "disagg_request_id": null, "ctx_dp_rank": 0, "ctx_info_endpoint": null,
            "schedule_style": null, "ctx_usage": null, "return_prompt_token_ids_b64": false,
            "resolved_thinking": null,
        }),
        Flavour::Sglang | Flavour::LlamaCpp => Value::Null,
    }
}

/// vLLM with NIXL: one leg asks for what the other one needs.
fn nixl(app: &App, params: &Value) -> Handover {
    if params["do_remote_decode"] == true && app.config.role == WorkerRole::Prefill {
        return Leg::Prefill { key: app.unique_id() }.into();
    }
    let place =
        (params["remote_host"].as_str(), port(&params["remote_port"]), params["remote_request_id"].as_str());
    let (true, (Some(host), Some(port), Some(key))) = (params["do_remote_prefill"] == true, place) else {
        return Handover::default();
    };
    let leg = Leg::Decode { host: host.to_owned(), port, key: key.to_owned() };
    let cached_tokens = params["remote_prefill_cached_tokens"].as_u64();
    Handover { leg, told: ToldUsage { cached_tokens, prompt_tokens: None } }
}

/// TensorRT-LLM: the answer of one leg is put into the other one's request.
fn context(app: &App, params: &Value) -> Handover {
    match params["request_type"].as_str() {
        Some("context_only") => Leg::Prefill { key: app.unique_number().to_string() }.into(),
        Some("generation_only") => {
            let place = params["encoded_opaque_state"].as_str().and_then(|state| state.rsplit_once(':'));
            let (host, number) = place.unwrap_or_default();
            let key = params["ctx_request_id"].as_u64().unwrap_or_default().to_string();
            let leg = Leg::Decode { host: host.to_owned(), port: number.parse().unwrap_or_default(), key };
            let usage = &params["ctx_usage"];
            let told = ToldUsage {
                cached_tokens: usage["prompt_tokens_details"]["cached_tokens"].as_u64(),
                prompt_tokens: usage["prompt_tokens"].as_u64(),
            };
            Handover { leg, told }
        }
        _ => Handover::default(),
    }
}

/// SGLang: both legs name the same room at the prefill engine.
fn bootstrap(app: &App, fields: &EngineFields) -> Result<Handover, ApiError> {
    let Some(room) = fields.bootstrap_room else {
        let message = "Invalid request: Disaggregated request received without bootstrap room id.";
        return Err(ApiError::bad_request(message));
    };
    let key = room.to_string();
    if app.config.role == WorkerRole::Prefill {
        return Ok(Leg::Prefill { key }.into());
    }
    let host = fields.bootstrap_host.clone().unwrap_or_else(|| app.own_host());
    Ok(Leg::Decode { host, port: fields.bootstrap_port.unwrap_or(BOOTSTRAP_PORT), key }.into())
}

fn port(value: &Value) -> Option<u16> {
    value.as_u64().and_then(|port| u16::try_from(port).ok())
}
