//! Byte-pair tokenizers word by word.
//!
//! Such a tokenizer cuts text into words by patterns and then merges bytes within each word alone, so a word has the same
//! ids wherever it stands, and texts are made of words that were seen before. What a new word becomes
//! says the model.

use std::sync::Arc;

use kvroute_core::TokenId;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use regex_automata::util::pool::Pool;
use tokenizers::SplitDelimiterBehavior;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::split::SplitPattern;

use super::normalizer::Normalization;
use super::pattern::Pattern;
use super::recent::{Key, Recent};
use crate::EncodeError;
use crate::model::Tokenizer;

/// What all remembered words may take, in bytes.
const CAPACITY: u64 = 16 * 1024 * 1024;
/// An entry beside its word.
const OVERHEAD: usize = 96;
/// About how many there are.
const ENTRIES: usize = 128 * 1024;
/// Longer words are seldom seen twice.
const LONGEST: usize = 128;

/// The way over words.
#[derive(Debug)]
pub(super) struct Words {
    normalization: Normalization,
    /// Each cuts what the one before left.
    patterns: Vec<Pattern>,
    /// The character by which the model knows a byte.
    characters: [char; 256],
    known: Cache<Box<str>, Ids, Bytes>,
    /// What stands before it: the short words that each thread had last.
    recent: Pool<Recent, fn() -> Recent>,
}

/// Ids of a word.
#[derive(Clone, Debug)]
enum Ids {
    One(TokenId),
    Many(Arc<[TokenId]>),
}

/// Weight of an entry.
#[derive(Clone, Debug)]
struct Bytes;

// === impl Words ===

impl Words {
    /// A tokenizer's patterns, if it is of this kind.
    pub(super) fn of(tokenizer: &Tokenizer) -> Option<Self> {
        if !tokenizer.get_model().is_steady_pairs() {
            return None;
        }
        let normalization = Normalization::of(tokenizer)?;
        let looks_behind_normalising = |token: &tokenizers::AddedToken| token.normalized;
        if normalization != Normalization::None
            && tokenizer.get_added_tokens_decoder().values().any(looks_behind_normalising)
        {
            return None;
        }
        Some(Self {
            normalization,
            patterns: patterns(tokenizer.get_pre_tokenizer()?)?,
            characters: byte_characters(),
            known: Cache::with_weighter(ENTRIES, CAPACITY, Bytes),
            recent: Pool::new(Recent::new),
        })
    }

    /// Appends the ids of a text without added tokens. False where it has to be done by the library; some ids may be
    /// there then.
    ///
    /// # Errors
    /// The library's.
    pub(super) fn encode(
        &self,
        text: &str,
        tokenizer: &Tokenizer,
        ids: &mut Vec<TokenId>,
    ) -> Result<bool, EncodeError> {
        let normalised = self.normalization.apply(text);
        let mut recent = self.recent.get();
        let mut problem = None;
        let mut take = |word| {
            if let Err(error) = self.encode_word(word, tokenizer, &mut recent, ids) {
                problem = Some(error);
            }
        };
        let is_done = cut_by_all(&self.patterns, &normalised, &mut take);
        problem.map_or(Ok(is_done), Err)
    }

    fn encode_word(
        &self,
        word: &str,
        tokenizer: &Tokenizer,
        recent: &mut Recent,
        ids: &mut Vec<TokenId>,
    ) -> Result<(), EncodeError> {
        let key = Key::of(word);
        if let Some(id) = key.and_then(|key| recent.get(key)) {
            ids.push(id);
            return Ok(());
        }
        match self.known.get(word) {
            Some(Ids::One(id)) => {
                ids.push(id);
                if let Some(key) = key {
                    recent.insert(key, id);
                }
            }
            Some(Ids::Many(many)) => ids.extend_from_slice(&many),
            None => {
                let start = ids.len();
                let written: String = word.bytes().map(|byte| self.characters[usize::from(byte)]).collect();
                tokenizer.get_model().append_ids(&written, ids)?;
                if word.len() <= LONGEST {
                    self.known.insert(word.into(), Ids::of(&ids[start..]));
                }
            }
        }
        Ok(())
    }
}

/// Cuts a text by all patterns, one behind the other; false where one of them gave up.
fn cut_by_all<'t>(patterns: &[Pattern], text: &'t str, take: &mut dyn FnMut(&'t str)) -> bool {
    let Some((first, others)) = patterns.split_first() else {
        take(text);
        return true;
    };
    if others.is_empty() {
        return first.cut(text, take).is_ok();
    }
    let mut is_done = true;
    let cut = first.cut(text, &mut |piece| is_done &= cut_by_all(others, piece, take));
    cut.is_ok() && is_done
}

/// The patterns of steps that only cut, before one that writes bytes as characters.
fn patterns(step: &PreTokenizerWrapper) -> Option<Vec<Pattern>> {
    let PreTokenizerWrapper::Sequence(steps) = step else { return None };
    let (last, cutting) = steps.as_ref().split_last()?;
    match last {
        PreTokenizerWrapper::ByteLevel(bytes) if !bytes.add_prefix_space && !bytes.use_regex => {}
        _ => return None,
    }
    cutting.iter().map(pattern).collect()
}

fn pattern(step: &PreTokenizerWrapper) -> Option<Pattern> {
    let PreTokenizerWrapper::Split(split) = step else { return None };
    if split.invert || split.behavior != SplitDelimiterBehavior::Isolated {
        return None;
    }
    match &split.pattern {
        SplitPattern::Regex(source) => Pattern::parse(source),
        SplitPattern::String(_) => None,
    }
}

/// Bytes that can be seen are written as themselves, the others, in order, as the characters from 256.
fn byte_characters() -> [char; 256] {
    let mut next = 256;
    std::array::from_fn(|byte| {
        let code = if matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff) {
            byte
        } else {
            next += 1;
            next - 1
        };
        u32::try_from(code).ok().and_then(char::from_u32).unwrap_or_default()
    })
}

// === impl Ids ===

impl Ids {
    fn of(ids: &[TokenId]) -> Self {
        match ids {
            [id] => Self::One(*id),
            many => Self::Many(many.into()),
        }
    }
}

impl Weighter<Box<str>, Ids> for Bytes {
    fn weight(&self, word: &Box<str>, ids: &Ids) -> u64 {
        let beside = match ids {
            Ids::One(_) => 0,
            Ids::Many(many) => size_of_val::<[TokenId]>(many) + 2 * size_of::<usize>(),
        };
        (word.len() + beside + OVERHEAD) as u64
    }
}
