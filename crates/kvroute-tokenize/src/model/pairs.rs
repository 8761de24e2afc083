//! Byte-pair merging, as the `tokenizers` library does it.
//!
//! A word begins as its characters. Of all neighbours that may become one token those that stand first in the list of merges
//! do so, the leftmost ones before others, until none is left.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;

use kvroute_core::{PrehashedMap, TokenId};
use tokenizers::Token;

use super::vocabulary::Vocabulary;

/// Characters by which models write bytes are below this one.
const USUAL_CHARACTERS: u32 = 0x180;

/// The model.
pub(crate) struct BytePairs {
    vocabulary: Vocabulary,
    merges: Merges,
    /// Tokens of single characters that are usual.
    characters: Box<[Option<TokenId>]>,
    /// A word that is a token becomes it, whatever its merges make.
    whole_words_first: bool,
}

/// What neighbours become.
#[derive(Default)]
pub(super) struct Merges(PrehashedMap<u64, Merge>);

/// What two neighbours become, and how early.
#[derive(Clone, Copy)]
struct Merge {
    rank: u32,
    id: TokenId,
}

/// A part of a word, in a list with its neighbours.
#[derive(Clone, Copy)]
struct Part {
    id: TokenId,
    /// Bytes; none once it is part of the one before.
    length: usize,
    before: Option<usize>,
    behind: Option<usize>,
}

/// A merge that may be done, the earliest first, and among equal ones the leftmost.
type Candidate = Reverse<(u32, usize, TokenId)>;

// === impl Merges ===

impl Merges {
    pub(super) fn with_capacity(merges: usize) -> Self {
        Self(PrehashedMap::with_capacity_and_hasher(merges, Default::default()))
    }

    /// The last one counts where a pair is there twice.
    pub(super) fn insert(&mut self, left: TokenId, right: TokenId, rank: u32, id: TokenId) {
        self.0.insert(key(left, right), Merge { rank, id });
    }

    fn of(&self, left: Part, right: Part) -> Option<Merge> {
        self.0.get(&key(left.id, right.id)).copied()
    }
}

const fn key(left: TokenId, right: TokenId) -> u64 {
    (left as u64) << 32 | right as u64
}

// === impl BytePairs ===

impl BytePairs {
    pub(super) fn new(vocabulary: Vocabulary, merges: Merges, whole_words_first: bool) -> Self {
        let id = |code| char::from_u32(code).and_then(|character| id_of(&vocabulary, character));
        let characters = (0..USUAL_CHARACTERS).map(id).collect();
        Self { vocabulary, merges, characters, whole_words_first }
    }

    pub(crate) const fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// Appends the ids of a word.
    pub(crate) fn append_ids(&self, word: &str, ids: &mut Vec<TokenId>) {
        match self.whole(word) {
            Some(id) => ids.push(id),
            None => ids.extend(self.parts(word).map(|part| part.id)),
        }
    }

    /// The tokens of a word; their places are counted without characters that the model does not know, as the library does.
    pub(super) fn tokens(&self, word: &str) -> Vec<Token> {
        if let Some(id) = self.whole(word) {
            return vec![Token::new(id, word.to_owned(), (0, word.len()))];
        }
        let mut at = 0;
        self.parts(word)
            .map(|part| {
                let start = at;
                at += part.length;
                let text = self.vocabulary.token(part.id).unwrap_or_default();
                Token::new(part.id, text.to_owned(), (start, at))
            })
            .collect()
    }

    fn whole(&self, word: &str) -> Option<TokenId> {
        if self.whole_words_first { self.vocabulary.id(word) } else { None }
    }

    /// What is left of a word's characters when all merges are done.
    fn parts(&self, word: &str) -> impl Iterator<Item = Part> {
        let mut parts = self.characters(word);
        let mut candidates: BinaryHeap<Candidate> =
            (1..parts.len()).filter_map(|right| self.candidate(&parts, right - 1, right)).collect();
        while let Some(Reverse((_, left, id))) = candidates.pop() {
            let Some(right) = parts[left].behind else { continue };
            // One of the two may have become another token meanwhile.
            let still_becomes = self.merges.of(parts[left], parts[right]).map(|merge| merge.id);
            if parts[left].length == 0 || still_becomes != Some(id) {
                continue;
            }
            merge(&mut parts, left, right, id);
            let Part { before, behind, .. } = parts[left];
            candidates.extend(before.and_then(|before| self.candidate(&parts, before, left)));
            candidates.extend(behind.and_then(|behind| self.candidate(&parts, left, behind)));
        }
        parts.into_iter().filter(|part| part.length > 0)
    }

    /// The characters of a word that the model knows.
    fn characters(&self, word: &str) -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::with_capacity(word.len());
        for character in word.chars() {
            let Some(id) = self.character(character) else { continue };
            let before = parts.len().checked_sub(1);
            if let Some(before) = before {
                parts[before].behind = Some(before + 1);
            }
            parts.push(Part { id, length: character.len_utf8(), before, behind: None });
        }
        parts
    }

    fn character(&self, character: char) -> Option<TokenId> {
        match self.characters.get(character as usize) {
            Some(known) => *known,
            None => id_of(&self.vocabulary, character),
        }
    }

    fn candidate(&self, parts: &[Part], left: usize, right: usize) -> Option<Candidate> {
        let Merge { rank, id } = self.merges.of(parts[left], parts[right])?;
        Some(Reverse((rank, left, id)))
    }
}

fn merge(parts: &mut [Part], left: usize, right: usize, id: TokenId) {
    let Part { length, behind, .. } = parts[right];
    parts[right].length = 0;
    let part = &mut parts[left];
    (part.id, part.length, part.behind) = (id, part.length + length, behind);
    if let Some(behind) = behind {
        parts[behind].before = Some(left);
    }
}

fn id_of(vocabulary: &Vocabulary, character: char) -> Option<TokenId> {
    vocabulary.id(character.encode_utf8(&mut [0; 4]))
}

impl fmt::Debug for BytePairs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("BytePairs")
            .field("tokens", &self.vocabulary.len())
            .field("merges", &self.merges.0.len())
            .finish_non_exhaustive()
    }
}
