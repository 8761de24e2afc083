//! Chats of English prose: this project's own pages, cut into pieces of a sentence's length and put together anew, so that
//! every chat is new and its words are not.

use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

const PAGES: [&str; 6] = [
    include_str!("../../../../docs/funnel.md"),
    include_str!("../../../../docs/selection.md"),
    include_str!("../../../../docs/history.md"),
    include_str!("../../../../docs/index.md"),
    include_str!("../../../../docs/configuration.md"),
    include_str!("../../../../ARCHITECTURE.md"),
];

/// Tokens of a word of such pages, more or less.
const TOKENS_A_WORD: f64 = 1.5;
/// Tokens of one message.
const MESSAGE: usize = 200;

/// A source of chats.
pub(super) struct Texts {
    random: ChaCha8Rng,
    words: Vec<&'static str>,
}

// === impl Texts ===

impl Texts {
    pub(super) fn new(seed: u64) -> Self {
        let words = PAGES.iter().flat_map(|page| page.split_inclusive([' ', '\n'])).collect();
        Self { random: ChaCha8Rng::seed_from_u64(seed), words }
    }

    /// What all chats are made of.
    pub(super) fn pages(&self) -> [&'static str; 6] {
        PAGES
    }

    /// A chat of about so many tokens.
    pub(super) fn chat(&mut self, tokens: usize) -> String {
        (0..tokens.div_ceil(MESSAGE)).map(|_| self.message(MESSAGE)).collect()
    }

    /// A chat of about so many tokens, and what it becomes with every further turn.
    pub(super) fn growing_chat(&mut self, tokens: usize, turns: usize) -> Vec<String> {
        let mut text = self.chat(tokens);
        let mut chats = vec![text.clone()];
        for _ in 0..turns {
            text += &self.message(MESSAGE / 2);
            chats.push(text.clone());
        }
        chats
    }

    fn message(&mut self, tokens: usize) -> String {
        let mut text =
            format!("<|im_start|>{}\n", ["user", "assistant"].choose(&mut self.random).unwrap_or(&"user"));
        let mut words = (tokens as f64 / TOKENS_A_WORD) as usize;
        while words > 0 {
            let length = words.min(12);
            let start = self.random.random_range(0..self.words.len() - length);
            text.extend(self.words[start..start + length].iter().copied());
            words -= length;
        }
        text + "<|im_end|>\n"
    }
}
