//! The newest decisions of a pool, in a ring.
//!
//! It is bounded twice: by number, and by the number of candidates that a record keeps. At more decisions a second than
//! anybody reads, only the first ones of each second are recorded; the rest costs nothing.

use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kvroute_core::AttemptId;
use parking_lot::Mutex;

use super::{DecisionRecord, ReportRecord};
use crate::config::DecisionsConfig;

/// Decisions that are remembered.
const CAPACITY: usize = 4096;

/// Decisions that are recorded in one second.
const A_SECOND: u64 = 1000;

/// Keeps the newest decisions of a pool for those who ask why.
#[derive(Debug)]
pub(crate) struct DecisionLog {
    /// Decisions whose hash is below this are recorded; `None` records all.
    sampled_below: Option<u64>,
    candidates: usize,
    /// Tells this log's ids from those of other pools and of other processes.
    origin: u32,
    /// The second at hand in the upper half, what was recorded in it in the lower one.
    rate: AtomicU64,
    hasher: RandomState,
    ring: Mutex<Ring>,
}

/// Names a decision that was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DecisionId {
    origin: u32,
    number: u64,
}

/// Records by the order of their coming; numbers have no gaps.
#[derive(Debug, Default)]
struct Ring {
    first: u64,
    entries: VecDeque<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    /// Hash of the request's id: a search looks at it instead of the text.
    request: u64,
    record: Arc<DecisionRecord>,
    report: Option<ReportRecord>,
}

/// The newest decisions of several pools, newest first.
pub(crate) fn latest<'a>(logs: impl Iterator<Item = &'a DecisionLog>, limit: usize) -> Vec<DecisionRecord> {
    let mut records: Vec<_> = logs.flat_map(|log| log.latest(limit)).collect();
    records.sort_by_key(|record| std::cmp::Reverse(record.at));
    records.truncate(limit);
    records
}

/// The decision of that id, or the newest one for the request of that id.
pub(crate) fn find<'a>(logs: impl Iterator<Item = &'a DecisionLog>, id: &str) -> Option<DecisionRecord> {
    logs.filter_map(|log| log.find(id)).max_by_key(|record| record.at)
}

// === impl DecisionLog ===

impl DecisionLog {
    /// An empty log.
    pub(crate) fn new(config: &DecisionsConfig) -> Self {
        Self {
            sampled_below: sampled_below(config.sample),
            candidates: config.candidates,
            origin: rand::random(),
            rate: AtomicU64::new(0),
            hasher: RandomState::new(),
            ring: Mutex::default(),
        }
    }

    /// Candidates that each record keeps.
    pub(crate) const fn candidates(&self) -> usize {
        self.candidates
    }

    /// Whether this decision is to be recorded; it counts as recorded then. The same attempt gets the same answer with
    /// every seed, and no random number of a selection is used up for it.
    pub(crate) fn wants(&self, attempt: AttemptId, now: Duration) -> bool {
        self.sampled_below.is_none_or(|below| scattered(attempt.get()) < below) && self.has_budget(now)
    }

    /// Keeps a decision, and gives it its id.
    pub(crate) fn put(&self, mut record: DecisionRecord, request_id: &str) -> DecisionId {
        record.request_id = Some(request_id.to_owned());
        let entry =
            Entry { request: self.hasher.hash_one(request_id), record: Arc::new(record), report: None };
        let told = Arc::clone(&entry.record);
        let (number, forgotten) = self.ring.lock().push(entry);
        drop(forgotten); // Not under the lock.
        let id = self.id_of(number);
        tracing::debug!(
            %id, request_id, model = %told.model, policy = told.policy, reason = told.reason,
            worker = %told.worker_id, dp_rank = %told.dp_rank, input_tokens = told.input_tokens,
            best_eligible_cached_tokens = told.best_eligible_cached_tokens,
            selected_cached_tokens = told.selected_cached_tokens, "decided"
        );
        id
    }

