//! What one event changed, as counts for metrics and for the judgement of a source's state.

use std::ops::AddAssign;

/// Outcome of applying an event. All but `rejected` are blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "orphaned, dropped and rejected tell that the event stream lost something"]
pub struct Applied {
    /// Copies that are new to their tier, orphans that found their parent included.
    pub stored: u64,
    /// Stores of what was known already: legal, and without effect.
    pub duplicate: u64,
    /// Copies that left a tier by a removal or a clear.
    pub removed: u64,
    /// Blocks set aside because their parent is unknown. They do not count for any prompt.
    pub orphaned: u64,
    /// Removals of a block that this tier is not known to hold.
    pub unknown: u64,
    /// Engine hashes that now name another sequence than before. The older copy was forgotten, because a
    /// hash that changed its meaning tells that a clear was missed.
    pub conflicting: u64,
    /// Orphans forgotten: their rank already set aside as many as it may.
    pub dropped: u64,
    /// Copies that the index's own byte budget pushed out, of whichever rank.
    pub evicted: u64,
    /// Events refused whole: the token count contradicts the blocks, or the block size the rank's other blocks.
    pub rejected: u64,
}

// === impl Applied ===

impl AddAssign for Applied {
    fn add_assign(&mut self, other: Self) {
        self.stored += other.stored;
        self.duplicate += other.duplicate;
        self.removed += other.removed;
        self.orphaned += other.orphaned;
        self.unknown += other.unknown;
        self.conflicting += other.conflicting;
        self.dropped += other.dropped;
        self.evicted += other.evicted;
        self.rejected += other.rejected;
    }
}
