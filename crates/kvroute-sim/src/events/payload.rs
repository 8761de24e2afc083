//! The third frame: `[timestamp, [events], rank]` in MessagePack, each event a map, as vLLM 0.26 and later and SGLang 0.5
//! write it.

use kvroute_core::BlockSize;
use rmp::encode::{self, ByteBuf};

use crate::cache::{BlockKey, CacheChange, ImageInBlock, StoredRun};

/// Whose fields an event has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// Hashes are unsigned, removals have one each, and what separates a block from others is listed for each.
    Vllm,
    /// Hashes are signed, a removal has many, and a salt is told of the whole event.
    Sglang,
}

/// There is one group of caches here.
const CACHE_GROUP: u64 = 0;

/// Writes MessagePack to memory, which cannot fail.
#[derive(Debug)]
struct Packer {
    style: Style,
    buffer: ByteBuf,
}

/// Encodes the changes of one step, at least one.
pub(super) fn encode(
    style: Style,
    changes: &[CacheChange],
    block_size: BlockSize,
    rank: u32,
    timestamp: f64,
) -> Vec<u8> {
    let mut packer = Packer { style, buffer: ByteBuf::new() };
    let events = events(style, changes);
    packer.array(3);
    packer.float(timestamp);
    packer.array(events.len());
    for event in events {
        match event {
            Event::Cleared => packer.event("AllBlocksCleared", 0),
            Event::Stored(run) => packer.stored(run, block_size),
            Event::Removed(keys) => packer.removed(&keys),
        }
    }
    packer.uint(u64::from(rank));
    packer.buffer.into_vec()
}

/// One event.
#[derive(Debug)]
enum Event<'a> {
    Cleared,
    Stored(&'a StoredRun),
    Removed(Vec<BlockKey>),
}

/// Removals that follow each other are one event where one may have many blocks.
fn events(style: Style, changes: &[CacheChange]) -> Vec<Event<'_>> {
    let mut events = Vec::with_capacity(changes.len());
    for change in changes {
        match (change, events.last_mut()) {
            (CacheChange::Cleared, _) => events.push(Event::Cleared),
            (CacheChange::Stored(run), _) => events.push(Event::Stored(run)),
            (CacheChange::Removed(key), Some(Event::Removed(keys))) if style == Style::Sglang => {
                keys.push(*key);
            }
            (CacheChange::Removed(key), _) => events.push(Event::Removed(vec![*key])),
        }
    }
    events
}

// === impl Packer ===

