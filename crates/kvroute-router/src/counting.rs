//! From a request to its token ids, or to the reason why it has none.
//!
//! A request that cannot be counted is still served: it is routed by load and counted as uncounted, with the
//! reason as a label, so that a wrong template is visible and never an outage.

mod long_work;

use std::sync::Arc;

use kvroute_core::{TokenId, Tokens};
use kvroute_engine::{ChatStyle, EngineKind};
use kvroute_funnel::UncountedReason;
use kvroute_openai::{ClientRequest, Prompt, RequestError};
use kvroute_tokenize::{ChatRules, EncodeError, EncodeErrorKind, PromptTokenizer};

use self::long_work::LongWork;
use crate::config::CountMode;
use crate::log_gate::LogGate;
use crate::pool::Pool;

/// Token ids, one list a prompt.
pub(crate) type TokenizedPrompts = Vec<Vec<TokenId>>;

/// What is known of a request's length.
#[derive(Debug)]
pub(crate) enum Counting {
    /// Tokenized as the engine does it.
    Exact(TokenizedPrompts),
    /// Not tokenized; the load is booked by the size of the body.
    Uncounted(UncountedReason, Tokens),
}

/// Turns prompts into ids for one pool.
#[derive(Debug)]
pub(crate) struct PromptCounter {
    mode: CountMode,
    local: Option<Arc<PromptTokenizer>>,
    long_work: LongWork,
    failures: LogGate,
}

/// Bodies up to this size are tokenized on the spot; a longer one would hold up the other requests of the thread.
const ON_THE_SPOT: usize = 16 * 1024;

/// Bytes a token takes at the least in JSON bodies, for estimates.
const BYTES_A_TOKEN: u64 = 4;

// === impl Counting ===

impl Counting {
    /// Length of each prompt: exact, or one estimate for all of them.
    pub(crate) fn prompt_lengths(&self) -> Vec<Tokens> {
        match self {
            Self::Exact(prompts) => prompts.iter().map(|ids| Tokens::from(ids.len())).collect(),
            Self::Uncounted(_, estimate) => vec![*estimate],
        }
    }

    /// Length of all prompts; `None` where they were not tokenized.
    pub(crate) fn input(&self) -> Option<Tokens> {
        match self {
            Self::Exact(prompts) => Some(prompts.iter().map(|ids| Tokens::from(ids.len())).sum()),
            Self::Uncounted(..) => None,
        }
    }
}

// === impl PromptCounter ===

impl PromptCounter {
    /// With a tokenizer of its own, or without one: then the workers are asked.
    pub(crate) fn new(mode: CountMode, local: Option<Arc<PromptTokenizer>>) -> Self {
        Self { mode, local, long_work: LongWork::of_this_process(), failures: LogGate::default() }
    }

    /// Counts a request. The only error is the client's: token ids that the model does not have.
    pub(crate) async fn count(
        &self,
        request: &Arc<ClientRequest>,
        pool: &Pool,
    ) -> Result<Counting, RequestError> {
        let estimate = Tokens::new(request.body().len() as u64 / BYTES_A_TOKEN);
        if self.mode == CountMode::Off {
            return Ok(Counting::Uncounted(UncountedReason::Off, estimate));
        }
        if let Prompt::Foreign(_) = request.prompt {
            return Ok(Counting::Uncounted(UncountedReason::Template, estimate));
        }
        if request.has_multimodal {
            return Ok(Counting::Uncounted(UncountedReason::Multimodal, estimate));
        }
        if let Prompt::TokenLists(lists) = &request.prompt {
            self.check_vocabulary(lists)?;
            return Ok(Counting::Exact(lists.clone()));
        }
        match self.encode(request, pool).await {
            Ok(prompts) => Ok(Counting::Exact(prompts)),
            Err(error) => Ok(Counting::Uncounted(self.failed(&error, pool), estimate)),
        }
    }

    async fn encode(
        &self,
        request: &Arc<ClientRequest>,
        pool: &Pool,
    ) -> Result<TokenizedPrompts, EncodeError> {
        let Some(tokenizer) = &self.local else { return pool.ask_worker_for_ids(request).await };
        self.tokenize(tokenizer, request, chat_rules(pool.engine_kind().map(EngineKind::chat_style))).await
    }

    async fn tokenize(
        &self,
        tokenizer: &Arc<PromptTokenizer>,
        request: &Arc<ClientRequest>,
        rules: ChatRules,
    ) -> Result<TokenizedPrompts, EncodeError> {
        if request.body().len() <= ON_THE_SPOT {
            return tokenizer.encode(&request.prompt, rules);
        }
        let (tokenizer, request) = (Arc::clone(tokenizer), Arc::clone(request));
        let encoded = self.long_work.run(move || tokenizer.encode(&request.prompt, rules)).await;
        encoded.unwrap_or_else(|error| {
            Err(EncodeError {
                kind: EncodeErrorKind::Tokenizer,
                message: format!("tokenizer task failed: {error}"),
            })
        })
    }

    /// One id beyond the vocabulary kills some engines whole, so it is refused here.
    fn check_vocabulary(&self, lists: &[Vec<TokenId>]) -> Result<(), RequestError> {
        let Some(tokenizer) = &self.local else { return Ok(()) };
        let size = tokenizer.vocabulary_size();
        match lists.iter().flatten().find(|&&id| id >= size) {
            None => Ok(()),
            Some(id) => Err(RequestError::invalid_field(
                "prompt",
                format!("token id {id} is out of range; the model's vocabulary has {size} ids"),
            )),
        }
    }

    fn failed(&self, error: &EncodeError, pool: &Pool) -> UncountedReason {
        let reason = match error.kind {
            EncodeErrorKind::Template => UncountedReason::Template,
            EncodeErrorKind::Tokenizer => UncountedReason::Tokenizer,
        };
        if let Some(unlogged) = self.failures.open() {
            let (model, reason) = (pool.model(), reason.as_str());
            tracing::warn!(%model, reason, %error, unlogged, "prompt cannot be counted, routing it by load");
        }
        reason
    }
}

/// Styles without rules of their own are rendered plainly; the reports' prompt lengths tell where that is wrong.
const fn chat_rules(style: Option<ChatStyle>) -> ChatRules {
    match style {
        Some(ChatStyle::Vllm) => ChatRules::Vllm,
        Some(ChatStyle::Plain | ChatStyle::Sglang | ChatStyle::LlamaCpp) | None => ChatRules::Plain,
    }
}

#[cfg(test)]
mod tests;
