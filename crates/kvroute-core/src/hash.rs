//! Identity of a block and of a prefix, made from token ids alone.
//!
//! An engine's own block hashes are opaque (their algorithm, width and seed differ by version), so identity is
//! recomputed here: XXH3-64 over the little-endian ids of a block, chained by XXH3-64 over (parent, content).
//! Equal values mean equal prefixes up to 64-bit collisions; only equality has a meaning. Images and their like have no
//! tokens of their own: what they are enters the content of their blocks ([`ExtraKey`]).

use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_64_with_seed};

use crate::{BlockExtras, BlockSize, Blocks, ExtraKey, Namespace, PromptItem, TokenId, Tokens};

/// Names how a block's tokens and the blocks before it become a [`SequenceHash`]. Hashes that leave the process (files,
/// messages to replicas) are told together with it, so that those of another version are never mixed with them.
pub const HASH_SCHEME: &str = "xxh3-64-chained-2";

/// Hash of the tokens of one block, whatever stands before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockHash(u64);

/// Hash of one block and of everything before it. Equal at index `i` means the same first
/// `(i + 1) × block_size` tokens in the same namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceHash(u64);

/// Chains blocks into sequence hashes; keeps the last one as the parent of the next.
#[derive(Clone, Copy, Debug)]
pub struct PrefixHasher {
    parent: u64,
}

/// A prompt cut into complete blocks of one size, with the content hash of each: the same in every namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockContents {
    block_size: BlockSize,
    tokens: Tokens,
    hashes: Vec<BlockHash>,
}

/// A prompt cut into complete blocks of one size, with the sequence hash of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptBlocks {
    block_size: BlockSize,
    tokens: Tokens,
    hashes: Vec<SequenceHash>,
}

// === impl BlockHash ===

impl BlockHash {
    /// Hashes the ids of one complete block.
    pub fn of(tokens: &[TokenId]) -> Self {
        if let Ok(block) = <&[TokenId; 16]>::try_from(tokens) {
            return Self(hash_of_sized(block));
        }
        if let Ok(block) = <&[TokenId; 32]>::try_from(tokens) {
            return Self(hash_of_sized(block));
        }
        let mut buffer = [0u8; 4 * 64];
        if tokens.len() <= 64 {
            return Self(xxh3_64(little_endian(tokens, &mut buffer)));
        }
        let mut hasher = Xxh3::new();
        tokens.chunks(64).for_each(|part| hasher.update(little_endian(part, &mut buffer)));
        Self(hasher.digest())
    }

    /// The same block where it depends on this key too.
    #[must_use]
    pub fn with(self, key: ExtraKey) -> Self {
        Self(key.added_to(self.0))
    }
}

/// The sizes of most engines: with a length that the compiler knows, a block costs half as much.
fn hash_of_sized<const SIZE: usize>(block: &[TokenId; SIZE]) -> u64 {
    let mut bytes = [[0; 4]; SIZE];
    for (bytes, token) in bytes.iter_mut().zip(block) {
        *bytes = token.to_le_bytes();
    }
    xxh3_64(bytes.as_flattened())
}

fn little_endian<'a>(tokens: &[TokenId], buffer: &'a mut [u8]) -> &'a [u8] {
    let bytes = &mut buffer[..4 * tokens.len()];
    for (chunk, token) in bytes.chunks_exact_mut(4).zip(tokens) {
        chunk.copy_from_slice(&token.to_le_bytes());
    }
    bytes
}

// === impl SequenceHash ===

impl SequenceHash {
    /// The bare 64 bits: for tables, never for display to a client.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Rebuilds a value that [`SequenceHash::get`] gave.
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }
}

// === impl PrefixHasher ===

impl PrefixHasher {
    /// Starts at the root of a namespace.
    pub const fn root(namespace: Namespace) -> Self {
        Self { parent: namespace.seed() }
    }

    /// Continues behind a block that is already known.
    pub const fn after(parent: SequenceHash) -> Self {
        Self { parent: parent.0 }
    }

    /// The sequence hash of the next block.
    pub fn push(&mut self, block: BlockHash) -> SequenceHash {
        self.parent = xxh3_64_with_seed(&block.0.to_le_bytes(), self.parent);
        SequenceHash(self.parent)
    }
}

// === impl BlockContents ===

impl BlockContents {
    /// Hashes every complete block of a prompt; the partial last block has no identity.
    pub fn new(tokens: &[TokenId], block_size: BlockSize) -> Self {
        let hashes = tokens.chunks_exact(block_size.get() as usize).map(BlockHash::of).collect();
        Self { block_size, tokens: Tokens::from(tokens.len()), hashes }
    }

