//! Prompts tokenized by the workers: exact by definition, at the price of a call, so answers are kept for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kvroute_core::{TokenId, Tokens, WorkerId};
use kvroute_engine::{ChatStyle, RemoteTokenizeError, RemoteTokenizer};
use kvroute_openai::{ChatPrompt, ClientRequest, Prompt, RawJson};
use kvroute_tokenize::{EncodeError, EncodeErrorKind};
use parking_lot::Mutex;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use tokio::time::{Instant, timeout};
use xxhash_rust::xxh3::Xxh3;

use super::prompts::{Origin, TokenizedPrompts};
use crate::pool::Pool;
use crate::rank::Rank;

/// Asks the workers of one pool for token ids.
#[derive(Debug)]
pub(crate) struct EngineTokenizer {
    answers: Cache<u128, Arc<Vec<Vec<TokenId>>>, ByTokens>,
    next: AtomicUsize,
    /// Workers that let a question go unanswered, and when.
    silent: Mutex<Vec<(WorkerId, Instant)>>,
}

/// A worker that did not tell the ids of a prompt.
#[derive(Debug)]
pub(crate) struct Unasked {
    /// Why, with the remedy where there is one.
    pub(crate) problem: String,
    /// It has no endpoint for such prompts, and never will.
    pub(crate) is_unable: bool,
    /// It said nothing at all.
    is_silent: bool,
}

/// An answer weighs as much as it has tokens.
#[derive(Clone, Debug)]
struct ByTokens;

/// Tokens of answers that are kept, 16 MiB of ids.
const KEPT_TOKENS: u64 = 4 << 20;

/// Answers that the cache is laid out for.
const USUAL_ANSWERS: usize = 4096;

/// Workers that are asked for the ids of one prompt before it goes uncounted.
const WORKERS_ASKED: usize = 2;

/// A worker that takes longer for the ids of a prompt hangs.
const PATIENCE: Duration = Duration::from_secs(3);

/// For so long such a worker is asked only where there is no other: whether it is well again is found out elsewhere.
const LEFT_ALONE: Duration = Duration::from_secs(30);

// === impl EngineTokenizer ===

impl EngineTokenizer {
    pub(super) fn new() -> Self {
        let answers = Cache::with_weighter(USUAL_ANSWERS, KEPT_TOKENS, ByTokens);
        Self { answers, next: AtomicUsize::new(0), silent: Mutex::default() }
    }

    /// Ids of a request's prompts, from an earlier answer or from a worker whose engine prepares chats in this style; a second
    /// worker is asked if the first does not answer.
    pub(super) async fn encode(
        &self,
        request: &ClientRequest,
        pool: &Pool,
        style: Option<ChatStyle>,
    ) -> Result<TokenizedPrompts, EncodeError> {
        let key = key(style, &request.prompt);
        if let Some(known) = self.answers.get(&key) {
            pool.metrics().tokenizer_cache().looked_up(tokens(&known), Tokens::ZERO);
            return Ok(TokenizedPrompts::new(known, Origin::Engine(None)));
        }
        let (lists, worker) = self.ask(request, pool, style).await?;
        let lists = Arc::new(lists);
        pool.metrics().tokenizer_cache().looked_up(Tokens::ZERO, tokens(&lists));
        self.answers.insert(key, Arc::clone(&lists));
        Ok(TokenizedPrompts::new(lists, Origin::Engine(Some(worker))))
    }

    /// What the engines are may have changed: nothing that they said counts any more.
    pub(crate) fn forget(&self) {
        self.answers.clear();
    }

    async fn ask(
        &self,
        request: &ClientRequest,
        pool: &Pool,
        style: Option<ChatStyle>,
    ) -> Result<(Vec<Vec<TokenId>>, WorkerId), EncodeError> {
        let fleet = pool.fleet();
        let suits = |rank: &&Arc<Rank>| {
            rank.worker.takes_requests() && style.is_none_or(|style| rank.engine.chat_style() == style)
        };
        let ready: Vec<_> = fleet.ranks.iter().filter(suits).collect();
        let first = self.next.fetch_add(1, Ordering::Relaxed) % ready.len().max(1);
        let silent = self.silent();
        let mut in_turn: Vec<_> = ready.iter().cycle().skip(first).take(ready.len()).collect();
        in_turn.sort_by_key(|rank| silent.contains(&rank.name.worker));
        let mut failure = "no worker answers that could be asked for token ids".to_owned();
        for rank in in_turn.into_iter().take(WORKERS_ASKED) {
            let worker = rank.name.worker.clone();
            let unasked = match ask_one(pool, rank, &request.prompt).await {
                Ok(lists) => return Ok((lists, worker)),
                Err(unasked) => unasked,
            };
            failure = format!("worker {worker}: {}", unasked.problem);
            if unasked.is_silent {
                let mut silent = self.silent.lock();
                silent.retain(|(known, _)| *known != worker);
                silent.push((worker, Instant::now()));
            }
        }
        Err(EncodeError { kind: EncodeErrorKind::Tokenizer, message: failure })
    }

    /// Those that lately said nothing.
    fn silent(&self) -> Vec<WorkerId> {
        let mut silent = self.silent.lock();
        silent.retain(|(_, asked)| asked.elapsed() < LEFT_ALONE);
        silent.iter().map(|(worker, _)| worker.clone()).collect()
    }
}

