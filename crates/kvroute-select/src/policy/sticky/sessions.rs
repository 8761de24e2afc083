//! Which rank each session had last: for a time, and for a number of sessions.
//!
//! Names of sessions come from clients, so their number is bounded; the session that was silent for longest gives way.
//! What is over is forgotten two by two, with each placement: memory follows the traffic down, and the first request
//! after a quiet night does not pay for all sessions of the day. Trees and no hash tables: those would stop now and then
//! to move all sessions at once, in the middle of a decision, and keep their room when the sessions are gone.

use std::collections::BTreeMap;
use std::time::Duration;

use kvroute_core::RankKey;

use crate::AffinityKey;

/// Sessions that are over and are forgotten with one placement. More than one, which is what it may add.
const FORGOTTEN_AT_ONCE: usize = 2;

/// The ranks of sessions.
#[derive(Debug)]
pub(super) struct Sessions {
    ttl: Duration,
    most: usize,
    known: BTreeMap<AffinityKey, Session>,
    /// Sessions by their last use, the one that is silent for longest first.
    by_use: BTreeMap<u64, AffinityKey>,
    uses: u64,
}

#[derive(Clone, Copy, Debug)]
struct Session {
    rank: RankKey,
    used_at: Duration,
    /// Number of its last use, which is its place in the order.
    use_number: u64,
}

// === impl Sessions ===

impl Sessions {
    /// Keeps at most so many sessions, each until it was silent for `ttl`.
    pub(super) fn new(ttl: Duration, most: usize) -> Self {
        Self { ttl, most, known: BTreeMap::new(), by_use: BTreeMap::new(), uses: 0 }
    }

    /// The rank of a session that is not over.
    pub(super) fn rank_of(&self, key: AffinityKey, now: Duration) -> Option<RankKey> {
        let session = self.known.get(&key)?;
        (!self.is_over(session, now)).then_some(session.rank)
    }

    /// The session had its last turn on that rank, now.
    pub(super) fn remember(&mut self, key: AffinityKey, rank: RankKey, now: Duration) {
        self.uses += 1;
        let session = Session { rank, used_at: now, use_number: self.uses };
        if let Some(before) = self.known.insert(key, session) {
            self.by_use.remove(&before.use_number);
        }
        self.by_use.insert(self.uses, key);
        self.forget_some(now);
    }

    fn forget_some(&mut self, now: Duration) {
        for _ in 0..FORGOTTEN_AT_ONCE {
            let Some((&number, key)) = self.by_use.first_key_value() else { return };
            let is_over = self.known.get(key).is_none_or(|session| self.is_over(session, now));
            if !is_over && self.known.len() <= self.most {
                return;
            }
            self.known.remove(key);
            self.by_use.remove(&number);
        }
    }

    fn is_over(&self, session: &Session, now: Duration) -> bool {
        now.saturating_sub(session.used_at) >= self.ttl
    }
}

#[cfg(test)]
mod tests;
