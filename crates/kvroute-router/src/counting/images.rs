//! Chats with images, counted by the workers: their tokens with a placeholder for each image, and which image it is.
//!
//! What an image becomes follows from the model's own processor, so only an engine can tell, and only some do. The call costs
//! the worker the preparation of the images a second time, which is why answers are kept, by everything that the client asked;
//! not for long, because an address may show another image later. Chats without images never come here.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kvroute_core::{PromptItem, TokenId, WorkerId};
use kvroute_engine::{ChatStyle, RemoteRenderer};
use kvroute_openai::{ClientRequest, Endpoint};
use parking_lot::Mutex;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use tokio::time::{Instant, timeout};
use xxhash_rust::xxh3::Xxh3;

use super::prompts::{Origin, TokenizedPrompts};
use crate::pool::Pool;
use crate::rank::Rank;

/// Asks the workers of one pool what they make of chats with images.
#[derive(Debug)]
pub(crate) struct ImageCounter {
    answers: Cache<u128, Arc<Kept>, ByTokens>,
    /// Workers that have no such endpoint, or do not serve it.
    unable: Mutex<BTreeSet<WorkerId>>,
    next: AtomicUsize,
}

/// What a worker told.
#[derive(Debug)]
struct Kept {
    lists: Arc<Vec<Vec<TokenId>>>,
    items: Arc<[Vec<PromptItem>]>,
    told_at: Instant,
}

/// An answer weighs as much as it has tokens.
#[derive(Clone, Debug)]
struct ByTokens;

/// Tokens of answers that are kept, 4 MiB of ids.
const KEPT_TOKENS: u64 = 1 << 20;

/// Answers that the cache is laid out for.
const USUAL_ANSWERS: usize = 512;

/// Time for which an answer is believed.
const KEPT_FOR: Duration = Duration::from_secs(60);

/// Workers that are asked about one chat before it goes uncounted.
const WORKERS_ASKED: usize = 2;

/// A worker may have to fetch images before it can answer.
const PATIENCE: Duration = Duration::from_secs(10);

// === impl ImageCounter ===

impl ImageCounter {
    pub(super) fn new() -> Self {
        let answers = Cache::with_weighter(USUAL_ANSWERS, KEPT_TOKENS, ByTokens);
        Self { answers, unable: Mutex::default(), next: AtomicUsize::new(0) }
    }

    /// Whether a worker told beforehand that it can be asked; `None` where that is to be seen.
    pub(super) fn told(&self, worker: &WorkerId, can_render: Option<bool>) {
        let mut unable = self.unable.lock();
        match can_render {
            Some(false) => drop(unable.insert(worker.clone())),
            Some(true) | None => drop(unable.remove(worker)),
        }
    }

    /// What the engines are may have changed: nothing that they said counts any more.
    pub(super) fn forget(&self) {
        self.answers.clear();
    }

    /// A chat's tokens and items, from an earlier answer or from a worker whose engine prepares chats in this style; a second
    /// worker is asked if the first does not answer. The error says why there are none, with the remedy where there is one.
    pub(super) async fn count(
        &self,
        request: &ClientRequest,
        pool: &Pool,
        style: Option<ChatStyle>,
    ) -> Result<TokenizedPrompts, String> {
        let key = key(request.endpoint, request.body());
        if let Some(kept) = self.answers.get(&key).filter(|kept| kept.told_at.elapsed() < KEPT_FOR) {
            return Ok(kept.prompts(Origin::Engine(None)));
        }
        let (kept, worker) = self.ask(request, pool, style).await?;
        let kept = Arc::new(kept);
        self.answers.insert(key, Arc::clone(&kept));
        Ok(kept.prompts(Origin::Engine(Some(worker))))
    }

    async fn ask(
        &self,
        request: &ClientRequest,
        pool: &Pool,
        style: Option<ChatStyle>,
    ) -> Result<(Kept, WorkerId), String> {
        let able = self.able(pool, style)?;
        let first = self.next.fetch_add(1, Ordering::Relaxed) % able.len().max(1);
        let mut failure = "no worker answers that could be asked".to_owned();
        for rank in able.iter().cycle().skip(first).take(able.len().min(WORKERS_ASKED)) {
            match self.ask_one(request, pool, rank).await {
                Ok(kept) => return Ok((kept, rank.name.worker.clone())),
                Err(problem) => failure = format!("worker {}: {problem}", rank.name.worker),
            }
        }
        Err(failure)
    }

