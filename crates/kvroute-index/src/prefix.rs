//! The answer of a lookup: how far one rank's cache covers a prompt.

use kvroute_core::{BlockSize, Blocks, CachedTokens, Tier};

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

    /// Adds it to a sum in tokens, of a rank with blocks of that size.
    pub(crate) fn add_to(self, total: &mut CachedTokens, size: BlockSize) {
        total.device += size.tokens(self.device);
        total.host += size.tokens(self.host);
        total.disk += size.tokens(self.disk);
    }
}
