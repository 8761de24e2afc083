//! What answers are made of: a few thousand words, drawn by the prompt and the seed.
//!
//! A deterministic engine answers equal prompts equally whatever else it is busy with, so the draw depends on the
//! context's tokens, the seed and the choice, never on the order of requests. As a model's, the next word depends on the
//! words before it, wherever the prompt ends: an answer that is continued from its middle goes on as it would have.

use kvroute_core::TokenId;

use crate::encoder::PromptEncoder;
use crate::mix::{fold, spread};

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
        let word = WordIndex((spread(stream.0) % self.ids.len() as u64) as u32);
        stream.0 = fold(stream.0, u64::from(self.id(word)));
        word
    }
}

// === impl WordStream ===

impl WordStream {
    /// The stream of one choice of an answer to a prompt.
    pub(crate) fn new(seed: u64, prompt: &[TokenId], choice: u32) -> Self {
        let start = fold(seed, u64::from(choice));
        Self(prompt.iter().fold(start, |state, token| fold(state, u64::from(*token))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_goes_on_from_its_middle() {
        let words = Words::numbered();
        let answer = |prompt: &[TokenId], count: usize| -> Vec<_> {
            let mut stream = WordStream::new(7, prompt, 0);
            (0..count).map(|_| words.id(words.draw(&mut stream))).collect()
        };
        let whole = answer(&[1, 2, 3], 20);
        let middle: Vec<_> = [1, 2, 3].into_iter().chain(whole[..8].iter().copied()).collect();
        assert_eq!(answer(&middle, 12), whole[8..]);
        assert!(whole.iter().collect::<std::collections::HashSet<_>>().len() > 10, "{whole:?}");
    }
}
