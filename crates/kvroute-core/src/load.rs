//! What one rank is busy with, as the router booked it.

use crate::{Blocks, Tokens};

/// Booked work of one rank. All zero at rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerLoad {
    /// Prompt tokens not computed yet: input less cached prefix, until the first token arrives.
    pub prefill_tokens: Tokens,
    /// Blocks of the active sequences, shared prefixes counted once.
    pub decode_blocks: Blocks,
    /// Attempts in flight.
    pub active_requests: u64,
}
