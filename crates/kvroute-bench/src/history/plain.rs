//! A history of standard parts, as one is described in public: sets that are found by a hash's lowest bits, each behind a
//! lock that many may read under, and one queue of all hashes in the order in which they came, behind another lock.
//!
//! A prompt that is known as a whole takes no turn at the queue. Otherwise each hash that its set did not have goes to the
//! queue's end, and the oldest one leaves queue and set where the queue is full.

use std::collections::VecDeque;

use kvroute_core::SequenceHash;
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashSet;

const SETS: usize = 64;

/// 64 sets and a queue.
#[derive(Debug)]
pub(crate) struct PlainHistory {
    sets: [RwLock<FxHashSet<u64>>; SETS],
    order: Mutex<VecDeque<u64>>,
    capacity: usize,
}

// === impl PlainHistory ===

impl PlainHistory {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { sets: std::array::from_fn(|_| RwLock::default()), order: Mutex::default(), capacity }
    }

    fn set_of(&self, hash: u64) -> &RwLock<FxHashSet<u64>> {
        &self.sets[hash as usize % SETS]
    }

    fn has(&self, hash: SequenceHash) -> bool {
        self.set_of(hash.get()).read().contains(&hash.get())
    }

    pub(crate) fn known_prefix(&self, prompt: &[SequenceHash]) -> usize {
        prompt.iter().position(|hash| !self.has(*hash)).unwrap_or(prompt.len())
    }

    pub(crate) fn teach(&self, prompt: &[SequenceHash]) {
        if self.known_prefix(prompt) == prompt.len() {
            return;
        }
        let mut order = self.order.lock();
        for hash in prompt.iter().map(|hash| hash.get()) {
            let is_new = self.set_of(hash).write().insert(hash);
            if is_new {
                self.make_room(&mut order);
                order.push_back(hash);
            }
        }
    }

    fn make_room(&self, order: &mut VecDeque<u64>) {
        if order.len() < self.capacity {
            return;
        }
        if let Some(oldest) = order.pop_front() {
            self.set_of(oldest).write().remove(&oldest);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.order.lock().len()
    }
}
