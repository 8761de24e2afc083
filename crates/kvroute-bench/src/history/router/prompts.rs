//! Completions with token ids for a prompt, ready to be sent.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::Traffic;

/// Tokens of a block, as the workers have them.
const BLOCK: usize = 16;

/// Prompts that are sent again and again.
const REPEATED: u64 = 64;

/// Digits of a token id: all have as many, so that one takes the place of another.
const DIGITS: usize = 6;

/// Bodies of one length.
#[derive(Debug)]
pub(crate) struct Prompts {
    template: Vec<u8>,
    /// Where the first two ids stand, which make every other block another one, too.
    first: usize,
    repeated: Vec<Bytes>,
    next: AtomicU64,
}

// === impl Prompts ===

impl Prompts {
    pub(crate) fn new(traffic: Traffic, blocks: usize) -> Self {
        let head = format!("{{\"model\":\"{}\",\"max_tokens\":1,\"prompt\":[", super::fleet::MODEL);
        let ids: Vec<String> = (0..blocks * BLOCK).map(|number| id_of(number as u64 * 7919)).collect();
        let template = format!("{head}{}]}}", ids.join(",")).into_bytes();
        let mut prompts =
            Self { template, first: head.len(), repeated: Vec::new(), next: AtomicU64::new(START) };
        if traffic == Traffic::Duplicates {
            prompts.repeated = (0..REPEATED).map(|number| prompts.body(number)).collect();
        }
        prompts
    }

    /// One that was never sent before, or the next of those that are sent again.
    pub(crate) fn next(&self) -> Bytes {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        match self.repeated.len() {
            0 => self.body(number),
            some => self.repeated[number as usize % some].clone(),
        }
    }

    /// Those that are sent again.
    pub(crate) fn repeated(&self) -> &[Bytes] {
        &self.repeated
    }

    fn body(&self, number: u64) -> Bytes {
        let mut body = self.template.clone();
        for (place, part) in [number % IDS, number / IDS].into_iter().enumerate() {
            let at = self.first + place * (DIGITS + 1);
            body[at..at + DIGITS].copy_from_slice(id_of(part).as_bytes());
        }
        Bytes::from(body)
    }
}

/// Different ids.
const IDS: u64 = 900_000;

/// Those that are sent once begin behind those that are sent again.
const START: u64 = 1000;

fn id_of(number: u64) -> String {
    (100_000 + number % IDS).to_string()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_new_prompt_is_another_one_of_the_same_length() {
        let prompts = Prompts::new(Traffic::AllNew, 4);
        let bodies: Vec<Bytes> = (0..100).map(|_| prompts.next()).collect();
        assert_eq!(bodies.iter().collect::<HashSet<_>>().len(), 100);
        for body in &bodies {
            let value: serde_json::Value = serde_json::from_slice(body).expect("json");
            assert_eq!(value["prompt"].as_array().map(Vec::len), Some(64));
        }
    }

    #[test]
    fn duplicates_come_again() {
        let prompts = Prompts::new(Traffic::Duplicates, 4);
        let bodies: HashSet<Bytes> = (0..1000).map(|_| prompts.next()).collect();
        assert_eq!(bodies.len(), REPEATED as usize);
    }
}
