//! The answer of a lookup: how far one rank's cache covers a prompt.

use kvroute_core::{Blocks, Tier};

/// Leading blocks of a prompt that one rank holds, without a hole.
///
/// Device blocks count from the first block on, host blocks continue where device ended, disk blocks where
/// host ended. Never a sum of independent matches: a block that two tiers hold counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CachedPrefix {
    /// Blocks in the accelerator's memory.
    pub device: Blocks,
    /// Blocks behind those, in the host's memory.
    pub host: Blocks,
    /// Blocks behind those, on disk.
    pub disk: Blocks,
}

// === impl CachedPrefix ===

impl CachedPrefix {
    /// Length of the cached prefix over all tiers: raw, never weighted.
    pub fn blocks(self) -> Blocks {
        self.device + self.host + self.disk
    }

    /// Blocks that one tier adds.
    pub const fn tier(self, tier: Tier) -> Blocks {
        match tier {
            Tier::Device => self.device,
            Tier::Host => self.host,
            Tier::Disk => self.disk,
        }
    }
}
