//! What an engine's event socket sends: ZMTP frames around MessagePack, shaped as vLLM was seen to shape it.
//!
//! Maps with every field, sixteen tokens a block, one message a step of the engine: a prompt arrives in chunks, an
//! answer block by block, and once the cache is full each new block is announced after the one that it replaces.

use std::collections::VecDeque;

use rmp::encode;

use crate::random::{OneIn, Random};

/// Blocks of a prompt, and of them those that its system prompt already brought.
const PROMPT: usize = 34;
const SHARED: usize = 8;
/// The longest part of a prompt that one step computes.
const CHUNK: usize = 16;
/// Prompts whose answers grow at the same time.
const RUNNING: usize = 8;
const TOKENS_IN_BLOCK: usize = 16;

/// One message of an engine: topic, number, payload, in ZMTP frames.
#[derive(Debug)]
pub(crate) struct Burst {
    /// A whole connection's bytes: greeting, handshake, messages.
    pub(crate) bytes: Vec<u8>,
    pub(crate) messages: usize,
    pub(crate) stored: usize,
    pub(crate) removed: usize,
}

/// An engine that does nothing but publish.
#[derive(Debug)]
pub(crate) struct Engine {
    random: Random,
    sequence: u64,
    /// Blocks in the order in which they were stored.
    cached: VecDeque<u64>,
    capacity: usize,
    /// The last block of the system prompt, once it is there.
    system: Option<u64>,
    /// The last block of each answer that grows.
    answers: VecDeque<u64>,
}

/// The events of one step, encoded one behind the other.
#[derive(Debug, Default)]
struct Step {
    events: Vec<u8>,
    count: usize,
    stored: usize,
    removed: usize,
}

// === impl Engine ===

impl Engine {
    /// An engine whose cache holds so many blocks.
    pub(crate) fn new(seed: u64, capacity: usize) -> Self {
        Self {
            random: Random::new(seed),
            sequence: 0,
            cached: VecDeque::new(),
            capacity,
            system: None,
            answers: VecDeque::new(),
        }
    }

    /// The next steps, as a connection of their own.
    pub(crate) fn burst(&mut self, messages: usize) -> Burst {
        let mut burst = Burst { bytes: handshake(), messages, stored: 0, removed: 0 };
        for _ in 0..messages {
            let step = self.step();
            burst.stored += step.stored;
            burst.removed += step.removed;
            write_message(&mut burst.bytes, self.sequence, &payload(&step));
            self.sequence += 1;
        }
        burst
    }

    fn step(&mut self) -> Step {
        let mut step = Step::default();
        let Some(system) = self.system else {
            self.system = Some(self.store(&mut step, None, SHARED));
            return step;
        };
        let first = self.store(&mut step, Some(system), CHUNK);
        let last = self.store(&mut step, Some(first), PROMPT - SHARED - CHUNK);
        self.answers.push_back(last);
        if self.answers.len() > RUNNING {
            self.answers.pop_front();
        }
        for running in 0..self.answers.len() {
            if self.random.is(OneIn(2)) {
                let parent = self.answers[running];
                self.answers[running] = self.store(&mut step, Some(parent), 1);
            }
        }
        step
    }

    /// Announces new blocks, and before them those that make room. Returns the last one.
    fn store(&mut self, step: &mut Step, parent: Option<u64>, blocks: usize) -> u64 {
        let names = self.random.take(blocks);
        while self.cached.len() + blocks > self.capacity {
            let Some(oldest) = self.cached.pop_front() else { break };
            step.remove(oldest);
        }
        // The system prompt is in use all the time, so it is never the oldest.
        if parent.is_some() {
            self.cached.extend(&names);
        }
        step.store(parent, &names, &mut self.random);
        names[blocks - 1]
    }
}

// === impl Step ===

