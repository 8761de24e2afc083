//! What must be the same where sequence hashes of two histories are to mean the same prefixes.

use std::fmt;

use kvroute_core::{BlockSize, HASH_SCHEME, ModelName, NAMESPACE_SCHEME};

/// The model and everything that its sequence hashes are made by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Domain {
    /// The pool's model.
    pub model: String,
    /// Tokens in a block.
    pub block_size: u32,
    /// How a block's content and its parent become a hash.
    pub hash_scheme: String,
    /// How salt, adapter and images become the first parent.
    pub namespace_scheme: String,
}

// === impl Domain ===

impl Domain {
    /// The domain of a pool of this program.
    pub fn of(model: &ModelName, block_size: BlockSize) -> Self {
        Self {
            model: model.to_string(),
            block_size: block_size.get(),
            hash_scheme: HASH_SCHEME.to_owned(),
            namespace_scheme: NAMESPACE_SCHEME.to_owned(),
        }
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, block_size, hash_scheme, namespace_scheme } = self;
        write!(f, "{model}, blocks of {block_size}, {hash_scheme}, {namespace_scheme}")
    }
}