    /// Adds to a decision what came of it, if it is still remembered.
    pub(crate) fn close(&self, id: DecisionId, report: ReportRecord) {
        if let Some(entry) = self.ring.lock().entry_mut(id.number) {
            entry.report = Some(report);
        }
    }

    /// The newest decisions, newest first.
    pub(crate) fn latest(&self, limit: usize) -> Vec<DecisionRecord> {
        let (next, entries) = {
            let ring = self.ring.lock();
            let newest = ring.entries.iter().rev().take(limit).cloned();
            (ring.first + ring.entries.len() as u64, newest.collect::<Vec<_>>())
        };
        (0..next).rev().zip(entries).map(|(number, entry)| self.shown(number, &entry)).collect()
    }

    /// The decision of that id, or the newest one for the request of that id.
    pub(crate) fn find(&self, id_or_request_id: &str) -> Option<DecisionRecord> {
        let by_id = self.number_of(id_or_request_id).and_then(|number| self.ring.lock().get(number));
        let (number, entry) = by_id.or_else(|| {
            let request = self.hasher.hash_one(id_or_request_id);
            let ring = self.ring.lock();
            ring.newest(|entry| {
                entry.request == request && entry.record.request_id.as_deref() == Some(id_or_request_id)
            })
        })?;
        Some(self.shown(number, &entry))
    }

    fn shown(&self, number: u64, entry: &Entry) -> DecisionRecord {
        let mut record = DecisionRecord::clone(&entry.record);
        record.id = Some(self.id_of(number).to_string());
        record.report = entry.report;
        record
    }

    const fn id_of(&self, number: u64) -> DecisionId {
        DecisionId { origin: self.origin, number }
    }

    fn number_of(&self, id: &str) -> Option<u64> {
        let number = id.rsplit_once('-')?.1.parse().ok()?;
        (self.id_of(number).to_string() == id).then_some(number)
    }

    /// Takes one from what may be recorded in this second.
    fn has_budget(&self, now: Duration) -> bool {
        let second = now.as_secs() << 32;
        let take = |rate: u64| match rate & !0xFFFF_FFFF == second {
            false => Some(second | 1),
            true if rate & 0xFFFF_FFFF < A_SECOND => Some(rate + 1),
            true => None,
        };
        self.rate.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

/// The share as a bound of uniform 64-bit hashes. What is no share records all: configurations are checked elsewhere.
fn sampled_below(share: f64) -> Option<u64> {
    (share < 1.0).then(|| (share.max(0.0) * 2f64.powi(64)) as u64)
}

/// Mixes a count into bits that look random (the finaliser of SplitMix64).
const fn scattered(count: u64) -> u64 {
    let mixed = count.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

// === impl DecisionId ===

impl fmt::Display for DecisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "d-{:08x}-{}", self.origin, self.number)
    }
}

// === impl Ring ===

impl Ring {
    /// Appends an entry and gives its number, and what had to go for it.
    fn push(&mut self, entry: Entry) -> (u64, Option<Entry>) {
        let number = self.first + self.entries.len() as u64;
        let forgotten = if self.entries.len() < CAPACITY { None } else { self.entries.pop_front() };
        self.first += u64::from(forgotten.is_some());
        self.entries.push_back(entry);
        (number, forgotten)
    }

    fn entry_mut(&mut self, number: u64) -> Option<&mut Entry> {
        self.entries.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    fn get(&self, number: u64) -> Option<(u64, Entry)> {
        let entry = self.entries.get(usize::try_from(number.checked_sub(self.first)?).ok()?)?;
        Some((number, entry.clone()))
    }

    fn newest(&self, is_meant: impl Fn(&Entry) -> bool) -> Option<(u64, Entry)> {
        let position = self.entries.iter().rposition(is_meant)?;
        Some((self.first + position as u64, self.entries[position].clone()))
    }
}

#[cfg(test)]
mod tests;
