//! What a policy may look at: one request and the ranks that could take it.

use kvroute_core::{BlockSize, RankSlot, Tokens, WorkerLoad};

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
}

/// One rank of the pool, eligible or not.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// Which rank.
    pub slot: RankSlot,
    /// Size of its blocks; [`BlockSize::DEFAULT`] where it is not known.
    pub block_size: BlockSize,
    /// Its cached prefix of the request. Zero where no index was asked or its credit is withheld.
    pub cached: CachedTokens,
    /// Leading tokens behind its cached prefix that prompts placed there, and not computed yet, are about to
    /// bring. Never part of F2 or F3: they only tell where waiting is cheaper than computing.
    pub expected: Tokens,
    /// What it is busy with.
    pub load: WorkerLoad,
    /// Why it must not be picked; `None` makes it eligible.
    pub excluded: Option<Exclusion>,
}

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

/// Why a rank that could serve the model must not get this attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Exclusion {
    /// Not started yet, or not answering.
    Unhealthy,
}

// === impl Candidate ===

impl Candidate {
    /// True if a policy may pick it.
    pub const fn is_eligible(&self) -> bool {
        self.excluded.is_none()
    }
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

// === impl Exclusion ===

impl Exclusion {
    /// The label value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unhealthy => "unhealthy",
        }
    }
}
