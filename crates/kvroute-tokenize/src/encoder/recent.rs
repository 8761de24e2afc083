//! Short words that one thread had last.
//!
//! Most words of most texts are short, common and one token each. Finding those in the map of all words costs a lock, a
//! hash of the text and a walk through memory that no processor keeps near. This is a small table of one thread in front
//! of it, in which a word is its own key.

use kvroute_core::TokenId;

/// Slots of the table: it has to stay in the processor's second cache.
const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 13;
/// Bytes of the longest word that is kept here; one more tells its length.
const LONGEST: usize = 15;

/// A word of at most [`LONGEST`] bytes, with its length: different words have different keys. None is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key(u128);

/// Ids by word; a word takes the place of another one in the same slot.
#[derive(Debug)]
pub(super) struct Recent(Box<[(Key, TokenId)]>);

// === impl Key ===

impl Key {
    /// The key of a word; `None` where it is too long, or nothing.
    pub(super) fn of(word: &str) -> Option<Self> {
        let (bytes, length) = (word.as_bytes(), u8::try_from(word.len()).ok()?);
        let mut key = [0; LONGEST + 1];
        key.get_mut(..bytes.len()).filter(|_| (1..=LONGEST).contains(&bytes.len()))?.copy_from_slice(bytes);
        key[LONGEST] = length;
        Some(Self(u128::from_le_bytes(key)))
    }

    const fn slot(self) -> usize {
        let folded = self.0 as u64 ^ (self.0 >> 64) as u64;
        (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SLOT_BITS)) as usize
    }
}

// === impl Recent ===

impl Recent {
    pub(super) fn new() -> Self {
        Self(vec![(Key(0), 0); SLOTS].into())
    }

    pub(super) fn get(&self, key: Key) -> Option<TokenId> {
        let (known, id) = self.0[key.slot()];
        (known == key).then_some(id)
    }

    pub(super) fn insert(&mut self, key: Key, id: TokenId) {
        self.0[key.slot()] = (key, id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_as_itself_and_as_no_other() {
        let mut recent = Recent::new();
        let words = ["a", "a\0", "\0", " the", "é", "fifteen bytes..", "aaaaaaaaaaaaaaa"];
        for (word, id) in words.into_iter().zip(1..) {
            let key = Key::of(word).unwrap();
            assert_eq!(recent.get(key), None, "{word:?} is new");
            recent.insert(key, id);
            assert_eq!(recent.get(key), Some(id), "{word:?}");
        }
        assert_eq!(Key::of(""), None);
        assert_eq!(Key::of("sixteen bytes..."), None);
    }

    #[test]
    fn two_words_of_one_slot_take_turns() {
        let mut recent = Recent::new();
        let keys: Vec<_> =
            (0..u32::try_from(SLOTS).unwrap() + 1).map(|n| Key::of(&n.to_string()).unwrap()).collect();
        for (key, id) in keys.iter().zip(0..) {
            recent.insert(*key, id);
        }
        for (key, id) in keys.iter().zip(0..) {
            assert!(recent.get(*key).is_none_or(|known| known == id));
        }
        assert!(keys.iter().any(|key| recent.get(*key).is_none()), "there are more words than slots");
    }
}
