//! What an engine says about its cache, whatever wire format said it.
//!
//! An event keeps the engine's own hashes only as keys, by which later removals and parent links are
//! understood; what a block *is* follows from its token ids.

use std::time::Duration;

use crate::{BlockExtras, BlockSize, DpRank, RankSlot, SequenceHash, TokenId};

/// The engine's opaque name of a block: 64 bits (signed values keep their bits) or a whole 32-byte digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EngineHash {
    /// An integer hash.
    Int(u64),
    /// A raw digest.
    Digest([u8; 32]),
}

/// Where a block's KV lives inside a worker, fastest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// The accelerator's memory: what a prefill can reuse at once.
    Device,
    /// The host's memory.
    Host,
    /// Local disk, or a medium that this router does not know: never taken for device.
    Disk,
}

/// A run of complete blocks that became cached, each the child of the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBlocks {
    /// One hash a block.
    pub hashes: Vec<EngineHash>,
    /// The block before the first one; `None` at the root.
    pub parent: Option<EngineHash>,
    /// `hashes.len() × block_size` ids.
    pub tokens: Vec<TokenId>,
    /// The engine's block size.
    pub block_size: BlockSize,
    /// Where the blocks now are.
    pub tier: Tier,
    /// Tenant salt of the first block, where the engine tells it.
    pub salt: Option<String>,
    /// Adapter name, where the engine tells it.
    pub adapter: Option<String>,
    /// What the blocks depend on beside their tokens, by their position in `hashes`.
    pub extras: BlockExtras,
}

/// One change of a rank's cache. Order inside a batch matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KvEvent {
    /// Blocks became cached. Repeats of what is known are legal.
    Stored(StoredBlocks),
    /// Copies of blocks left a tier.
    Removed {
        /// One hash a block.
        hashes: Vec<EngineHash>,
        /// The tier they left.
        tier: Tier,
    },
    /// A copy moved between tiers; the engine names it once, without its tokens.
    Moved {
        /// The block.
        hash: EngineHash,
        /// Where it was.
        from: Tier,
        /// Where it is now.
        to: Tier,
    },
    /// The rank's whole cache is empty now.
    Cleared,
}

/// One block that a rank no longer holds on any tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removal {
    /// The rank.
    pub slot: RankSlot,
    /// The block and everything before it.
    pub sequence: SequenceHash,
    /// Why it went.
    pub cause: RemovalCause,
}

closed_label! {
    /// Why a rank no longer holds a block.
    RemovalCause {
        /// The rank left the pool.
        WorkerGone = "worker_gone",
        /// Its whole cache was emptied, or its event stream began anew.
        Cleared = "cleared",
        /// The index had no room for it within its own byte budget.
        IndexBudget = "index_budget",
        /// The remembered index let it go: its time was up, its place was needed, or a report said otherwise.
        Forgotten = "forgotten",
        /// The engine said so.
        Evicted = "evicted",
    }
}

/// The last message of an event stream that was applied: its number, and a hash of its payload, which begins with a
/// time stamp. Equal values mean the same message of the same engine process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastMessage {
    /// Its sequence number.
    pub sequence: u64,
    /// XXH3-64 of its payload.
    pub content: u64,
}

/// One message of a rank's event stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventBatch {
    /// When the engine published it, since the Unix epoch by the engine's own clock.
    pub published: Option<Duration>,
    /// The rank that the payload names, where it does.
    pub dp_rank: Option<DpRank>,
    /// What could be read, in order.
    pub events: Vec<KvEvent>,
    /// Events of a known kind that could not be read; each cost itself only.
    pub undecodable: u64,
    /// Events that do not concern the prefix index: unknown kinds, other cache groups, remote copies.
    pub ignored: u64,
    /// Stores that were refused: their blocks have another size than those of the stream.
    pub rejected: u64,
}

// === impl Tier ===

impl Tier {
    /// Every tier, fastest first.
    pub const ALL: [Self; 3] = [Self::Device, Self::Host, Self::Disk];

    /// Position in [`Tier::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}
