//! Text to ids, as the `tokenizers` library makes them, and in a fraction of its time.
//!
//! A prompt is mostly known: a conversation comes back longer by a turn, and prompts of all clients are made of the same
//! words. Two caches use that, each at a place where the library itself cuts the text in two and goes on with each part
//! alone: at special tokens ([`Segments`]), and between the words of a byte-pair tokenizer ([`Words`]). Where a tokenizer
//! has a step that looks across such a place, that cache is left out, and without both the library does all the work.

mod boundaries;
mod normalizer;
mod pattern;
mod recent;
mod segments;
mod words;

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};

use kvroute_core::TokenId;

use self::boundaries::{Boundaries, Piece};
use self::segments::Segments;
use self::words::Words;
use crate::EncodeError;
use crate::model::Tokenizer;

/// How many tokens of encoded text were known before, and how many had to be made. Special tokens are neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Tokens that came with a segment of text that was encoded before.
    pub hit: u64,
    /// Tokens of segments that were encoded anew.
    pub miss: u64,
}

/// A tokenizer with its caches. No lock is held while text is encoded.
#[derive(Debug)]
pub(crate) struct Encoder {
    tokenizer: Tokenizer,
    /// Where text can be cut; `None` where it cannot.
    boundaries: Option<Boundaries>,
    segments: Segments,
    /// The way over words; `None` where a tokenizer has steps that it does not know.
    words: Option<Words>,
    frame: Option<Frame>,
    hit: AtomicU64,
    miss: AtomicU64,
}

/// What the tokenizer puts around a text when it adds special tokens.
#[derive(Debug)]
struct Frame {
    before: Vec<TokenId>,
    behind: Vec<TokenId>,
}

// === impl Encoder ===

impl Encoder {
    pub(crate) fn new(tokenizer: Tokenizer) -> Self {
        Self {
            boundaries: Boundaries::of(&tokenizer),
            segments: Segments::new(),
            words: Words::of(&tokenizer),
            frame: Frame::of(&tokenizer),
            tokenizer,
            hit: AtomicU64::new(0),
            miss: AtomicU64::new(0),
        }
    }

    /// The library's tokenizer, around the model.
    pub(crate) const fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Whether neither cache is left out.
    pub(crate) const fn is_fast(&self) -> bool {
        self.boundaries.is_some() && self.words.is_some()
    }

    /// Ids of a text.
    ///
    /// # Errors
    /// The library's, which knows no reason for one in text.
    pub(crate) fn encode(&self, text: &str, add_special_tokens: bool) -> Result<Vec<TokenId>, EncodeError> {
        let (Some(boundaries), Some(frame)) = (&self.boundaries, &self.frame) else {
            let ids = by_the_library(&self.tokenizer, text, add_special_tokens)?;
            self.miss.fetch_add(ids.len() as u64, Ordering::Relaxed);
            return Ok(ids);
        };
        let mut ids = Vec::with_capacity(text.len() / 3 + frame.before.len() + frame.behind.len());
        if add_special_tokens {
            ids.extend_from_slice(&frame.before);
        }
        for piece in boundaries.cut(text) {
            match piece {
                Piece::Token(id) => ids.push(id),
                Piece::Text(segment) => self.encode_segment(segment, &mut ids)?,
            }
        }
        if add_special_tokens {
            ids.extend_from_slice(&frame.behind);
        }
        Ok(ids)
    }

    pub(crate) fn cache_counts(&self) -> CacheCounts {
        CacheCounts { hit: self.hit.load(Ordering::Relaxed), miss: self.miss.load(Ordering::Relaxed) }
    }

    fn encode_segment(&self, segment: &str, ids: &mut Vec<TokenId>) -> Result<(), EncodeError> {
        if let Some(known) = self.segments.get(segment) {
            self.hit.fetch_add(known.len() as u64, Ordering::Relaxed);
            ids.extend_from_slice(&known);
            return Ok(());
        }
        let start = ids.len();
        let is_done = match &self.words {
            Some(words) => words.encode(segment, &self.tokenizer, ids)?,
            None => false,
        };
        if !is_done {
            ids.truncate(start);
            ids.extend(by_the_library(&self.tokenizer, segment, false)?);
        }
        let made = &ids[start..];
        self.miss.fetch_add(made.len() as u64, Ordering::Relaxed);
        self.segments.insert(segment, made);
        Ok(())
    }
}

/// Whether a tokenizer's texts are encoded word by word.
pub(crate) fn knows_words(tokenizer: &Tokenizer) -> bool {
    Words::of(tokenizer).is_some()
}

/// Ids as the library makes them.
pub(crate) fn by_the_library(
    tokenizer: &Tokenizer,
    text: &str,
    add_special_tokens: bool,
) -> Result<Vec<TokenId>, EncodeError> {
    let encoding = tokenizer.encode_fast(text, add_special_tokens).map_err(EncodeError::tokenizer)?;
    Ok(encoding.get_ids().to_vec())
}

// === impl Frame ===

impl Frame {
    /// Every post-processor of the library puts the same tokens around any text; what they are is seen on one.
    fn of(tokenizer: &Tokenizer) -> Option<Self> {
        let bare = by_the_library(tokenizer, "a", false).ok()?;
        let framed = by_the_library(tokenizer, "a", true).ok()?;
        if bare.is_empty() {
            return framed.is_empty().then(|| Self { before: Vec::new(), behind: Vec::new() });
        }
        let at = framed.windows(bare.len()).position(|window| window == bare)?;
        Some(Self { before: framed[..at].to_vec(), behind: framed[at + bare.len()..].to_vec() })
    }
}
