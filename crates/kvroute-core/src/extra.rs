//! What a block depends on beside its tokens.
//!
//! The tokens of an image are one placeholder over and over, whatever the image shows: its identity makes the
//! difference, and where in the block it begins. Both become part of the block's content, so that equal tokens with other
//! images never match, through the chain not behind them either. A key that is not understood becomes part of it too: a
//! prompt has none such, so its block is known and matches nothing.

use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

use crate::{BlockHash, BlockSize};

/// Identity of an image, a sound or another item that is no text, as an engine names it. Equal values mean equal names, up
/// to 64-bit collisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemId(u64);

/// An item of a prompt, and the tokens that stand for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromptItem {
    /// What it is.
    pub id: ItemId,
    /// Position of its first token in the prompt.
    pub offset: usize,
    /// Number of its tokens.
    pub length: usize,
}

/// One thing beside its tokens that a block depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExtraKey {
    /// An item of which some tokens are in the block.
    Item {
        /// Where it begins, seen from the block's first token: negative if in a block before.
        offset: i64,
        /// What it is.
        id: ItemId,
    },
    /// Something that is not understood, by a hash of what was told of it.
    Unknown(u64),
}

/// The keys of consecutive blocks, for those that have any: in the order of blocks, and of the keys in each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockExtras(Vec<(usize, ExtraKey)>);

// === impl ItemId ===

impl ItemId {
    /// The identity that an engine gives an item.
    pub fn new(name: &str) -> Self {
        Self(framed(b'i', name.as_bytes()))
    }
}

// === impl ExtraKey ===

impl ExtraKey {
    /// A key of which only the bytes are known.
    pub fn unknown(told: &[u8]) -> Self {
        Self::Unknown(framed(b'u', told))
    }

    /// The content of a block that depends on this key too. All parts have a fixed width, so no two keys are written alike.
    pub(crate) fn added_to(self, content: u64) -> u64 {
        let (kind, name, offset) = match self {
            Self::Item { offset, id } => (b'i', id.0, offset),
            Self::Unknown(name) => (b'u', name, 0),
        };
        let mut bytes = [kind; 17];
        bytes[1..9].copy_from_slice(&name.to_le_bytes());
        bytes[9..].copy_from_slice(&offset.to_le_bytes());
        xxh3_64_with_seed(&bytes, content)
    }
}

// === impl BlockExtras ===

impl BlockExtras {
    /// Keys by the number of their block, in any order.
    pub fn new(mut keys: Vec<(usize, ExtraKey)>) -> Self {
        keys.sort_unstable();
        Self(keys)
    }

    /// Those of a prompt's items in its leading `blocks` blocks.
    pub fn of_items(items: &[PromptItem], size: BlockSize, blocks: usize) -> Self {
        let size = size.get() as usize;
        let keys_of = |item: &PromptItem| {
            let PromptItem { id, offset, length } = *item;
            let behind = offset.saturating_add(length).div_ceil(size).min(blocks);
            let begins_at = offset as i64;
            (offset / size..behind)
                .map(move |block| (block, ExtraKey::Item { offset: begins_at - (block * size) as i64, id }))
        };
        Self::new(items.iter().filter(|item| item.length > 0).flat_map(keys_of).collect())
    }

    /// Whether no block has any.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The keys of one block.
    pub fn of_block(&self, block: usize) -> impl Iterator<Item = ExtraKey> {
        let start = self.0.partition_point(|(of, _)| *of < block);
        self.0[start..].iter().take_while(move |(of, _)| *of == block).map(|(_, key)| *key)
    }

    /// Makes the keys part of the contents of their blocks, which begin with the first one.
    pub fn add_to(&self, contents: &mut [BlockHash]) {
        for (block, key) in &self.0 {
            if let Some(content) = contents.get_mut(*block) {
                *content = content.with(*key);
            }
        }
    }
}

fn framed(kind: u8, part: &[u8]) -> u64 {
    let mut hasher = Xxh3::new();
    hasher.update(&[kind]);
    hasher.update(&(part.len() as u64).to_le_bytes());
    hasher.update(part);
    hasher.digest()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str, offset: usize, length: usize) -> PromptItem {
        PromptItem { id: ItemId::new(name), offset, length }
    }

    fn keys(items: &[PromptItem], blocks: usize) -> Vec<Vec<(i64, ItemId)>> {
        let extras = BlockExtras::of_items(items, BlockSize::new(4).unwrap(), blocks);
        let of = |block| {
            let item = |key| match key {
                ExtraKey::Item { offset, id } => (offset, id),
                ExtraKey::Unknown(_) => panic!("items only"),
            };
            extras.of_block(block).map(item).collect()
        };
        (0..blocks).map(of).collect()
    }

    #[test]
    fn every_block_that_an_item_overlaps_has_it_with_its_place() {
        let (a, b) = (ItemId::new("a"), ItemId::new("b"));
        let items = [item("b", 9, 3), item("a", 2, 5)];
        assert_eq!(keys(&items, 4), [vec![(2, a)], vec![(-2, a)], vec![(1, b)], vec![]]);
        assert_eq!(keys(&items, 1), [vec![(2, a)]], "what lies behind the last complete block has no place");
        assert_eq!(keys(&[item("a", 0, 4), item("b", 6, 0)], 2), [vec![(0, a)], vec![]]);
        assert_eq!(keys(&[item("a", 4, 1), item("b", 5, 1)], 2), [vec![], vec![(0, a), (1, b)]]);
    }

    #[test]
    fn an_item_without_an_end_is_cut_at_the_last_block() {
        assert_eq!(keys(&[item("a", 1, usize::MAX)], 2).iter().map(Vec::len).sum::<usize>(), 2);
    }

    #[test]
    fn each_part_of_a_key_changes_the_content_and_the_order_of_telling_does_not() {
        let of = |keys: &[ExtraKey]| {
            let mut contents = [BlockHash::of(&[1, 2])];
            BlockExtras::new(keys.iter().map(|key| (0, *key)).collect()).add_to(&mut contents);
            contents[0]
        };
        let at = |name: &str, offset| ExtraKey::Item { offset, id: ItemId::new(name) };
        let all = [
            of(&[]),
            of(&[at("a", 0)]),
            of(&[at("a", -1)]),
            of(&[at("b", 0)]),
            of(&[at("a", 0), at("b", 1)]),
            of(&[at("b", 0), at("a", 1)]),
            of(&[ExtraKey::unknown(b"a")]),
        ];
        let distinct: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
        assert_eq!(of(&[at("a", 0), at("b", 1)]), of(&[at("b", 1), at("a", 0)]));
    }

    #[test]
    fn keys_behind_the_last_block_are_left_out() {
        let mut contents = [BlockHash::of(&[1])];
        BlockExtras::new(vec![(1, ExtraKey::unknown(b"x"))]).add_to(&mut contents);
        assert_eq!(contents, [BlockHash::of(&[1])]);
    }
}
