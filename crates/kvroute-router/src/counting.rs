//! From a request to its token ids, or to the reason why it has none.
//!
//! A request that cannot be counted is still served: it is routed by load and counted as uncounted, with the
//! reason as a label, so that a wrong template is visible and never an outage. A request that the router's own template or
//! tokenizer fails on is a matter of that request. A kind of prompt that the router counts otherwise than the engines is one
//! of the pool ([`crate::identity`]): the engines count it, or nobody does.

pub(crate) mod engine;
mod images;
mod long_work;
pub(crate) mod prompts;

use std::sync::Arc;

use kvroute_core::{TokenId, Tokens};
use kvroute_engine::{ChatStyle, EngineKind};
use kvroute_funnel::UncountedReason;
use kvroute_openai::{ClientRequest, Prompt, RequestError};
use kvroute_tokenize::{ChatRules, EncodeError, EncodeErrorKind, PromptTokenizer};

use self::engine::EngineTokenizer;
use self::images::ImageCounter;
use self::long_work::LongWork;
use self::prompts::Origin;
pub(crate) use self::prompts::TokenizedPrompts;
use crate::config::{CountMode, OnMismatch};
use crate::identity::{self, PoolIdentity, PromptKind, Witness};
use crate::log_gate::LogGate;
use crate::pool::Pool;
use crate::rank::Rank;

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
    engine: EngineTokenizer,
    images: ImageCounter,
    identity: PoolIdentity,
    long_work: LongWork,
    failures: LogGate,
}

