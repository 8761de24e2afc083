//! From who is there and who is wanted to what must change, as a function of nothing else.
//!
//! A name belongs to one worker at a time. Where another worker is wanted under the same name (another role, other event
//! addresses, another pool), the one that is there leaves first, and the next look finds the name free.

use std::collections::{BTreeMap, BTreeSet};

use kvroute_core::WorkerId;

use crate::config::WorkerConfig;

/// How far a worker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It is wanted.
    Works,
    /// It takes no new requests and finishes those that it has.
    Leaves,
    /// It has finished, and what was kept for it is being given back.
    Ends,
}

/// A worker that is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Present<'a> {
    pub(crate) plan: usize,
    pub(crate) config: &'a WorkerConfig,
    pub(crate) stage: Stage,
}

/// A worker that should be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wish<'a> {
    pub(crate) plan: usize,
    pub(crate) config: &'a WorkerConfig,
}

/// One step from who is there to who is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A worker comes.
    Add {
        /// Number of its plan.
        plan: usize,
        /// What it is.
        config: WorkerConfig,
    },
    /// A worker is to leave.
    Leave(WorkerId),
    /// A worker that was about to leave stays.
    CallBack(WorkerId),
}

/// What must change. Of several wishes under one name the first one counts.
pub(crate) fn changes(present: &[Present<'_>], wishes: &[Wish<'_>]) -> Vec<Change> {
    let mut wanted = BTreeMap::new();
    for wish in wishes {
        wanted.entry(wish.config.id()).or_insert(*wish);
    }
    let taken: BTreeSet<_> = present.iter().map(|worker| worker.config.id()).collect();
    let of_present = present.iter().filter_map(|worker| {
        let id = worker.config.id();
        let is_wanted = wanted.get(&id) == Some(&Wish { plan: worker.plan, config: worker.config });
        match (worker.stage, is_wanted) {
            (Stage::Works, false) => Some(Change::Leave(id)),
            (Stage::Leaves, true) => Some(Change::CallBack(id)),
            _ => None,
        }
    });
    let is_new = |wish: &&Wish<'_>| {
        let id = wish.config.id();
        !taken.contains(&id) && wanted.get(&id).is_some_and(|first| std::ptr::eq(first.config, wish.config))
    };
    let added = wishes.iter().filter(is_new);
    let added = added.map(|wish| Change::Add { plan: wish.plan, config: wish.config.clone() });
    of_present.chain(added).collect()
}

#[cfg(test)]
mod tests;
