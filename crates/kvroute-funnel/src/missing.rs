//! What is known of the blocks that no rank has where a prompt would need them.

use kvroute_core::{RemovalCause, Tokens};

/// What is known of one block of a prompt that the longest cached prefix does not cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingBlock {
    /// Its tokens, less those that the prefix covers all the same, where block sizes differ.
    pub tokens: Tokens,
    /// Its newest removal from any rank that could take the attempt.
    pub removed: Option<RemovalCause>,
    /// Whether some rank still holds it, useless behind the hole in front of it.
    pub is_held: bool,
}

/// What of an amount has no reason yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unexplained(pub(crate) Tokens);

/// Tokens of each block of one prompt with the removal that took them away: a block that is still held is lost by the
/// removal of what is missing in front of it. `None` where no removal is known.
pub(crate) fn causes(
    blocks: impl IntoIterator<Item = MissingBlock>,
) -> impl Iterator<Item = (Option<RemovalCause>, Tokens)> {
    let mut hole = None;
    blocks.into_iter().map(move |block| {
        let cause = hole.filter(|_| block.is_held).unwrap_or(block.removed);
        hole = Some(cause);
        (cause, block.tokens)
    })
}

// === impl Unexplained ===

impl Unexplained {
    /// Takes so many tokens out, or as many as there are.
    pub(crate) fn take(&mut self, tokens: Tokens) -> Tokens {
        let taken = tokens.min(self.0);
        self.0 -= taken;
        taken
    }
}