impl Step {
    fn store(&mut self, parent: Option<u64>, names: &[u64], random: &mut Random) {
        let out = &mut self.events;
        write(encode::write_map_len(out, 11));
        text(out, "type", "BlockStored");
        hashes(out, names);
        key(out, "parent_block_hash");
        match parent {
            Some(parent) => write(encode::write_u64(out, parent)),
            None => nil(out),
        }
        key(out, "token_ids");
        write(encode::write_array_len(out, (names.len() * TOKENS_IN_BLOCK) as u32));
        for _ in 0..names.len() * TOKENS_IN_BLOCK {
            write(encode::write_uint(out, token(random)));
        }
        key(out, "block_size");
        write(encode::write_uint(out, TOKENS_IN_BLOCK as u64));
        key(out, "lora_id");
        nil(out);
        text(out, "medium", "GPU");
        key(out, "lora_name");
        nil(out);
        key(out, "extra_keys");
        write(encode::write_array_len(out, names.len() as u32));
        names.iter().for_each(|_| nil(out));
        group(out);
        text(out, "kv_cache_spec_kind", "full_attention");
        self.count += 1;
        self.stored += names.len();
    }

    fn remove(&mut self, name: u64) {
        let out = &mut self.events;
        write(encode::write_map_len(out, 4));
        text(out, "type", "BlockRemoved");
        hashes(out, &[name]);
        text(out, "medium", "GPU");
        group(out);
        self.count += 1;
        self.removed += 1;
    }
}

/// `[time, [event, ...], rank]`.
fn payload(step: &Step) -> Vec<u8> {
    let mut out = Vec::with_capacity(step.events.len() + 32);
    write(encode::write_array_len(&mut out, 3));
    write(encode::write_f64(&mut out, 1_795_974_329.7));
    write(encode::write_array_len(&mut out, step.count as u32));
    out.extend_from_slice(&step.events);
    write(encode::write_uint(&mut out, 0));
    out
}

/// As the tokens of a text are spread: a few of the smallest, most of two bytes, some of more.
fn token(random: &mut Random) -> u64 {
    let (start, end) = match random.below(100) {
        0..10 => (0, 128),
        10..85 => (128, 65_536),
        _ => (65_536, 151_000),
    };
    start + random.below(end - start as usize) as u64
}

fn text(out: &mut Vec<u8>, name: &str, value: &str) {
    key(out, name);
    write(encode::write_str(out, value));
}

fn hashes(out: &mut Vec<u8>, names: &[u64]) {
    key(out, "block_hashes");
    write(encode::write_array_len(out, names.len() as u32));
    names.iter().for_each(|&name| write(encode::write_u64(out, name)));
}

fn group(out: &mut Vec<u8>) {
    key(out, "group_idx");
    write(encode::write_uint(out, 0));
}

fn key(out: &mut Vec<u8>, name: &str) {
    write(encode::write_str(out, name));
}

fn nil(out: &mut Vec<u8>) {
    write(encode::write_nil(out));
}

/// A vector takes every byte, so there is no error to handle.
fn write<T, E>(written: Result<T, E>) {
    debug_assert!(written.is_ok(), "a vector takes every byte");
    drop(written);
}

/// What a publisher says before its first message.
fn handshake() -> Vec<u8> {
    const READY: &[u8] = b"\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB";
    let mut bytes = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 3, 0];
    bytes.extend_from_slice(b"NULL");
    bytes.resize(64, 0);
    bytes.extend_from_slice(&[0x04, READY.len() as u8]);
    bytes.extend_from_slice(READY);
    bytes
}

fn write_message(out: &mut Vec<u8>, sequence: u64, payload: &[u8]) {
    write_frame(out, true, b"kv-events");
    write_frame(out, true, &sequence.to_be_bytes());
    write_frame(out, false, payload);
}

fn write_frame(out: &mut Vec<u8>, has_more: bool, body: &[u8]) {
    match u8::try_from(body.len()) {
        Ok(length) => out.extend_from_slice(&[u8::from(has_more), length]),
        Err(_) => {
            out.push(0x02 | u8::from(has_more));
            out.extend_from_slice(&(body.len() as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(body);
}