    /// The same where items stand in the prompt.
    #[must_use]
    pub fn with_items(mut self, items: &[PromptItem]) -> Self {
        if !items.is_empty() {
            let extras = BlockExtras::of_items(items, self.block_size, self.hashes.len());
            extras.add_to(&mut self.hashes);
        }
        self
    }

    /// Chains the blocks from the root of a namespace.
    pub fn chain(&self, namespace: Namespace) -> PromptBlocks {
        let mut hasher = PrefixHasher::root(namespace);
        let hashes = self.hashes.iter().map(|&block| hasher.push(block)).collect();
        PromptBlocks { block_size: self.block_size, tokens: self.tokens, hashes }
    }
}

// === impl PromptBlocks ===

impl PromptBlocks {
    /// Hashes and chains every complete block of a prompt. In one go: the next block's content is hashed while the
    /// chain still waits for the last one.
    pub fn new(tokens: &[TokenId], block_size: BlockSize, namespace: Namespace) -> Self {
        let mut hasher = PrefixHasher::root(namespace);
        let blocks = tokens.chunks_exact(block_size.get() as usize);
        let hashes = blocks.map(|block| hasher.push(BlockHash::of(block))).collect();
        Self { block_size, tokens: Tokens::from(tokens.len()), hashes }
    }

    /// The size the prompt was cut by.
    pub const fn block_size(&self) -> BlockSize {
        self.block_size
    }

    /// Length of the prompt, the partial last block included.
    pub const fn tokens(&self) -> Tokens {
        self.tokens
    }

    /// Complete blocks of the prompt.
    pub fn blocks(&self) -> Blocks {
        Blocks::from(self.hashes.len())
    }

    /// One sequence hash a complete block, from the first to the last.
    pub fn hashes(&self) -> &[SequenceHash] {
        &self.hashes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hashes(tokens: &[TokenId], size: u32, namespace: Namespace) -> Vec<SequenceHash> {
        PromptBlocks::new(tokens, BlockSize::new(size).unwrap(), namespace).hashes().to_vec()
    }

    #[test]
    fn a_block_of_any_size_is_the_hash_of_its_little_endian_ids() {
        let tokens: Vec<TokenId> = (0..130).map(|index| index * 0x0123_4567).collect();
        for size in 1..=tokens.len() {
            let bytes: Vec<u8> = tokens[..size].iter().flat_map(|token| token.to_le_bytes()).collect();
            assert_eq!(BlockHash::of(&tokens[..size]), BlockHash(xxh3_64(&bytes)), "{size}");
        }
    }

    #[test]
    fn the_partial_block_has_no_hash_and_does_not_change_the_others() {
        let whole = hashes(&[1, 2, 3, 4], 2, Namespace::DEFAULT);
        assert_eq!(whole.len(), 2);
        assert_eq!(hashes(&[1, 2, 3, 4, 5], 2, Namespace::DEFAULT), whole);
    }

    #[test]
    fn the_namespace_separates_equal_tokens() {
        let salted = Namespace::new(Some("tenant-a"), None);
        assert_ne!(hashes(&[1, 2], 2, salted), hashes(&[1, 2], 2, Namespace::DEFAULT));
    }

    proptest! {
        #[test]
        fn equal_hashes_mean_equal_prefixes(
            left in prop::collection::vec(0u32..3, 0..24),
            right in prop::collection::vec(0u32..3, 0..24),
            size in 1u32..5,
        ) {
            let pairs = hashes(&left, size, Namespace::DEFAULT)
                .into_iter()
                .zip(hashes(&right, size, Namespace::DEFAULT));
            for (index, (a, b)) in pairs.enumerate() {
                let end = (index + 1) * size as usize;
                prop_assert_eq!(a == b, left[..end] == right[..end]);
            }
        }

        #[test]
        fn contents_first_and_all_at_once_are_the_same(
            tokens in prop::collection::vec(any::<u32>(), 0..200),
            size in 1u32..80,
            salt in prop::option::of("[a-z]{1,3}"),
        ) {
            let (size, namespace) = (BlockSize::new(size).unwrap(), Namespace::new(salt.as_deref(), None));
            let contents = BlockContents::new(&tokens, size);
            prop_assert_eq!(contents.chain(namespace), PromptBlocks::new(&tokens, size, namespace));
        }

        #[test]
        fn continuing_behind_a_parent_equals_hashing_from_the_root(
            tokens in prop::collection::vec(any::<u32>(), 2..200),
            size in 1usize..80,
        ) {
            let whole = hashes(&tokens, size as u32, Namespace::DEFAULT);
            for (index, block) in tokens.chunks_exact(size).enumerate().skip(1) {
                let mut hasher = PrefixHasher::after(whole[index - 1]);
                prop_assert_eq!(hasher.push(BlockHash::of(block)), whole[index]);
            }
        }
    }
}
