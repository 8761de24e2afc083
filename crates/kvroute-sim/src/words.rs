//! What answers are made of: a few thousand words, drawn by the prompt and the seed.
//!
//! A deterministic engine answers equal prompts equally whatever else it is busy with, so the draw depends on the
//! prompt's tokens, the seed and the choice, never on the order of requests.

use kvroute_core::TokenId;

use crate::encoder::PromptEncoder;
use crate::mix::{advance, fold, spread};

/// More words would cost start-up time and gain nothing.
const WORDS: usize = 4096;

/// Position of a word in [`Words`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WordIndex(u32);

/// The words that answers are drawn from; never empty.
#[derive(Debug)]
pub(crate) struct Words {
    ids: Vec<TokenId>,
    texts: Vec<String>,
}

/// Draws the words of one answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WordStream(u64);

// === impl Words ===

impl Words {
    /// Reads the encoder's plain ids; `None` when it has none.
    pub(crate) fn new(encoder: &dyn PromptEncoder) -> Option<Self> {
        let mut ids = encoder.plain_ids();
        ids.truncate(WORDS);
        if ids.is_empty() {
            return None;
        }
        let texts = ids.iter().map(|id| encoder.decode(&[*id])).collect();
        Some(Self { ids, texts })
    }

    /// Words without a text, for an engine whose answers nobody reads.
    pub(crate) fn numbered() -> Self {
        let ids: Vec<_> = (0..WORDS as TokenId).collect();
        let texts = vec![String::new(); ids.len()];
        Self { ids, texts }
    }

    pub(crate) fn id(&self, word: WordIndex) -> TokenId {
        self.ids[word.0 as usize]
    }

    pub(crate) fn text(&self, word: WordIndex) -> &str {
        &self.texts[word.0 as usize]
    }

    /// The next word of a stream.
    pub(crate) fn draw(&self, stream: &mut WordStream) -> WordIndex {
        WordIndex((stream.next() % self.ids.len() as u64) as u32)
    }
}

// === impl WordStream ===

impl WordStream {
    /// The stream of one choice of an answer to a prompt.
    pub(crate) fn new(seed: u64, prompt: &[TokenId], choice: u32) -> Self {
        let start = fold(seed, u64::from(choice));
        Self(prompt.iter().fold(start, |state, token| fold(state, u64::from(*token))))
    }

    fn next(&mut self) -> u64 {
        self.0 = advance(self.0);
        spread(self.0)
    }
}
