//! How much one request may ask for.

use kvroute_core::TokenId;

use crate::config::Flavour;
use crate::http::App;
use crate::http::error::ApiError;

/// Tokens of an answer when the request does not say.
const DEFAULT_MAX_TOKENS: u64 = 16;

/// Most answers to one request, as vLLM has it by default for each prompt. Here it holds for all prompts together:
/// it bounds what one request makes the engine allocate.
const MAX_CHOICES: usize = 16_384;

/// One answer to each prompt is always served: who sends the prompts pays for them. llama.cpp has as many answers as it
/// has slots.
pub(super) fn check_choices(app: &App, asked: u32, prompts: usize) -> Result<(), ApiError> {
    let most = if app.config.flavour == Flavour::LlamaCpp { app.config.slots as usize } else { MAX_CHOICES };
    let limit = (most / prompts.max(1)).max(1);
    if asked as usize <= limit {
        return Ok(());
    }
    let message = match prompts {
        ..=1 => format!("n must be at most {limit}, got {asked}."),
        _ => format!("n must be at most {limit} for {prompts} prompts, got {asked}."),
    };
    Err(ApiError::parameter("n", Some(asked.to_string()), message))
}

/// Tokens of each answer.
pub(super) fn answer_length(
    app: &App,
    asked: Option<u64>,
    prompts: &[Vec<TokenId>],
) -> Result<u64, ApiError> {
    let limit = app.config.context();
    let longest = prompts.iter().map(Vec::len).max().unwrap_or_default() as u64;
    let is_vllm = app.config.flavour == Flavour::Vllm;
    if asked == Some(0) {
        let message = "max_tokens must be at least 1, got 0.";
        return Err(ApiError::parameter("max_tokens", Some(String::from("0")), message));
    }
    if let Some(asked) = asked.filter(|asked| *asked > limit && is_vllm) {
        let message = format!(
            "max_tokens={asked} cannot be greater than max_model_len={limit}. Please request fewer output tokens."
        );
        return Err(ApiError::parameter("max_tokens", Some(asked.to_string()), message));
    }
    if longest >= limit {
        let message = format!(
            "This model's maximum context length is {limit} tokens. However, your prompt contains at least \
             {longest} input tokens, which exceeds this limit even without any output tokens. Please reduce the \
             length of the input prompt."
        );
        return Err(ApiError::too_long(longest, limit, message));
    }
    let asked = match asked {
        None => return Ok(DEFAULT_MAX_TOKENS.min(limit - longest)),
        // Its answers end with the context.
        Some(asked) if app.config.flavour == Flavour::LlamaCpp => asked.min(limit - longest),
        Some(asked) => asked,
    };
    match longest + asked <= limit {
        true => Ok(asked),
        false => Err(too_much(app.config.flavour, longest, asked, limit)),
    }
}

/// A prompt that fits, with an answer that does not.
fn too_much(flavour: Flavour, longest: u64, asked: u64, limit: u64) -> ApiError {
    let total = longest + asked;
    if flavour == Flavour::Vllm {
        let message = format!(
            "This model's maximum context length is {limit} tokens. However, you requested {asked} output tokens \
             and your prompt contains at least {longest} input tokens, for a total of at least {total} tokens. Please \
             reduce the length of the input prompt or the number of requested output tokens."
        );
        return ApiError::parameter("input_tokens", Some(longest.to_string()), message);
    }
    ApiError::bad_request(format!(
        "Requested token count exceeds the model's maximum context length of {limit} tokens. You requested a total \
         of {total} tokens: {longest} tokens from the input messages and {asked} tokens for the completion."
    ))
}
