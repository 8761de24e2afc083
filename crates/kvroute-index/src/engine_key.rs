//! The engine's name of a block, in 64 bits.
//!
//! Engines name blocks by integers or by whole digests. The table of a rank has one entry a block, so its key
//! is kept at 64 bits; a digest is hashed down. Two blocks of one rank collide as rarely as two sequence
//! hashes do.

use kvroute_core::{EngineHash, Tier};
use xxhash_rust::xxh3::xxh3_64;

/// Key of a block in the tables of one rank. Meaningless outside of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EngineKey(u64);

/// A block on a tier, by the engine's name: what a store or a removal speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EngineBlock {
    pub(crate) tier: Tier,
    pub(crate) key: EngineKey,
}

// === impl EngineKey ===

impl EngineKey {
    /// The bare 64 bits.
    pub(crate) const fn get(self) -> u64 {
        self.0
    }

    /// Rebuilds a value that [`EngineKey::get`] gave, or takes a sequence as a block's own name.
    pub(crate) const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }
}

impl From<&EngineHash> for EngineKey {
    #[inline]
    fn from(hash: &EngineHash) -> Self {
        match hash {
            EngineHash::Int(value) => Self(*value),
            EngineHash::Digest(digest) => Self(xxh3_64(digest)),
        }
    }
}
