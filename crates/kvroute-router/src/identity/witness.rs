//! What an attempt can tell of its worker's identity: a sample of its prompts is compared by ids, and its report tells a
//! length.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use kvroute_core::{SourceState, TokenId, Tokens};
use kvroute_openai::ClientRequest;

use super::Member;
use super::check::{Question, ask};
use super::evidence::{Evidence, Finding, PromptKind, fingerprint};
use super::reuse::Reuse;
use crate::counting::prompts::{Origin, TokenizedPrompts};
use crate::pool::Pool;
use crate::rank::Rank;

/// An attempt whose prompt the router counted, on one worker.
#[derive(Debug)]
pub(crate) struct Witness {
    member: Arc<Member>,
    rank: Arc<Rank>,
    kind: PromptKind,
    prompt: u64,
    input: Tokens,
    /// Whether the report's length can be compared: the ids are the router's own, for an engine of this kind.
    tells_length: bool,
}

/// What the worker said in the end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reported {
    /// Its count of the prompt.
    pub(crate) prompt: Option<u64>,
    /// F3; `None` where no index was asked.
    pub(crate) predicted: Option<Tokens>,
    /// F4; `None` where it was not told.
    pub(crate) reused: Option<Tokens>,
}

/// First requests of each kind on a worker that are all compared by ids.
const FIRST: u32 = 4;

/// Later one in so many is.
const SAMPLE: u32 = 256;

/// Longest body that an engine is asked about for a sample: its tokenizer has other things to do.
pub(super) const LONGEST: usize = 256 * 1024;

/// Blocks of reuse from which on it is worth a look.
const NOTICEABLE_BLOCKS: u64 = 2;

/// A request's field that makes the engine compute less than it was sent.
const TRUNCATION: &[u8] = b"\"truncate_prompt_tokens\"";

// === impl Witness ===

impl Witness {
    /// Of an attempt that was just placed; `None` where there is nothing to compare: the prompt was not counted here, is a
    /// list, or came as ids.
    pub(crate) fn of(
        pool: &Arc<Pool>,
        rank: &Arc<Rank>,
        request: &ClientRequest,
        prompts: &TokenizedPrompts,
    ) -> Option<Self> {
        let identity = pool.counter().identity();
        let (ids, kind) = (prompts.only()?, PromptKind::of(&request.prompt)?);
        let member = identity.member(&rank.name.worker)?;
        let is_own = *prompts.origin() == Origin::Router;
        let is_style = Some(rank.engine.chat_style()) == identity.style() || kind == PromptKind::Text;
        let witness = Self {
            rank: Arc::clone(rank),
            kind,
            prompt: fingerprint(ids),
            input: Tokens::from(ids.len()),
            tells_length: (is_own || !pool.counter().has_tokenizer())
                && is_style
                && !request.has_multimodal
                && memchr::memmem::find(request.body(), TRUNCATION).is_none(),
            member,
        };
        if is_own && is_style {
            witness.sample(pool, request, ids);
        }
        Some(witness)
    }

    /// The attempt is over.
    pub(crate) fn closed(self, pool: &Pool, reported: Reported) {
        let identity = pool.counter().identity();
        if let Some(engine) = reported.prompt.map(Tokens::new).filter(|_| self.tells_length) {
            let finding = Finding::of_lengths(self.input, engine);
            let evidence = Evidence { kind: self.kind, prompt: self.prompt, finding };
            identity.learn(pool, &self.member, evidence);
        }
        if let Some(reuse) = self.reuse(reported) {
            self.judge_reuse(pool, reuse);
        }
    }

    fn sample(&self, pool: &Arc<Pool>, request: &ClientRequest, ids: &[TokenId]) {
        let request_number = self.member.requests[self.kind as usize].fetch_add(1, Ordering::Relaxed);
        let is_tried_again = pool.counter().identity().distrusts(self.kind);
        let is_sample = is_tried_again || request_number < FIRST || request_number.is_multiple_of(SAMPLE);
        if is_sample && request.body().len() <= LONGEST {
            ask(pool, &self.member, || Question {
                kind: self.kind,
                prompt: request.prompt.clone(),
                ids: ids.to_vec(),
            });
        }
    }

    /// Only an exact source is wrong if it knows nothing of what its engine reuses.
    fn reuse(&self, reported: Reported) -> Option<Reuse> {
        let source = self.rank.source.as_ref()?;
        let (predicted, reused) = (reported.predicted?, reported.reused?);
        let noticeable = Tokens::new(u64::from(self.rank.block_size().get()) * NOTICEABLE_BLOCKS);
        (source.status().state == SourceState::Exact).then_some(Reuse {
            input: self.input,
            predicted,
            reused,
            noticeable,
        })
    }

    fn judge_reuse(&self, pool: &Pool, reuse: Reuse) {
        let (before, after, has_changed, is_serious) = {
            let mut known = self.member.known.lock();
            let before = known.state();
            let has_changed = known.reuse().add(reuse, pool.knowledge().now());
            let is_serious = known.reuse().is_serious();
            (before, known.state(), has_changed, is_serious)
        };
        self.member.metrics.set_state(after);
        self.member.tell(pool, before, after);
        if has_changed && is_serious {
            tracing::warn!(
                model = %pool.model(), worker = %self.member.worker, input_tokens = reuse.input.get(),
                reused_tokens = reuse.reused.get(),
                "the engine keeps reusing prompts that the index knows nothing of: router identity mismatch, not a great \
                 cache; compare pool.tokenizer, the chat template and cache salts with the engine's"
            );
        }
    }
}
