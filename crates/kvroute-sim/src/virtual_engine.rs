//! The engine without sockets, driven by a clock that is passed in.
//!
//! A fleet of hundreds of engines over hours of traffic is a matter of seconds when nobody waits, and gives the same
//! figures every time. Scheduler and cache are those of the engine that serves.

use std::sync::Arc;
use std::time::Duration;

use kvroute_core::{BlockExtras, BlockSize, EngineHash, KvEvent, StoredBlocks, Tier, TokenId};

use crate::cache::{BlockKey, CacheChange, CacheUse, StoredRun};
use crate::config::SimConfig;
use crate::engine::StartError;
use crate::scheduler::{Generated, Prompt, Scheduler, Sequence, SequenceId};
use crate::stats::EngineStats;
use crate::words::Words;

/// One engine in virtual time.
#[derive(Debug)]
pub struct VirtualEngine {
    scheduler: Scheduler,
    words: Arc<Words>,
    block_size: BlockSize,
    seed: u64,
    context: u64,
    next_id: u64,
}

/// Names a request for as long as its engine lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtualId(u64);

/// What the engine did in one call.
#[derive(Clone, Debug, Default)]
pub struct VirtualProgress {
    /// Generated tokens, in order.
    pub tokens: Vec<VirtualToken>,
    /// What it would have announced, in order.
    pub events: Vec<KvEvent>,
}

/// One generated token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VirtualToken {
    /// The request that it answers.
    pub request: VirtualId,
    /// Its id.
    pub token: TokenId,
    /// Prompt tokens of the request that were taken from the cache.
    pub reused_tokens: u64,
    /// Whether it is the request's last one.
    pub is_last: bool,
}

// === impl VirtualEngine ===

impl VirtualEngine {
    /// An engine with an empty cache at time zero. Settings of sockets, wire formats and faults have no meaning here.
    ///
    /// # Errors
    /// Settings that make no sense.
    pub fn new(config: &SimConfig) -> Result<Self, StartError> {
        config.validate().map_err(StartError::Config)?;
        let words = Arc::new(Words::numbered());
        Ok(Self {
            scheduler: Scheduler::new(config, Arc::clone(&words)),
            words,
            block_size: config.block_size,
            seed: config.seed,
            context: config.context(),
            next_id: 0,
        })
    }

    /// Queues a request that arrives at `now`, which is not before any earlier call's. `None` if prompt and answer are
    /// longer than the context, or the prompt has no token.
    pub fn submit(&mut self, prompt: &[TokenId], max_tokens: u64, now: Duration) -> Option<VirtualId> {
        if prompt.is_empty() || (prompt.len() as u64).saturating_add(max_tokens) > self.context {
            return None;
        }
        let id = self.next_id;
        self.next_id += 1;
        let prompt = Prompt {
            tokens: prompt,
            cache_use: &CacheUse::default(),
            arriving: 0,
            is_kept: false,
            max_tokens,
            seed: self.seed,
        };
        self.scheduler.submit([Sequence::new(SequenceId::new(id), prompt, 0, now)]);
        Some(VirtualId(id))
    }

    /// Ends a request at once. One that has ended is ignored.
    pub fn cancel(&mut self, request: VirtualId) {
        self.scheduler.cancel(&[SequenceId::new(request.0)]);
    }

    /// When [`VirtualEngine::advance`] has something to do next; a time that is past means at once. `None` when idle
    /// until the next submission.
    pub fn next_due(&self) -> Option<Duration> {
        self.scheduler.next_due()
    }

    /// Does what is due by `now`. Work that takes no time is done in portions: ask [`VirtualEngine::next_due`] again.
    pub fn advance(&mut self, now: Duration) -> VirtualProgress {
        let progress = self.scheduler.advance(now);
        let changes = progress.batches.into_iter().flatten();
        VirtualProgress {
            events: changes.map(|change| event(change, self.block_size)).collect(),
            tokens: progress.tokens.iter().map(|generated| self.token(generated)).collect(),
        }
    }

    /// The counters, with the present state.
    pub fn stats(&self) -> EngineStats {
        self.scheduler.stats()
    }

    fn token(&self, generated: &Generated) -> VirtualToken {
        VirtualToken {
            request: VirtualId(generated.sequence.get()),
            token: self.words.id(generated.word),
            reused_tokens: generated.prefill.reused_tokens,
            is_last: generated.is_last,
        }
    }
}

fn event(change: CacheChange, block_size: BlockSize) -> KvEvent {
    match change {
        CacheChange::Cleared => KvEvent::Cleared,
        CacheChange::Removed(key) => KvEvent::Removed { hashes: vec![hash(key)], tier: Tier::Device },
        CacheChange::Stored(StoredRun { keys, parent, tokens, salt, images: _ }) => {
            KvEvent::Stored(StoredBlocks {
                hashes: keys.into_iter().map(hash).collect(),
                parent: parent.map(hash),
                tokens,
                block_size,
                tier: Tier::Device,
                salt: salt.map(|salt| salt.to_string()),
                adapter: None,
                extras: BlockExtras::default(),
            })
        }
    }
}

const fn hash(key: BlockKey) -> EngineHash {
    EngineHash::Int(key.get())
}

#[cfg(test)]
mod tests;
