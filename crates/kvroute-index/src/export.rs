//! What a snapshot keeps of one rank: its blocks, without the tokens that made them.

use kvroute_core::{BlockSize, SequenceHash, Tier};

/// Everything that one rank holds, in an order in which it can be stored again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankExport {
    /// Size of the rank's blocks, once an event showed it.
    pub block_size: Option<BlockSize>,
    /// The copies, fastest tier first. Blocks that wait for their parent are not among them.
    pub runs: Vec<ExportedRun>,
}

/// Consecutive blocks on one tier: each is the child of the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedRun {
    /// Where the blocks are.
    pub tier: Tier,
    /// From the first to the last.
    pub blocks: Vec<ExportedBlock>,
}

/// One copy of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportedBlock {
    /// The engine's name in 64 bits, as the index keeps it; means something on this rank only.
    pub engine_key: u64,
    /// The block and everything before it.
    pub sequence: SequenceHash,
}
