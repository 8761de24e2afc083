//! Images in a prompt: what tells their blocks apart, whose tokens are the same placeholder.

use std::sync::Arc;

use super::BlockKey;
use crate::mix::fold;

/// An image of a prompt, and the tokens that stand for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ImageSpan {
    /// What the engine calls it: equal images have equal names.
    pub(crate) name: Arc<str>,
    /// Position of its first token.
    pub(crate) offset: usize,
    /// Number of its tokens, at least 1.
    pub(crate) length: usize,
}

/// An image of which some tokens are in a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ImageInBlock {
    /// Which block of several.
    pub(crate) block: usize,
    /// What the engine calls it.
    pub(crate) name: Arc<str>,
    /// Where it begins, seen from the block's first token.
    pub(crate) offset: i64,
}

// === impl ImageSpan ===

impl ImageSpan {
    /// Where it begins, seen from the first of these tokens; `None` if it is not among them.
    fn seen_from(&self, start: usize, size: usize) -> Option<i64> {
        let overlaps = self.offset < start + size && start < self.offset + self.length;
        overlaps.then(|| self.offset as i64 - start as i64)
    }
}

/// The images in the blocks of a range, numbered from its start.
pub(super) fn in_blocks(
    images: &[ImageSpan],
    range: std::ops::Range<usize>,
    block_size: usize,
) -> Vec<ImageInBlock> {
    let first = range.start;
    let in_block = |index: usize| {
        images.iter().filter_map(move |image| {
            let offset = image.seen_from(index * block_size, block_size)?;
            Some(ImageInBlock { block: index - first, name: Arc::clone(&image.name), offset })
        })
    };
    range.flat_map(in_block).collect()
}

/// The key of a block with these images, from that of its tokens.
pub(super) fn key_with(key: BlockKey, images: &[ImageSpan], start: usize, block_size: usize) -> BlockKey {
    images.iter().fold(key, |key, image| match image.seen_from(start, block_size) {
        None => key,
        Some(offset) => {
            let named = image
                .name
                .bytes()
                .fold(fold(key.get(), image.name.len() as u64), |state, byte| fold(state, u64::from(byte)));
            BlockKey::made(fold(named, offset.cast_unsigned()))
        }
    })
}