/// Asks one worker, and for its health where it does not answer.
pub(crate) async fn ask_one(pool: &Pool, rank: &Rank, prompt: &Prompt) -> Result<Vec<Vec<TokenId>>, Unasked> {
    let remote = RemoteTokenizer::new(pool.client(), &rank.worker.config().url, rank.engine);
    let failed = |problem: String| Unasked { problem, is_unable: false, is_silent: false };
    match timeout(PATIENCE, remote.encode(pool.model(), prompt)).await {
        Ok(Ok(lists)) if lists.iter().any(Vec::is_empty) => {
            Err(failed("answers with an empty list of token ids".to_owned()))
        }
        Ok(Ok(lists)) => Ok(lists),
        Ok(Err(error)) => {
            let is_unable = matches!(error, RemoteTokenizeError::Unsupported { .. });
            Err(Unasked { problem: error.to_string(), is_unable, is_silent: false })
        }
        Err(_elapsed) => {
            rank.worker.doubt.notify_one();
            Err(Unasked { is_silent: true, ..failed(format!("no answer within {PATIENCE:?}")) })
        }
    }
}

// === impl ByTokens ===

impl Weighter<u128, Arc<Vec<Vec<TokenId>>>> for ByTokens {
    fn weight(&self, _key: &u128, lists: &Arc<Vec<Vec<TokenId>>>) -> u64 {
        tokens(lists).get().max(1)
    }
}

fn tokens(lists: &[Vec<TokenId>]) -> Tokens {
    lists.iter().map(|list| Tokens::from(list.len())).sum()
}

/// Everything of a prompt that its ids can depend on. Each part stands behind its length, so that no two prompts are written
/// alike.
fn key(style: Option<ChatStyle>, prompt: &Prompt) -> u128 {
    let mut hasher = Xxh3::new();
    let mut part = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    part(format!("{style:?}").as_bytes());
    match prompt {
        Prompt::Texts { texts, add_special_tokens } => {
            part(&[0, u8::from(*add_special_tokens)]);
            texts.iter().for_each(|text| part(text.as_bytes()));
        }
        Prompt::Chat(chat) => chat_parts(chat, &mut part),
        Prompt::TokenLists(lists) => {
            part(&[2]);
            lists
                .iter()
                .for_each(|list| part(&list.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<_>>()));
        }
        Prompt::Foreign(raw) => {
            part(&[3]);
            part(raw.as_str().as_bytes());
        }
    }
    hasher.digest128()
}

fn chat_parts(chat: &ChatPrompt, part: &mut impl FnMut(&[u8])) {
    let ChatPrompt {
        messages,
        tools,
        documents,
        chat_template_kwargs,
        chat_template,
        reasoning_effort,
        tool_choice,
        reasoning,
        add_generation_prompt,
        continue_final_message,
        add_special_tokens,
    } = chat;
    part(&[
        1,
        u8::from(*add_generation_prompt),
        u8::from(*continue_final_message),
        u8::from(*add_special_tokens),
    ]);
    part(messages.as_str().as_bytes());
    for raw in [tools, documents, chat_template_kwargs, tool_choice, reasoning] {
        // Nothing and an empty text are told apart by a first byte.
        part(raw.as_ref().map_or("-", |_| "+").as_bytes());
        part(raw.as_ref().map_or("", RawJson::as_str).as_bytes());
    }
    for text in [chat_template, reasoning_effort] {
        part(text.as_ref().map_or("-", |_| "+").as_bytes());
        part(text.as_deref().unwrap_or_default().as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use kvroute_openai::Endpoint;

    use super::*;

    fn prompt(endpoint: Endpoint, body: &str) -> Prompt {
        ClientRequest::parse(endpoint, Bytes::from(body.to_owned())).unwrap().prompt
    }

    fn chat(fields: &str) -> Prompt {
        let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}}]{fields}}}"#);
        prompt(Endpoint::ChatCompletions, &body)
    }

    #[test]
    fn whatever_changes_the_ids_changes_the_key() {
        let text = |body: &str| prompt(Endpoint::Completions, body);
        let prompts = [
            text(r#"{"prompt":"hi"}"#),
            text(r#"{"prompt":["hi"],"add_special_tokens":false}"#),
            text(r#"{"prompt":["h","i"]}"#),
            text(r#"{"prompt":["hi","h"]}"#),
            text(r#"{"prompt":[1,2]}"#),
            text(r#"{"prompt":[[1],[2]]}"#),
            chat(""),
            chat(r#","tools":[{"type":"function"}]"#),
            chat(r#","documents":[{"type":"function"}]"#),
            chat(r#","chat_template_kwargs":{"enable_thinking":false}"#),
            chat(r#","chat_template":"x""#),
            chat(r#","reasoning_effort":"low""#),
            chat(r#","add_generation_prompt":false"#),
            chat(r#","add_special_tokens":true"#),
        ];
        let keys: std::collections::BTreeSet<_> = prompts.iter().map(|prompt| key(None, prompt)).collect();
        assert_eq!(keys.len(), prompts.len());
        assert_ne!(key(None, &prompts[6]), key(Some(ChatStyle::Vllm), &prompts[6]));
        assert_eq!(key(None, &prompts[6]), key(None, &chat("")));
    }

    #[test]
    fn what_is_kept_is_bounded_by_its_tokens() {
        let tokenizer = EngineTokenizer::new();
        for prompt in 0..100_u128 {
            tokenizer.answers.insert(prompt, Arc::new(vec![vec![7; 100_000]]));
        }
        assert!(tokenizer.answers.weight() <= KEPT_TOKENS);
        assert!(tokenizer.answers.len() >= 2, "{}", tokenizer.answers.len());
        tokenizer.forget();
        assert_eq!(tokenizer.answers.len(), 0);
    }
}
