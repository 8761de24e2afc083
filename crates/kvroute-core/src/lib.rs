//! The vocabulary of the whole router: numbers with a meaning, block identity, KV events and the
//! invariants that every layer shares.
//!
//! Nothing here knows a clock, a socket or a metric. A number that crosses a crate boundary has one of
//! these types, so that blocks cannot be added to tokens and a content hash cannot stand in for a chained one.

#![forbid(unsafe_code)]

#[macro_use]
mod closed;
mod block;
mod cached;
mod event;
mod extra;
mod hash;
mod hashed_prompts;
pub mod invariants;
mod load;
mod loss;
mod namespace;
mod phase;
mod prehashed;
mod quantity;
mod report;
mod role;
mod sharing;
mod source;
mod speed;
mod worker;

pub use block::{BlockSize, ZeroBlockSize};
pub use cached::CachedTokens;
pub use event::{EngineHash, EventBatch, KvEvent, LastMessage, Removal, RemovalCause, StoredBlocks, Tier};
pub use extra::{BlockExtras, ExtraKey, ItemId, PromptItem};
pub use hash::{BlockContents, BlockHash, HASH_SCHEME, PrefixHasher, PromptBlocks, SequenceHash};
pub use hashed_prompts::HashedPrompts;
pub use load::WorkerLoad;
pub use loss::{Exclusion, PlacementReason};
pub use namespace::{NAMESPACE_SCHEME, Namespace};
pub use phase::Phase;
pub use prehashed::{FoldHasher, PrehashedMap};
pub use quantity::{Blocks, Tokens};
pub use report::{Figure, ReportSource, WorkerReport};
pub use role::WorkerRole;
pub use sharing::{Direction, MessageResult, SharingState};
pub use source::{ReplayOutcome, SourceState};
pub use speed::TokensPerSecond;
pub use worker::{AttemptId, DpRank, ModelName, RankKey, RankSlot, WorkerId, WorkerRank};

/// One id of a model's tokenizer.
pub type TokenId = u32;
