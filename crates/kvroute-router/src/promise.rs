//! What the index promised an attempt, kept until the engine's answer to it is understood.
//!
//! A report below the promise may mean a stale index or an engine that lies, and which of both often shows only a
//! moment later, when the event of an eviction arrives. So the promise outlives its attempt by a second.

use std::sync::Arc;
use std::time::Duration;

use kvroute_core::{AttemptId, Blocks, HashedPrompts, PromptBlocks, SequenceHash, Tokens};
use kvroute_funnel::{Delivery, PendingDelivery};
use kvroute_index::ReportedReuse;
use kvroute_metrics::AttemptMetrics;
use tokio::time::sleep;

use crate::memory::Memory;
use crate::pool::Pool;
use crate::rank::Rank;

/// How long after its end an attempt's loss waits for the event that explains it.
const EXPLAINED_WITHIN: Duration = Duration::from_secs(1);

/// How long after the report a loss that nothing explains counts against the source: later than the loss is given its
/// reason, so that a suspicion is not its own explanation.
const JUDGED_AFTER: Duration = Duration::from_secs(2);

/// What one attempt was promised, and since when.
#[derive(Clone, Debug)]
pub(crate) struct Promise {
    pub(crate) pool: Arc<Pool>,
    /// The rank that it was made for.
    pub(crate) rank: Arc<Rank>,
    pub(crate) attempt: AttemptId,
    /// The prompts; empty where no index was asked.
    pub(crate) hashed: Arc<HashedPrompts>,
    /// F3; `None` where no index was asked.
    pub(crate) predicted: Option<Tokens>,
    /// The same of each prompt.
    pub(crate) prefixes: Arc<[Tokens]>,
    /// Before the index was asked, in the pool's time.
    pub(crate) selected: Duration,
    /// Whether the engine was left to use its cache: else its answer says nothing about what is in there.
    pub(crate) tests_cache: bool,
}

// === impl Promise ===

impl Promise {
    /// The worker took the prompts: a rank that tells nothing is believed to cache them.
    pub(crate) fn taken(&self) {
        if let Some(memory) = self.memory() {
            memory.placed(self.pool.knowledge(), self.attempt, self.prompts());
        }
    }

    /// The answers fill so many blocks by now.
    pub(crate) fn grew(&self, output: Blocks) {
        if let Some(memory) = self.memory() {
            memory.grew(self.pool.knowledge(), self.attempt, output);
        }
    }

    /// The attempt is over, however it ended.
    pub(crate) fn ended(&self) {
        if let Some(memory) = self.memory() {
            memory.finished(self.pool.knowledge(), self.attempt);
        }
    }

    /// The engine said what it reused: its source is judged by it, and a memory is corrected.
    pub(crate) fn answered(&self, delivery: &Delivery) {
        if !self.tests_cache {
            return;
        }
        if let Some(memory) = self.memory() {
            let reuse = ReportedReuse { predicted: delivery.predicted, reused: delivery.reported };
            memory.reported(self.pool.knowledge(), self.attempt, reuse);
        }
        // An engine with speculative decoding gives up one more block each time: that is no empty cache.
        let is_kept = delivery.open <= Tokens::new(self.rank.block_size().get().into());
        match is_kept {
            true => self.judge(delivery.predicted, Tokens::ZERO),
            false => self.judge_later(*delivery),
        }
    }

    /// A loss that a removal explains speaks for the engine, not against it, so its events are waited for.
    fn judge_later(&self, delivery: Delivery) {
        let (streams, promise) = (self.pool.streams().clone(), self.clone());
        streams.tasks.spawn(async move {
            let _stopped = streams.cut.run_until_cancelled(sleep(JUDGED_AFTER)).await;
            if !promise.has_left() {
                promise.judge(delivery.predicted, delivery.open);
            }
        });
    }

    fn judge(&self, predicted: Tokens, lost: Tokens) {
        if let Some(source) = &self.rank.source {
            let predicted = self.rank.block_size().complete_blocks(predicted);
            let now = self.pool.knowledge().now();
            source.learn(now, |trust| trust.delivered(self.selected, predicted, lost));
        }
    }

    /// The worker answered to the end. If it must have computed a whole new block, its events must tell; an answer
    /// that shows no sign of this prompt (`is_computed`) proves nothing.
    pub(crate) fn completed(&self, reused: Option<Tokens>, is_computed: bool) {
        self.grew(Blocks::ZERO); // Whole answers show no output, and some engines report nothing.
        if is_computed
            && self.must_have_stored(reused)
            && let Some(source) = &self.rank.source
        {
            let now = self.pool.knowledge().now();
            source.learn(now, |trust| trust.must_have_stored(self.selected, now));
        }
    }

    /// Whether the engine computed a whole block that it did not hold. Where it does not say what it reused, only an
    /// exact index knows.
    fn must_have_stored(&self, reused: Option<Tokens>) -> bool {
        let ([prompt], Some(source)) = (self.prompts(), &self.rank.source) else { return false };
        if !self.tests_cache || (reused.is_none() && source.was_blemished_since(self.selected)) {
            return false;
        }
        let known = self.predicted.unwrap_or_default().max(reused.unwrap_or_default());
        prompt.block_size().reusable_tokens(prompt.tokens()) > known
    }

    /// Gives a loss its reason, once it can be known.
    pub(crate) fn explain(self, pending: PendingDelivery<AttemptMetrics>) {
        let closed = self.pool.knowledge().now();
        let streams = self.pool.streams().clone();
        streams.tasks.spawn(async move {
            let _stopped = streams.cut.run_until_cancelled(sleep(EXPLAINED_WITHIN)).await;
            if self.is_stale() {
                return pending.stale_index();
            }
            self.tell_unexplained(pending.tokens(), closed);
            pending.unexplained();
        });
    }

    /// The totals have no worker as a label: this line is what tells where to look.
    fn tell_unexplained(&self, tokens: Tokens, closed: Duration) {
        let rank = &self.rank.name;
        let now = self.pool.knowledge().now();
        let millis_since =
            |time: Duration| u64::try_from(now.saturating_sub(time).as_millis()).unwrap_or(u64::MAX);
        tracing::debug!(
            worker = %rank.worker, dp_rank = %rank.dp_rank, tokens = tokens.get(),
            predicted = self.predicted.unwrap_or_default().get(),
            since_selection_ms = millis_since(self.selected), since_close_ms = millis_since(closed),
            "reuse was lost without a known reason"
        );
    }

    /// Whether a promised block left, or the source was in doubt, since the promise was made.
    fn is_stale(&self) -> bool {
        let is_blemished =
            self.rank.source.as_ref().is_none_or(|source| source.was_blemished_since(self.selected));
        is_blemished || self.has_left()
    }

    /// Whether a promised block left since the promise was made.
    fn has_left(&self) -> bool {
        self.pool.knowledge().lost_any(self.rank.slot, &self.promised(), self.selected)
    }

    fn promised(&self) -> Vec<SequenceHash> {
        let size = self.rank.block_size();
        let promised = |(prompt, prefix): (&PromptBlocks, &Tokens)| {
            let blocks = size.complete_blocks(*prefix).get() as usize;
            prompt.hashes().iter().take(blocks).copied().collect::<Vec<_>>()
        };
        self.prompts().iter().zip(&*self.prefixes).flat_map(promised).collect()
    }

    fn prompts(&self) -> &[PromptBlocks] {
        self.hashed.of_size(self.rank.block_size())
    }

    fn memory(&self) -> Option<&Memory> {
        self.rank.source.as_ref().and_then(|source| source.memory())
    }
}
