//! How KV gets from one simulated engine to another: the part that real engines do over NIXL, Mooncake or UCX.
//!
//! The engine that computed a prompt keeps its room and listens on a port of its own. The other one connects, names
//! what it wants, and is told how many tokens there are and what they hash to, so that KV of another prompt is never
//! taken for that of this one. Then the room is given back. Nobody comes in time: the room is given back all the same,
//! and that is counted.
//!
//! One line each way: the key, then `ok TOKENS DIGEST REUSED` or `gone`. How much the first engine had reused goes with it,
//! because some engines tell that as their own.

mod client;
mod desk;
mod server;

use kvroute_core::TokenId;

use crate::mix::fold;

pub(crate) use client::{Pulled, pull};
pub(crate) use desk::{Kv, Offer, TransferDesk};
pub(crate) use server::TransferServer;

/// What a prompt is recognised by.
fn digest(tokens: &[TokenId]) -> u64 {
    tokens.iter().fold(fold(0x6b76, tokens.len() as u64), |state, token| fold(state, u64::from(*token)))
}
