//! Tokens by id and ids by token, with each token's text once.

use std::hash::{BuildHasher, BuildHasherDefault};
use std::ops::Range;

use hashbrown::HashTable;
use kvroute_core::{FoldHasher, TokenId};

/// More ids than tokens by this factor would make the list by id larger than what it saves.
const MOST_HOLES: usize = 4;

/// All tokens of a model.
pub(crate) struct Vocabulary {
    /// The texts of all tokens, by id.
    text: Box<str>,
    /// Where each token's text ends; an id without a token has none.
    ends: Box<[u32]>,
    by_token: HashTable<TokenId>,
}

/// Tokens as they are read, in any order.
#[derive(Default)]
pub(super) struct Draft {
    text: String,
    tokens: Vec<(TokenId, Range<usize>)>,
}

// === impl Draft ===

impl Draft {
    pub(super) fn push(&mut self, token: &str, id: TokenId) {
        let start = self.text.len();
        self.text.push_str(token);
        self.tokens.push((id, start..self.text.len()));
    }

    /// The vocabulary; `None` where a token is empty, two are the same or have one id, or ids are far apart.
    pub(super) fn finish(mut self) -> Option<Vocabulary> {
        self.tokens.sort_unstable_by_key(|(id, _)| *id);
        let ids = self.tokens.last().map_or(0, |(id, _)| *id as usize + 1);
        if ids > MOST_HOLES * self.tokens.len() || u32::try_from(self.text.len()).is_err() {
            return None;
        }
        let mut text = String::with_capacity(self.text.len());
        let mut ends = Vec::with_capacity(ids);
        for (id, range) in &self.tokens {
            let id = *id as usize;
            if range.is_empty() || ends.len() > id {
                return None;
            }
            ends.resize(id, text.len() as u32);
            text.push_str(&self.text[range.clone()]);
            ends.push(text.len() as u32);
        }
        let by_token = HashTable::with_capacity(self.tokens.len());
        let mut vocabulary = Vocabulary { text: text.into(), ends: ends.into(), by_token };
        self.tokens.iter().all(|(id, _)| vocabulary.find_place(*id)).then_some(vocabulary)
    }
}

// === impl Vocabulary ===

impl Vocabulary {
    pub(crate) fn len(&self) -> usize {
        self.by_token.len()
    }

    pub(crate) fn largest_id(&self) -> Option<TokenId> {
        TokenId::try_from(self.ends.len()).ok()?.checked_sub(1)
    }

    pub(crate) fn token(&self, id: TokenId) -> Option<&str> {
        let id = id as usize;
        let end = *self.ends.get(id)? as usize;
        let start = id.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        Some(&self.text[start..end]).filter(|token| !token.is_empty())
    }

    pub(crate) fn id(&self, token: &str) -> Option<TokenId> {
        self.by_token.find(hash(token), |id| self.token(*id) == Some(token)).copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (TokenId, &str)> {
        (0..).zip(0..self.ends.len()).filter_map(|(id, _)| Some((id, self.token(id)?)))
    }

    /// Puts a token into the table; false if it is there under another id.
    fn find_place(&mut self, id: TokenId) -> bool {
        let mut table = std::mem::take(&mut self.by_token);
        let token = self.token(id).unwrap_or_default();
        let is_new = table.find(hash(token), |other| self.token(*other) == Some(token)).is_none();
        if is_new {
            table.insert_unique(hash(token), id, |other| hash(self.token(*other).unwrap_or_default()));
        }
        self.by_token = table;
        is_new
    }
}

fn hash(token: &str) -> u64 {
    BuildHasherDefault::<FoldHasher>::default().hash_one(token)
}
