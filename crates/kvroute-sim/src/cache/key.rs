//! Block ids as this engine makes them: 64 bits, chained, from its own seed.

use kvroute_core::TokenId;

use crate::mix::fold;

/// Name of a block's content and of everything before it. Equal keys of one engine mean equal prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BlockKey(u64);

/// Makes the keys of one engine.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyChain {
    root: u64,
}

// === impl BlockKey ===

impl BlockKey {
    /// The number that is announced.
    pub(crate) const fn get(self) -> u64 {
        self.0
    }

    pub(super) const fn made(raw: u64) -> Self {
        Self(raw)
    }

    #[cfg(test)]
    pub(crate) const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }
}

// === impl KeyChain ===

impl KeyChain {
    pub(super) const fn new(seed: u64) -> Self {
        Self { root: fold(0x6b65_7973, seed) }
    }

    /// The keys of a tenant whose blocks must not be taken for others', and are not told apart outside.
    pub(super) fn hidden(self, tenant: &str) -> Self {
        Self { root: salted(fold(self.root, 1), tenant) }
    }

    /// The key of a block behind a parent. The salt enters the root block only, and through it all others.
    pub(super) fn next(self, parent: Option<BlockKey>, salt: Option<&str>, tokens: &[TokenId]) -> BlockKey {
        let start = match (parent, salt) {
            (Some(parent), _) => parent.0,
            (None, None) => self.root,
            (None, Some(salt)) => salted(self.root, salt),
        };
        BlockKey(tokens.iter().fold(start, |state, token| fold(state, u64::from(*token))))
    }
}

fn salted(root: u64, salt: &str) -> u64 {
    salt.bytes().fold(fold(root, salt.len() as u64 + 1), |state, byte| fold(state, u64::from(byte)))
}
