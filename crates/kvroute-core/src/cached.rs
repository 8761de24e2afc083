//! How much of a prompt a rank has cached, by memory tier.

use crate::Tokens;

/// A cached prefix in raw tokens, each tier continuing where the faster one ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CachedTokens {
    /// In the accelerator's memory.
    pub device: Tokens,
    /// Behind those, in the host's memory.
    pub host: Tokens,
    /// Behind those, on disk.
    pub disk: Tokens,
}

// === impl CachedTokens ===

impl CachedTokens {
    /// No cached prefix.
    pub const NONE: Self = Self { device: Tokens::ZERO, host: Tokens::ZERO, disk: Tokens::ZERO };

    /// Length of the prefix over all tiers: raw, never weighted.
    pub fn total(self) -> Tokens {
        self.device + self.host + self.disk
    }
}