    /// One rank of each worker that may be asked. The error is the remedy where workers could tell and do not.
    fn able(&self, pool: &Pool, style: Option<ChatStyle>) -> Result<Vec<Arc<Rank>>, String> {
        let fleet = pool.fleet();
        let mut unable = self.unable.lock();
        unable.retain(|worker| fleet.ranks.iter().any(|rank| rank.name.worker == *worker));
        let (mut able, mut remedy): (Vec<Arc<Rank>>, _) = (Vec::new(), None);
        for rank in fleet.ranks.iter().filter(|rank| rank.worker.takes_requests()) {
            let is_suitable = style.is_none_or(|style| rank.engine.chat_style() == style);
            if !is_suitable || !rank.engine.renders_images() {
                continue;
            }
            let worker = &rank.name.worker;
            if unable.contains(worker) {
                remedy = Some(rank.engine.render_remedy());
            } else if able.last().is_none_or(|last| last.name.worker != *worker) {
                able.push(Arc::clone(rank));
            }
        }
        match remedy.filter(|_| able.is_empty()) {
            Some(remedy) => Err(remedy.to_owned()),
            None => Ok(able),
        }
    }

    async fn ask_one(&self, request: &ClientRequest, pool: &Pool, rank: &Rank) -> Result<Kept, String> {
        let remote = RemoteRenderer::new(pool.client(), &rank.worker.config().url, rank.engine);
        let rendered = match timeout(PATIENCE, remote.render(pool.model().as_str(), request)).await {
            Ok(Ok(rendered)) => rendered,
            Ok(Err(error)) if error.is_unable() => {
                self.unable.lock().insert(rank.name.worker.clone());
                return Err(format!("{error}; {}", rank.engine.render_remedy()));
            }
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_elapsed) => {
                rank.worker.doubt.notify_one();
                return Err(format!("no answer within {PATIENCE:?}"));
            }
        };
        Ok(Kept {
            lists: Arc::new(vec![rendered.ids]),
            items: Arc::from([rendered.items]),
            told_at: Instant::now(),
        })
    }
}

// === impl Kept ===

impl Kept {
    fn prompts(&self, origin: Origin) -> TokenizedPrompts {
        TokenizedPrompts::new(Arc::clone(&self.lists), origin).with_items(Arc::clone(&self.items))
    }
}

// === impl ByTokens ===

impl Weighter<u128, Arc<Kept>> for ByTokens {
    fn weight(&self, _key: &u128, kept: &Arc<Kept>) -> u64 {
        kept.lists.iter().map(|list| list.len() as u64).sum::<u64>().max(1)
    }
}

/// Everything that a client asked: what a prompt becomes can depend on any of it.
fn key(endpoint: Endpoint, body: &[u8]) -> u128 {
    let mut hasher = Xxh3::new();
    hasher.update(endpoint.label().as_bytes());
    hasher.update(&[0]);
    hasher.update(body);
    hasher.digest128()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded_by_its_tokens() {
        let counter = ImageCounter::new();
        let kept = || {
            Arc::new(Kept {
                lists: Arc::new(vec![vec![7; 100_000]]),
                items: Arc::from([vec![]]),
                told_at: Instant::now(),
            })
        };
        (0..50_u128).for_each(|chat| counter.answers.insert(chat, kept()));
        assert!(counter.answers.weight() <= KEPT_TOKENS);
        assert!(counter.answers.len() >= 2, "{}", counter.answers.len());
        counter.forget();
        assert_eq!(counter.answers.len(), 0);
    }

    #[test]
    fn another_image_is_another_question() {
        let of = |body: &[u8]| key(Endpoint::ChatCompletions, body);
        assert_ne!(of(b"{\"a\":1}"), of(b"{\"a\":2}"));
        assert_ne!(of(b"{}"), key(Endpoint::Responses, b"{}"));
    }
}
