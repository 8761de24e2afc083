//! The third frame: `[timestamp, [events], rank]` in MessagePack, each event a map, as vLLM 0.26 and later write it.

use kvroute_core::BlockSize;
use rmp::encode::{self, ByteBuf};

use crate::cache::{BlockKey, CacheChange, StoredRun};

/// One engine has one rank here, and one group of caches.
const RANK: u64 = 0;
const CACHE_GROUP: u64 = 0;

/// Writes MessagePack to memory, which cannot fail.
#[derive(Debug, Default)]
struct Packer(ByteBuf);

/// Encodes the changes of one step, at least one.
pub(super) fn encode(changes: &[CacheChange], block_size: BlockSize, timestamp: f64) -> Vec<u8> {
    let mut packer = Packer::default();
    packer.array(3);
    packer.float(timestamp);
    packer.array(changes.len());
    for change in changes {
        match change {
            CacheChange::Cleared => packer.event("AllBlocksCleared", 0),
            CacheChange::Stored(run) => packer.stored(run, block_size),
            CacheChange::Removed(key) => packer.removed(*key),
        }
    }
    packer.uint(RANK);
    packer.0.into_vec()
}

// === impl Packer ===

impl Packer {
    fn stored(&mut self, run: &StoredRun, block_size: BlockSize) {
        self.event("BlockStored", 10);
        self.text("block_hashes");
        self.array(run.keys.len());
        run.keys.iter().for_each(|key| self.uint(key.get()));
        self.text("parent_block_hash");
        match run.parent {
            Some(parent) => self.uint(parent.get()),
            None => self.nil(),
        }
        self.text("token_ids");
        self.array(run.tokens.len());
        run.tokens.iter().for_each(|token| self.uint(u64::from(*token)));
        self.text("block_size");
        self.uint(u64::from(block_size.get()));
        self.text("lora_id");
        self.nil();
        self.medium();
        self.text("lora_name");
        self.nil();
        self.text("extra_keys");
        self.extra_keys(run);
        self.cache_group();
        self.text("kv_cache_spec_kind");
        self.text("full_attention");
    }

    fn removed(&mut self, key: BlockKey) {
        self.event("BlockRemoved", 3);
        self.text("block_hashes");
        self.array(1);
        self.uint(key.get());
        self.medium();
        self.cache_group();
    }

    /// One entry a block: what separates it from others with equal tokens.
    fn extra_keys(&mut self, run: &StoredRun) {
        self.array(run.keys.len());
        let mut salt = run.salt.as_deref();
        for _ in &run.keys {
            match salt.take() {
                Some(salt) => {
                    self.array(1);
                    self.text(salt);
                }
                None => self.nil(),
            }
        }
    }

    fn event(&mut self, kind: &str, fields: u32) {
        let Ok(_) = encode::write_map_len(&mut self.0, fields + 1);
        self.text("type");
        self.text(kind);
    }

    fn medium(&mut self) {
        self.text("medium");
        self.text("GPU");
    }

    fn cache_group(&mut self) {
        self.text("group_idx");
        self.uint(CACHE_GROUP);
    }

    fn array(&mut self, len: usize) {
        let Ok(_) = encode::write_array_len(&mut self.0, len as u32);
    }

    fn text(&mut self, text: &str) {
        let Ok(()) = encode::write_str(&mut self.0, text);
    }

    fn uint(&mut self, value: u64) {
        let Ok(_) = encode::write_uint(&mut self.0, value);
    }

    fn float(&mut self, value: f64) {
        let Ok(()) = encode::write_f64(&mut self.0, value);
    }

    fn nil(&mut self) {
        let Ok(()) = encode::write_nil(&mut self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::Arc;

    use flate2::read::GzDecoder;
    use serde_json::Value;

    use super::*;

    /// The payloads of recorded batches, each with its decoded form.
    fn recorded() -> Vec<(Vec<u8>, Value)> {
        let mut text = String::new();
        let compressed = include_bytes!("../../tests/fixtures/vllm-event-payloads.jsonl.gz");
        GzDecoder::new(&compressed[..]).read_to_string(&mut text).unwrap();
        text.lines()
            .map(|line| {
                let mut line: Value = serde_json::from_str(line).unwrap();
                let hex = line["payload_hex"].as_str().unwrap();
                let bytes = (0..hex.len()).step_by(2);
                let payload = bytes.map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
                (payload, line["decoded"].take())
            })
            .collect()
    }

    fn key(value: &Value) -> BlockKey {
        BlockKey::from_raw(value.as_u64().unwrap())
    }

    fn change(event: &Value) -> CacheChange {
        let keys = || event["block_hashes"].as_array().unwrap().iter().map(key);
        match event["type"].as_str().unwrap() {
            "AllBlocksCleared" => CacheChange::Cleared,
            "BlockRemoved" => CacheChange::Removed(keys().next().unwrap()),
            _ => CacheChange::Stored(StoredRun {
                keys: keys().collect(),
                parent: event["parent_block_hash"].as_u64().map(BlockKey::from_raw),
                tokens: serde_json::from_value(event["token_ids"].clone()).unwrap(),
                salt: event["extra_keys"][0][0].as_str().map(Arc::from),
            }),
        }
    }

    #[test]
    fn recorded_batches_are_encoded_byte_for_byte() {
        let batches = recorded();
        assert!(batches.len() > 20, "the recording is there");
        for (payload, decoded) in batches {
            let changes: Vec<_> = decoded[1].as_array().unwrap().iter().map(change).collect();
            let timestamp = f64::from_be_bytes(payload[2..10].try_into().unwrap());
            let encoded = encode(&changes, BlockSize::new(32).unwrap(), timestamp);
            assert_eq!(encoded, payload, "{decoded}");
        }
    }
}
