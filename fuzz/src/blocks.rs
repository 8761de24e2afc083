//! What holds of stored blocks, whatever wire they came by.

use kvroute_core::StoredBlocks;

/// Whole blocks only, and no more tokens than an input of so many bytes can name.
pub fn check_stored(stored: &StoredBlocks, bytes: usize) {
    assert!(!stored.hashes.is_empty());
    assert_eq!(stored.tokens.len(), stored.hashes.len() * stored.block_size.get() as usize);
    assert!(stored.tokens.len() <= bytes, "made up {} tokens", stored.tokens.len());
    assert_ne!(stored.salt.as_deref(), Some(""));
    assert_ne!(stored.adapter.as_deref(), Some(""));
}
