//! When the engine computes what: one prompt at a time, and one token a tick for every running sequence; or, with
//! [`SimConfig::step_tokens`], both in common steps.
//!
//! A state machine over a clock that is passed in. What is due is done in the order of its due times, not of the
//! wake-ups, so that a late timer delays an answer but never changes the engine's speed. A rate of zero takes no
//! time: then each call to [`Scheduler::advance`] makes a bounded number of steps, so that new requests and
//! cancellations get in between.

mod rate;
mod sequence;
mod step;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::cache::{CacheChange, Chain, KvCache};
use crate::config::{Flavour, SimConfig};
use crate::stats::EngineStats;
use crate::words::{WordIndex, Words};

use rate::{DecodeSpeed, Rate};
pub(crate) use sequence::{PrefillReport, Prompt, Sequence, SequenceId};

/// Steps in one call when they take no time. More of them go out with fewer writes; fewer of them notice a
/// cancellation earlier.
const STEPS_WITHOUT_DELAY: usize = 16;

/// The engine's work and cache.
#[derive(Debug)]
pub(crate) struct Scheduler {
    cache: KvCache,
    /// Whether blocks of an answer are cached and told only when it has ended.
    stores_at_end: bool,
    words: Arc<Words>,
    prefill_rate: Rate,
    decode_speed: DecodeSpeed,
    /// Prompt tokens of a common step; 0 where prompts are computed apart.
    step_tokens: usize,
    waiting: VecDeque<Sequence>,
    /// One where prompts are computed apart; in a common step as many as it has room for.
    prefills: VecDeque<Prefill>,
    /// In the order of admission: the last one makes room when blocks run out.
    running: Vec<Sequence>,
    /// What ended and keeps its room until another engine has taken its KV.
    kept: HashMap<SequenceId, Chain>,
    /// Whether nothing that waits has room until something is given back.
    is_stuck: bool,
    next_decode: Duration,
    /// When the common step under way ends.
    step_end: Option<Duration>,
    /// Due time of what was done last.
    clock: Duration,
    stats: EngineStats,
}

/// A prompt being computed.
#[derive(Debug)]
struct Prefill {
    sequence: Sequence,
    reused: usize,
    /// Tokens whose KV came from another engine, behind those reused.
    transferred: usize,
    /// Blocks that it has cached already.
    created: usize,
    /// Tokens that no step has taken yet.
    missing: usize,
    /// Where prompts are computed apart.
    done_at: Duration,
}

/// What one call to [`Scheduler::advance`] produced.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// The cache changes of each step that had any.
    pub(crate) batches: Vec<Vec<CacheChange>>,
    /// Generated tokens, in order.
    pub(crate) tokens: Vec<Generated>,
}

/// One generated token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Generated {
    /// Whose it is.
    pub(crate) sequence: SequenceId,
    /// Which one.
    pub(crate) word: WordIndex,
    /// How the sequence's prompt was computed.
    pub(crate) prefill: PrefillReport,
    /// Whether it is the last one.
    pub(crate) is_last: bool,
}

// === impl Scheduler ===

impl Scheduler {
    pub(crate) fn new(config: &SimConfig, words: Arc<Words>) -> Self {
        Self {
            cache: KvCache::new(config),
            stores_at_end: matches!(config.flavour, Flavour::Sglang | Flavour::TrtLlm),
            words,
            prefill_rate: Rate::new(config.prefill_tps),
            decode_speed: DecodeSpeed::new(config.decode_tps, config.kv_read_tps),
            step_tokens: config.step_tokens as usize,
            waiting: VecDeque::new(),
            prefills: VecDeque::new(),
            running: Vec::new(),
            kept: HashMap::new(),
            is_stuck: false,
            next_decode: Duration::ZERO,
            step_end: None,
            clock: Duration::ZERO,
            stats: EngineStats::default(),
        }
    }

    /// Counts one accepted request and queues its sequences, each of which fits the cache alone.
    pub(crate) fn submit(&mut self, sequences: impl IntoIterator<Item = Sequence>) {
        self.stats.requests += 1;
        self.is_stuck = false;
        self.waiting.extend(sequences);
    }

    /// Stops sequences at once; their complete blocks stay cached. Of those that have ended, room that was kept is given
    /// back.
    pub(crate) fn cancel(&mut self, ids: &[SequenceId]) {
        self.give_back(ids);
        self.is_stuck = false;
        let is_cancelled = |sequence: &Sequence| ids.contains(&sequence.id);
        self.waiting.retain(|sequence| !is_cancelled(sequence));
        self.prefills.retain_mut(|prefill| {
            let is_cancelled = is_cancelled(&prefill.sequence);
            if is_cancelled {
                self.cache.release(&mut prefill.sequence.chain);
            }
            !is_cancelled
        });
        for mut sequence in self.running.extract_if(.., |sequence| is_cancelled(sequence)) {
            store_at_end(&mut self.cache, self.stores_at_end, &mut sequence.chain);
            self.cache.release(&mut sequence.chain);
        }
    }