impl Packer {
    fn stored(&mut self, run: &StoredRun, block_size: BlockSize) {
        let is_salted = self.style == Style::Sglang && run.salt.is_some();
        let fields = if self.style == Style::Vllm { 10 } else { 6 + u32::from(is_salted) };
        self.event("BlockStored", fields);
        self.hashes(&run.keys);
        self.text("parent_block_hash");
        match run.parent {
            Some(parent) => self.hash(parent),
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
        match (self.style, run.salt.as_deref()) {
            (Style::Vllm, _) => self.rest_of_stored(run),
            (Style::Sglang, Some(salt)) => {
                self.text("cache_salt");
                self.text(salt);
            }
            (Style::Sglang, None) => {}
        }
    }

    /// What vLLM tells beside what both tell.
    fn rest_of_stored(&mut self, run: &StoredRun) {
        self.text("lora_name");
        self.nil();
        self.text("extra_keys");
        self.extra_keys(run);
        self.cache_group();
        self.text("kv_cache_spec_kind");
        self.text("full_attention");
    }

    fn removed(&mut self, keys: &[BlockKey]) {
        let is_vllm = self.style == Style::Vllm;
        self.event("BlockRemoved", if is_vllm { 3 } else { 2 });
        self.hashes(keys);
        self.medium();
        if is_vllm {
            self.cache_group();
        }
    }

    fn hashes(&mut self, keys: &[BlockKey]) {
        self.text("block_hashes");
        self.array(keys.len());
        keys.iter().for_each(|key| self.hash(*key));
    }

    fn hash(&mut self, key: BlockKey) {
        match self.style {
            Style::Vllm => self.uint(key.get()),
            Style::Sglang => {
                let Ok(_) = encode::write_sint(&mut self.buffer, key.get().cast_signed());
            }
        }
    }

    /// One entry a block: what separates it from others with equal tokens.
    fn extra_keys(&mut self, run: &StoredRun) {
        self.array(run.keys.len());
        let mut salt = run.salt.as_deref();
        for block in 0..run.keys.len() {
            let salt = salt.take();
            let images = || run.images.iter().filter(|image| image.block == block);
            match images().count() + usize::from(salt.is_some()) {
                0 => self.nil(),
                keys => self.array(keys),
            }
            images().for_each(|image| self.image(image));
            salt.iter().for_each(|salt| self.text(salt));
        }
    }

    fn image(&mut self, image: &ImageInBlock) {
        self.array(2);
        self.text(&image.name);
        let Ok(_) = encode::write_sint(&mut self.buffer, image.offset);
    }

    fn event(&mut self, kind: &str, fields: u32) {
        let Ok(_) = encode::write_map_len(&mut self.buffer, fields + 1);
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
        let Ok(_) = encode::write_array_len(&mut self.buffer, len as u32);
    }

    fn text(&mut self, text: &str) {
        let Ok(()) = encode::write_str(&mut self.buffer, text);
    }

    fn uint(&mut self, value: u64) {
        let Ok(_) = encode::write_uint(&mut self.buffer, value);
    }

    fn float(&mut self, value: f64) {
        let Ok(()) = encode::write_f64(&mut self.buffer, value);
    }

    fn nil(&mut self) {
        let Ok(()) = encode::write_nil(&mut self.buffer);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::Arc;

    use flate2::read::GzDecoder;
    use serde_json::Value;

    use super::*;

    const VLLM: &[u8] = include_bytes!("../../tests/fixtures/vllm-event-payloads.jsonl.gz");
    const SGLANG: &[u8] = include_bytes!("../../tests/fixtures/sglang-event-payloads.jsonl.gz");

    /// The payloads of recorded batches, each with its decoded form.
    fn recorded(compressed: &[u8]) -> Vec<(Vec<u8>, Value)> {
        let mut text = String::new();
        GzDecoder::new(compressed).read_to_string(&mut text).unwrap();
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
        let signed = || value.as_i64().map(i64::cast_unsigned);
        BlockKey::from_raw(value.as_u64().or_else(signed).unwrap())
    }

    fn changes(event: &Value) -> Vec<CacheChange> {
        let keys = || event["block_hashes"].as_array().unwrap().iter().map(key);
        match event["type"].as_str().unwrap() {
            "AllBlocksCleared" => vec![CacheChange::Cleared],
            "BlockRemoved" => keys().map(CacheChange::Removed).collect(),
            _ => vec![CacheChange::Stored(StoredRun {
                keys: keys().collect(),
                parent: Some(&event["parent_block_hash"]).filter(|parent| !parent.is_null()).map(key),
                tokens: serde_json::from_value(event["token_ids"].clone()).unwrap(),
                salt: event["cache_salt"]
                    .as_str()
                    .or_else(|| event["extra_keys"][0][0].as_str())
                    .map(Arc::from),
                images: Vec::new(),
            })],
        }
    }

    #[test]
    fn recorded_batches_are_encoded_byte_for_byte() {
        for (style, size, compressed) in [(Style::Vllm, 32, VLLM), (Style::Sglang, 16, SGLANG)] {
            let batches = recorded(compressed);
            assert!(batches.len() > 10, "the recording is there");
            for (payload, decoded) in batches {
                let changes: Vec<_> = decoded[1].as_array().unwrap().iter().flat_map(changes).collect();
                let timestamp = f64::from_be_bytes(payload[2..10].try_into().unwrap());
                let encoded = encode(style, &changes, BlockSize::new(size).unwrap(), 0, timestamp);
                assert_eq!(encoded, payload, "{decoded}");
            }
        }
    }

    #[test]
    fn removals_that_follow_each_other_are_one_event_of_sglang() {
        let removed = |raw| CacheChange::Removed(BlockKey::from_raw(raw));
        let changes = [removed(1), removed(2), CacheChange::Cleared, removed(3)];
        assert_eq!(events(Style::Sglang, &changes).len(), 3);
        assert_eq!(events(Style::Vllm, &changes).len(), 4);
    }
}