/// Who counts the prompts of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counter {
    /// The router's own tokenizer.
    Router,
    /// The engines, because they are what the pool goes by.
    Engine,
    /// The engines, because they alone know how they prepare a chat; the router where they do not tell.
    EngineFirst,
    /// The engines, because the router's tokenizer is wrong.
    EngineInstead,
    /// Nobody: the router's tokenizer is wrong.
    Nobody,
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
        Self {
            mode,
            local,
            engine: EngineTokenizer::new(),
            images: ImageCounter::new(),
            identity: PoolIdentity::default(),
            long_work: LongWork::of_this_process(),
            failures: LogGate::default(),
        }
    }

    /// What is known of the engines' tokens.
    pub(crate) const fn identity(&self) -> &PoolIdentity {
        &self.identity
    }

    /// The router's own tokenizer.
    pub(crate) const fn tokenizer(&self) -> Option<&Arc<PromptTokenizer>> {
        self.local.as_ref()
    }

    /// Whether the router has a tokenizer of its own.
    pub(crate) const fn has_tokenizer(&self) -> bool {
        self.local.is_some()
    }

    /// A worker has joined the pool.
    pub(crate) fn joined(&self, pool: &Arc<Pool>, rank: &Arc<Rank>, vocabulary: Option<u32>) {
        if self.mode == CountMode::Exact {
            self.engine.forget();
            self.images.forget();
            identity::joined(pool, rank, vocabulary);
        }
    }

    /// Whether a worker says that it can be asked about chats with images; `None` where that is to be seen.
    pub(crate) fn can_count_images(&self, rank: &Rank, told: Option<bool>) {
        self.images.told(&rank.name.worker, told);
    }

    /// A worker did not answer for a while and does again, maybe with another model: nothing is taken for known.
    pub(crate) fn came_back(&self, pool: &Arc<Pool>, rank: &Arc<Rank>) {
        self.can_count_images(rank, None);
        let vocabulary = self.identity.vocabulary_of(&rank.name.worker);
        self.identity.left(pool, &rank.name.worker);
        self.joined(pool, rank, vocabulary);
    }

    /// What an attempt on a rank can tell of its engine's tokens.
    pub(crate) fn witness(
        &self,
        pool: &Arc<Pool>,
        rank: &Arc<Rank>,
        request: &ClientRequest,
        counting: &Counting,
    ) -> Option<Witness> {
        let Counting::Exact(prompts) = counting else { return None };
        Witness::of(pool, rank, request, prompts)
    }

    /// The router's own ids of one prompt, prepared as an engine of this kind does it; `None` without them.
    pub(crate) fn own_ids(&self, prompt: &Prompt, engine: EngineKind) -> Option<Vec<TokenId>> {
        let lists = self.local.as_ref()?.encode(prompt, chat_rules(Some(engine.chat_style()))).ok()?;
        lists.into_iter().next()
    }

    /// Counts a request. The only error is the client's: token ids that the model does not have.
    pub(crate) async fn count(
        &self,
        request: &Arc<ClientRequest>,
        pool: &Arc<Pool>,
    ) -> Result<Counting, RequestError> {
        let estimate = Tokens::new(request.body().len() as u64 / BYTES_A_TOKEN);
        if !request.endpoint.generates() {
            return Ok(Counting::Uncounted(UncountedReason::Endpoint, estimate));
        }
        if self.mode == CountMode::Off {
            return Ok(Counting::Uncounted(UncountedReason::Off, estimate));
        }
        if let Prompt::Foreign(_) = request.prompt {
            return Ok(Counting::Uncounted(UncountedReason::Template, estimate));
        }
        if request.has_multimodal {
            return Ok(match self.count_images(request, pool).await {
                Some(prompts) => Counting::Exact(prompts),
                None => Counting::Uncounted(UncountedReason::Multimodal, estimate),
            });
        }
        if let Prompt::TokenLists(lists) = &request.prompt {
            self.check_vocabulary(lists)?;
            return Ok(Counting::Exact(TokenizedPrompts::new(lists.clone(), Origin::Client)));
        }
        Ok(match self.counted(request, pool).await {
            Ok(prompts) => Counting::Exact(prompts),
            Err(reason) => Counting::Uncounted(reason, estimate),
        })
    }

    /// By the workers, who alone know what an image becomes. What they do not tell is a matter of this request.
    async fn count_images(&self, request: &ClientRequest, pool: &Pool) -> Option<TokenizedPrompts> {
        // In a box, as with other questions to workers.
        let counted = Box::pin(self.images.count(request, pool, self.identity.style())).await;
        counted.inspect_err(|problem| self.uncounted(problem, UncountedReason::Multimodal, pool)).ok()
    }

    async fn counted(
        &self,
        request: &Arc<ClientRequest>,
        pool: &Arc<Pool>,
    ) -> Result<TokenizedPrompts, UncountedReason> {
        let counter = self.counter(request, pool);
        let counted = match counter {
            Counter::Nobody => return Err(UncountedReason::Identity),
            Counter::Router => return self.counted_here(request, pool).await,
            Counter::Engine | Counter::EngineFirst | Counter::EngineInstead => {
                self.ask_engine(request, pool).await
            }
        };
        match (counted, counter) {
            (Err(_), Counter::EngineFirst) => self.counted_here(request, pool).await,
            (Ok(prompts), Counter::EngineInstead) => {
                self.try_again(request, pool, &prompts);
                Ok(prompts)
            }
            (Ok(prompts), _) => Ok(prompts),
            (Err(error), Counter::EngineInstead) => {
                self.failed(&error, UncountedReason::Identity, pool);
                Err(UncountedReason::Identity)
            }
            (Err(error), _) => Err(self.failed(&error, reason_of(&error), pool)),
        }
    }

    /// By the router's own tokenizer. What it fails on the engines may know, and only this request is theirs.
    async fn counted_here(
        &self,
        request: &Arc<ClientRequest>,
        pool: &Arc<Pool>,
    ) -> Result<TokenizedPrompts, UncountedReason> {
        let encoded = self.encode(request).await;
        self.tell_cache(pool);
        let error = match encoded {
            Ok(lists) => return Ok(TokenizedPrompts::new(lists, Origin::Router)),
            Err(error) => error,
        };
        let reason = self.failed(&error, reason_of(&error), pool);
        match pool.config().on_mismatch {
            OnMismatch::Engine => self.ask_engine(request, pool).await.map_err(|_| reason),
            OnMismatch::Load => Err(reason),
        }
    }

    fn counter(&self, request: &ClientRequest, pool: &Pool) -> Counter {
        if self.local.is_none() {
            return Counter::Engine;
        }
        let kind = PromptKind::of(&request.prompt);
        let is_distrusted = kind.is_some_and(|kind| self.identity.distrusts(kind));
        let is_told = kind != Some(PromptKind::Text) && self.identity.style() == Some(ChatStyle::LlamaCpp);
        match pool.config().on_mismatch {
            _ if !is_distrusted && is_told => Counter::EngineFirst,
            _ if !is_distrusted => Counter::Router,
            OnMismatch::Engine => Counter::EngineInstead,
            OnMismatch::Load if self.identity.tries_again() => Counter::Router,
            OnMismatch::Load => Counter::Nobody,
        }
    }

    /// The router's own tokenizer is wrong, but it may be right again: once in a while its ids are compared with those that
    /// a worker just told.
    fn try_again(&self, request: &Arc<ClientRequest>, pool: &Arc<Pool>, prompts: &TokenizedPrompts) {
        let Origin::Engine(Some(worker)) = prompts.origin() else { return };
        if self.identity.tries_again() {
            identity::compare_again(pool, worker, request, prompts);
        }
    }

    async fn ask_engine(
        &self,
        request: &Arc<ClientRequest>,
        pool: &Pool,
    ) -> Result<TokenizedPrompts, EncodeError> {
        // In a box: the way over the network is long, and requests that do not go it need not carry it.
        Box::pin(self.engine.encode(request, pool, self.identity.style())).await
    }

    /// What the tokenizer's cache had since somebody last looked.
    fn tell_cache(&self, pool: &Pool) {
        let Some(tokenizer) = &self.local else { return };
        let mut seen = pool.plan().cache_seen.lock();
        let now = tokenizer.cache_counts();
        let since = |now: u64, before: u64| Tokens::new(now.saturating_sub(before));
        pool.metrics().tokenizer_cache().looked_up(since(now.hit, seen.hit), since(now.miss, seen.miss));
        *seen = now;
    }

    async fn encode(&self, request: &Arc<ClientRequest>) -> Result<Vec<Vec<TokenId>>, EncodeError> {
        let Some(tokenizer) = &self.local else {
            let message = "there is no tokenizer".to_owned();
            return Err(EncodeError { kind: EncodeErrorKind::Tokenizer, message });
        };
        self.tokenize(tokenizer, request, chat_rules(self.identity.style())).await
    }

    async fn tokenize(
        &self,
        tokenizer: &Arc<PromptTokenizer>,
        request: &Arc<ClientRequest>,
        rules: ChatRules,
    ) -> Result<Vec<Vec<TokenId>>, EncodeError> {
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
        let own = self.local.as_ref().map(|tokenizer| tokenizer.vocabulary_size());
        let Some(size) = own.or_else(|| self.identity.vocabulary()) else { return Ok(()) };
        match lists.iter().flatten().find(|&&id| id >= size) {
            None => Ok(()),
            Some(id) => Err(RequestError::invalid_field(
                "prompt",
                format!("token id {id} is out of range; the model's vocabulary has {size} ids"),
            )),
        }
    }

    fn failed(&self, error: &EncodeError, reason: UncountedReason, pool: &Pool) -> UncountedReason {
        self.uncounted(error, reason, pool);
        reason
    }

    fn uncounted(&self, error: &dyn std::fmt::Display, reason: UncountedReason, pool: &Pool) {
        if let Some(unlogged) = self.failures.open() {
            let (model, reason) = (pool.model(), reason.as_str());
            tracing::warn!(%model, reason, %error, unlogged, "prompt cannot be counted");
        }
    }
}

const fn reason_of(error: &EncodeError) -> UncountedReason {
    match error.kind {
        EncodeErrorKind::Template => UncountedReason::Template,
        EncodeErrorKind::Tokenizer => UncountedReason::Tokenizer,
    }
}

/// The rules by which a chat is rendered for an engine of this style. An engine that nobody knows gets its chats as they are;
/// the reports' prompt lengths tell where that is wrong. llama.cpp is asked for its chats, and comes nearest to vLLM where it
/// does not tell.
pub const fn chat_rules(style: Option<ChatStyle>) -> ChatRules {
    match style {
        Some(ChatStyle::Vllm | ChatStyle::LlamaCpp) => ChatRules::Vllm,
        Some(ChatStyle::Sglang) => ChatRules::Sglang,
        Some(ChatStyle::Plain) | None => ChatRules::Plain,
    }
}

#[cfg(test)]
mod tests;