    /// Gives back the room that was kept of sequences. Returns how many there were.
    pub(crate) fn give_back(&mut self, ids: &[SequenceId]) -> usize {
        let chains: Vec<_> = ids.iter().filter_map(|id| self.kept.remove(id)).collect();
        let count = chains.len();
        for mut chain in chains {
            self.cache.release(&mut chain);
        }
        self.is_stuck &= count == 0;
        count
    }

    /// Whether blocks of an answer are cached and told only when it has ended.
    pub(crate) const fn stores_at_end(&self) -> bool {
        self.stores_at_end
    }

    /// Counts a lease that ran out.
    pub(crate) const fn count_expired_lease(&mut self) {
        self.stats.expired_leases += 1;
    }

    /// Tokens in each slot, and whether it is busy; nothing where there are no slots.
    pub(crate) fn slots(&self) -> Vec<(usize, bool)> {
        self.cache.slots()
    }

    /// Empties the cache. Refused (false) while sequences hold blocks, unless those may be preempted.
    pub(crate) fn reset_cache(&mut self, preempt_running: bool) -> bool {
        if preempt_running {
            self.preempt_all();
        }
        self.cache.clear()
    }

    /// Empties the cache without announcing it; running sequences are preempted.
    pub(crate) fn wipe_cache(&mut self) {
        self.preempt_all();
        let is_wiped = self.cache.wipe();
        debug_assert!(is_wiped, "nothing holds a block");
    }

    fn preempt_all(&mut self) {
        while self.preempt_newest().is_some() {}
        let kept: Vec<_> = self.kept.keys().copied().collect();
        self.give_back(&kept);
        self.is_stuck = false;
    }

    /// What no step has announced yet.
    pub(crate) fn take_changes(&mut self) -> Vec<CacheChange> {
        self.cache.take_changes()
    }

    /// Does everything that is due by now.
    pub(crate) fn advance(&mut self, now: Duration) -> Progress {
        let mut progress = Progress::default();
        match self.step_tokens {
            0 => self.advance_apart(now, &mut progress),
            _ => self.advance_steps(now, &mut progress),
        }
        self.clock = now;
        progress
    }

