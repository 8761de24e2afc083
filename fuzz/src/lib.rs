//! What fuzz targets need: cutting an input into the pieces in which a network might bring it, changing JSON as a tree,
//! judging what was read of stored blocks.
//!
//! A target's first bytes choose how (which endpoint, which sizes), the rest is what a stranger sends. So a seed is a
//! captured message with a few bytes in front, and the fuzzer mutates both with the same means.

mod blocks;
pub mod json_tree;
mod pieces;

pub use blocks::check_stored;
pub use pieces::{PieceReader, Pieces};
