//! Who does the work: workers, their data-parallel ranks, models and attempts.

use std::fmt;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Configured or discovered name of one HTTP inference server. A closed set, so it may be a metric label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(Arc<str>);

/// Data-parallel rank inside a worker; each rank has a KV cache of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DpRank(u32);

/// The unit of selection: one KV cache. Ranks are part of the identity, so no map can forget them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerRank {
    /// The server.
    pub worker: WorkerId,
    /// The cache inside it.
    pub dp_rank: DpRank,
}

/// Dense number of a worker rank inside one pool, assigned by whoever owns the pool's membership.
///
/// Index, load book and policies keep their per-rank state in arrays under it. A slot may be given to
/// another rank once everything kept under it was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RankSlot(u32);

/// What a rank's name hashes to: the same after a restart of the router, whatever slot the rank gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RankKey(u64);

/// Name of a pool's model: a closed set, aliases and adapters count under it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelName(Arc<str>);

/// Fences bookings: a late release of one attempt cannot free another one's load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId(u64);

macro_rules! name {
    ($name:ident) => {
        // === impl $name ===

        impl $name {
            /// Wraps a name.
            pub fn new(name: impl Into<Arc<str>>) -> Self {
                Self(name.into())
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(WorkerId);
name!(ModelName);

// === impl DpRank ===

impl DpRank {
    /// Wraps the engine's number of the rank.
    pub const fn new(rank: u32) -> Self {
        Self(rank)
    }

    /// The engine's number of the rank.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for DpRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

// === impl WorkerRank ===

impl WorkerRank {
    /// Names one rank of a worker.
    pub const fn new(worker: WorkerId, dp_rank: DpRank) -> Self {
        Self { worker, dp_rank }
    }

    /// Tells it from every other rank, without its name at hand.
    pub fn key(&self) -> RankKey {
        RankKey(xxh3_64_with_seed(self.worker.as_str().as_bytes(), self.dp_rank.get().into()))
    }
}

impl fmt::Display for WorkerRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.worker, self.dp_rank)
    }
}

// === impl RankSlot ===

impl RankSlot {
    /// Wraps a number; small numbers cost little memory.
    pub const fn new(slot: u32) -> Self {
        Self(slot)
    }

    /// The number itself.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Position in an array with one element a rank.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

// === impl RankKey ===

impl RankKey {
    /// Wraps 64 bits.
    pub const fn new(key: u64) -> Self {
        Self(key)
    }

    /// The 64 bits.
    pub const fn get(self) -> u64 {
        self.0
    }
}

// === impl AttemptId ===

impl AttemptId {
    /// Wraps a number that is unique in this process.
    pub const fn new(id: u64) -> Self {
        Self(id)
    }

    /// The number itself.
    pub const fn get(self) -> u64 {
        self.0
    }
}