    /// When [`Scheduler::advance`] has something to do next; `None` when idle until the next submission.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        if self.step_tokens > 0 {
            return self.next_step();
        }
        let decode_at = (!self.running.is_empty()).then_some(self.next_decode);
        let prefill_at = self.prefills.front().map(|prefill| prefill.done_at);
        let is_idle = self.prefills.is_empty() && self.running.is_empty();
        let admit_at = (is_idle && !self.is_stuck && !self.waiting.is_empty()).then_some(self.clock);
        [decode_at, prefill_at, admit_at].into_iter().flatten().min()
    }

    fn advance_apart(&mut self, now: Duration, progress: &mut Progress) {
        let mut steps_left = STEPS_WITHOUT_DELAY;
        loop {
            self.start_prefill(now);
            let prefill_at = self.prefills.front().map(|prefill| prefill.done_at);
            let decode_at = (!self.running.is_empty()).then_some(self.next_decode);
            match (prefill_at, decode_at) {
                (Some(at), decode_at) if at <= now && decode_at.is_none_or(|decode_at| at <= decode_at) => {
                    self.clock = at;
                    self.finish_prefill(progress);
                }
                (_, Some(at)) if at <= now => {
                    self.clock = at;
                    self.decode(progress);
                    self.next_decode = self.clock + self.decode_speed.step(&self.running);
                    steps_left -= usize::from(self.next_decode == at);
                    if steps_left == 0 {
                        break;
                    }
                }
                _ => break,
            }
        }
    }

    /// The counters, with the present state of the queue and the cache.
    pub(crate) fn stats(&self) -> EngineStats {
        EngineStats {
            running: (self.running.len() + self.prefills.len()) as u64,
            waiting: self.waiting.len() as u64,
            kv_blocks_used: self.cache.used_blocks() as u64,
            kv_blocks_held: self.cache.held_blocks() as u64,
            kv_contents_cached: self.cache.contents() as u64,
            ..self.stats
        }
    }

    fn start_prefill(&mut self, now: Duration) {
        if !self.prefills.is_empty() {
            return;
        }
        let (clock, rate) = (self.clock, self.prefill_rate);
        let Some(prefill) = self.admit_next() else { return };
        let started_at = prefill.sequence.arrived.max(clock).min(now);
        prefill.done_at = started_at + rate.time_for(prefill.missing);
    }

    /// Takes the first of those that wait among those being computed, if there is room for it.
    fn admit_next(&mut self) -> Option<&mut Prefill> {
        let mut sequence = self.waiting.pop_front()?;
        let Some(reused) = self.cache.admit(&mut sequence.chain) else {
            self.waiting.push_front(sequence);
            self.is_stuck = self.running.is_empty() && self.prefills.is_empty();
            return None;
        };
        let arriving = std::mem::take(&mut sequence.arriving);
        let transferred = arriving.min(sequence.chain.len()).saturating_sub(reused);
        let missing = sequence.chain.len() - reused - transferred;
        let done_at = Duration::ZERO;
        self.prefills.push_back(Prefill { sequence, reused, transferred, created: 0, missing, done_at });
        self.prefills.back_mut()
    }

    fn finish_prefill(&mut self, progress: &mut Progress) {
        let Some(prefill) = self.prefills.pop_front() else { return };
        let mut sequence = prefill.sequence;
        let tokens = sequence.chain.len();
        let created = prefill.created + self.cache.store(&mut sequence.chain, tokens);
        let report = PrefillReport {
            reused_tokens: prefill.reused as u64,
            transferred_tokens: prefill.transferred as u64,
            created_blocks: created as u64,
        };
        if sequence.note_prefill(report) && sequence.counts_prompt {
            self.count_prompt(tokens as u64, report);
        }
        self.running.push(sequence);
        self.generate(self.running.len() - 1, progress);
        if self.running.len() == 1 {
            self.next_decode = self.clock + self.decode_speed.step(&self.running);
        }
        self.end_step(progress);
    }

    const fn count_prompt(&mut self, tokens: u64, report: PrefillReport) {
        self.stats.prompt_tokens += tokens;
        self.stats.reused_tokens += report.reused_tokens;
        self.stats.transferred_tokens += report.transferred_tokens;
        self.stats.computed_tokens += tokens - report.reused_tokens - report.transferred_tokens;
    }

    fn decode(&mut self, progress: &mut Progress) {
        let mut index = 0;
        while index < self.running.len() && self.make_room_for(index) {
            if !self.stores_at_end {
                let chain = &mut self.running[index].chain;
                self.cache.store(chain, chain.len());
            }
            self.generate(index, progress);
            index += 1;
        }
        self.end_step(progress);
    }

    /// Gives a running sequence a block for its newest token, at the price of the newest sequences; false when it
    /// had to go itself.
    fn make_room_for(&mut self, index: usize) -> bool {
        let id = self.running[index].id;
        while !self.cache.extend(&mut self.running[index].chain) {
            if self.preempt_newest() == Some(id) {
                return false;
            }
        }
        true
    }

    /// Puts the sequence that was admitted last back in front of the queue, to be computed again.
    fn preempt_newest(&mut self) -> Option<SequenceId> {
        let prefill = self.prefills.pop_back().map(|prefill| prefill.sequence);
        let newest = prefill.or_else(|| self.running.pop());
        let mut sequence = newest?;
        let id = sequence.id;
        self.cache.release(&mut sequence.chain);
        self.stats.preemptions += 1;
        self.waiting.push_front(sequence);
        Some(id)
    }

    fn generate(&mut self, index: usize, progress: &mut Progress) {
        let sequence = &mut self.running[index];
        let word = self.words.draw(&mut sequence.words);
        sequence.append(self.words.id(word));
        self.stats.generated_tokens += 1;
        progress.tokens.push(Generated {
            sequence: sequence.id,
            word,
            prefill: sequence.prefill,
            is_last: sequence.is_finished(),
        });
    }

    fn end_step(&mut self, progress: &mut Progress) {
        for mut sequence in self.running.extract_if(.., |sequence| sequence.is_finished()) {
            store_at_end(&mut self.cache, self.stores_at_end, &mut sequence.chain);
            match sequence.is_kept {
                true => drop(self.kept.insert(sequence.id, sequence.chain)),
                false => self.cache.release(&mut sequence.chain),
            }
            self.stats.finished_sequences += 1;
        }
        let changes = self.cache.take_changes();
        if !changes.is_empty() {
            progress.batches.push(changes);
        }
    }
}

/// Caches an answer's blocks where that is done at its end. The newest token is not computed.
fn store_at_end(cache: &mut KvCache, stores_at_end: bool, chain: &mut Chain) {
    if stores_at_end {
        cache.store(chain, chain.len().saturating_sub(1));
    }
}
