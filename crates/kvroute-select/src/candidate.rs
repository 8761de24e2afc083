//! What a policy may look at: one request and the ranks that could take it.

use std::time::Duration;

use kvroute_core::{BlockSize, CachedTokens, Exclusion, RankKey, RankSlot, Tokens, WorkerLoad};

use crate::CostWeights;

/// What is to be placed.
#[derive(Clone, Copy, Debug)]
pub struct RequestShape {
    /// Prompt tokens of all prompts; a byte estimate where the prompt was not tokenized.
    pub input: Tokens,
    /// The pool's smallest block size: the unit of cost.
    pub unit: BlockSize,
    /// The pool's weights, or those a trusted caller asked for.
    pub weights: CostWeights,
    /// What it has in common with other requests.
    pub affinity: Affinity,
    /// Mean of the eligible ranks' recent work: what is beyond it is more than a rank's share.
    pub fair_recent: Tokens,
    /// Whether the caller named the rank; the others are excluded then.
    pub is_pinned: bool,
    /// When it is placed, by the clock that all calls share.
    pub now: Duration,
}

/// What a request has in common with others that may want the same rank; absent where it says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Affinity {
    /// The session that the client named.
    pub session: Option<AffinityKey>,
    /// The first bytes of its prompt.
    pub head: Option<AffinityKey>,
}

/// Equal for requests that belong together: a hash, so that no name or prompt is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AffinityKey(u64);

/// One rank of the pool, eligible or not.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// Which rank.
    pub slot: RankSlot,
    /// The same rank by its name: stable where slots are not.
    pub key: RankKey,
    /// Size of its blocks; [`BlockSize::DEFAULT`] where it is not known.
    pub block_size: BlockSize,
    /// Its cached prefix of the request. Zero where no index was asked or its credit is withheld.
    pub cached: CachedTokens,
    /// Leading tokens behind its cached prefix that prompts placed there, and not computed yet, are about to
    /// bring. Never part of F2 or F3: they only tell where waiting is cheaper than computing.
    pub expected: Tokens,
    /// What it is busy with.
    pub load: WorkerLoad,
    /// Tokens of context that its active sequences read at every step: each its own, shared or not.
    pub context: Tokens,
    /// What it was given lately, fading with time: never zero at once, so that it is no load.
    pub recent: Tokens,
    /// Why it must not be picked; `None` makes it eligible.
    pub excluded: Option<Exclusion>,
}

// === impl AffinityKey ===

impl AffinityKey {
    /// Wraps a hash of what makes requests belong together.
    pub const fn new(hash: u64) -> Self {
        Self(hash)
    }

    /// The hash.
    pub const fn get(self) -> u64 {
        self.0
    }
}

// === impl Candidate ===

impl Candidate {
    /// True if a policy may pick it.
    pub const fn is_eligible(&self) -> bool {
        self.excluded.is_none()
    }

    /// Excludes it, for this reason unless one that it has already comes first.
    pub fn exclude(&mut self, reason: Exclusion) {
        self.excluded = Some(self.excluded.map_or(reason, |known| known.min(reason)));
    }
}
