//! What the index knows of one request, on every rank of the pool.

use std::cell::RefCell;

use kvroute_core::{CachedTokens, HashedPrompts, RankSlot};
use kvroute_index::{Prefixes, ReportedIndex};

thread_local! {
    /// Room of the lookup at hand: a lookup among a thousand ranks need not allocate.
    static ROOM: RefCell<(Prefixes, Vec<CachedTokens>)> = RefCell::default();
}

/// Looks the prompts up and hands over the cached prefix on each of `slots`, in their order, in raw tokens.
pub(crate) fn with_cached<T>(
    index: &ReportedIndex,
    prompts: &HashedPrompts,
    slots: &[RankSlot],
    then: impl FnOnce(&[CachedTokens]) -> T,
) -> T {
    ROOM.with_borrow_mut(|(found, totals)| {
        index.cached_tokens(prompts, slots, found, totals);
        then(totals)
    })
}
