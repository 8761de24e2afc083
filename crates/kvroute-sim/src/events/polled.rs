//! TensorRT-LLM's events: a bounded JSON list that whoever asks empties.
//!
//! It has no event that says that all is gone: a cache that is emptied gives up its blocks by name.

use std::collections::{BTreeSet, VecDeque};

use kvroute_core::{BlockSize, TokenId};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::cache::{BlockKey, CacheChange, StoredRun};

/// Events that wait to be asked for; of more, the oldest are lost.
const REMEMBERED: usize = 65_536;

/// The list of one engine.
#[derive(Debug)]
pub(crate) struct PolledEvents {
    /// Tokens of the attention window, which is the whole context here.
    window: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    events: VecDeque<Value>,
    stored: BTreeSet<BlockKey>,
}

// === impl PolledEvents ===

impl PolledEvents {
    /// A list that says that the cache was created.
    pub(crate) fn new(window: u64) -> Self {
        let events = Self { window, state: Mutex::default() };
        let created = json!({ "type": "created", "num_blocks_per_cache_level": [0, 0] });
        events.state.lock().push(window, &created, false);
        events
    }

    /// Adds the changes of one step. Lost ones have their numbers.
    pub(crate) fn push(&self, changes: &[CacheChange], block_size: BlockSize, is_lost: bool) {
        let state = &mut *self.state.lock();
        for change in changes {
            let data = match change {
                CacheChange::Stored(run) => {
                    state.stored.extend(&run.keys);
                    stored(run, block_size)
                }
                CacheChange::Removed(key) => {
                    state.stored.remove(key);
                    removed([*key])
                }
                CacheChange::Cleared => removed(std::mem::take(&mut state.stored)),
            };
            state.push(self.window, &data, is_lost);
        }
    }

    /// Everything since the last time.
    pub(crate) fn drain(&self) -> Vec<Value> {
        self.state.lock().events.drain(..).collect()
    }
}

// === impl State ===

impl State {
    fn push(&mut self, window: u64, data: &Value, is_lost: bool) {
        let id = self.next;
        self.next += 1;
        if is_lost {
            return;
        }
        if self.events.len() == REMEMBERED {
            self.events.pop_front();
        }
        self.events.push_back(json!({ "event_id": id, "data": data, "window_size": window }));
    }
}

fn stored(run: &StoredRun, block_size: BlockSize) -> Value {
    let contents = run.tokens.chunks(block_size.get() as usize);
    let blocks: Vec<_> =
        run.keys.iter().zip(contents).map(|(key, tokens)| block(*key, tokens, run)).collect();
    json!({ "type": "stored", "parent_hash": run.parent.map(BlockKey::get), "blocks": blocks })
}

fn block(key: BlockKey, tokens: &[TokenId], run: &StoredRun) -> Value {
    let token = |id: &TokenId| json!({ "type": "unique_token", "token_id": id, "token_extra_id": 0 });
    let tokens: Vec<_> = tokens.iter().map(token).collect();
    let mut block = json!({
        "type": "stored_block", "block_hash": key.get(), "tokens": tokens, "cache_level": 0, "priority": 35,
    });
    if let Some(salt) = &run.salt {
        block["cache_salt"] = json!(salt.as_ref());
    }
    block
}

fn removed(keys: impl IntoIterator<Item = BlockKey>) -> Value {
    let hashes: Vec<_> = keys.into_iter().map(BlockKey::get).collect();
    json!({ "type": "removed", "block_hashes": hashes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(keys: &[u64], tokens: &[TokenId]) -> CacheChange {
        let keys = keys.iter().map(|key| BlockKey::from_raw(*key)).collect();
        CacheChange::Stored(StoredRun {
            keys,
            parent: None,
            tokens: tokens.to_vec(),
            salt: None,
            images: Vec::new(),
        })
    }

    #[test]
    fn the_list_is_numbered_and_emptied_by_whoever_asks() {
        let events = PolledEvents::new(100);
        let size = BlockSize::new(2).unwrap();
        events.push(&[run(&[7, 8], &[1, 2, 3, 4])], size, false);
        events.push(&[CacheChange::Removed(BlockKey::from_raw(8))], size, true);
        events.push(&[CacheChange::Cleared], size, false);
        let drained = events.drain();
        let told: Vec<_> = drained.iter().map(|event| (&event["event_id"], &event["data"]["type"])).collect();
        assert_eq!(
            told,
            [(&json!(0), &json!("created")), (&json!(1), &json!("stored")), (&json!(3), &json!("removed"))]
        );
        assert_eq!(drained[1]["data"]["blocks"][1]["tokens"][1]["token_id"], 4);
        assert_eq!(drained[2]["data"]["block_hashes"], json!([7]));
        assert!(events.drain().is_empty());
    }
}
