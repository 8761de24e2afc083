//! The naive model: every block by its whole prefix, every question by a search.

use std::collections::{BTreeMap, BTreeSet};

use kvroute_core::{Blocks, EngineHash, KvEvent, StoredBlocks, Tier};
use kvroute_index::{Applied, CachedPrefix};

/// A namespace (salted or not) and all tokens up to the end of a block.
pub(crate) type Prefix = (bool, Vec<u32>);

#[derive(Default)]
pub(crate) struct Model {
    ranks: BTreeMap<u32, Rank>,
}

#[derive(Default)]
struct Rank {
    block_size: Option<u32>,
    held: BTreeMap<(Tier, u64), Prefix>,
    waiting: Vec<Waiting>,
}

struct Waiting {
    tier: Tier,
    name: u64,
    parent: u64,
    tokens: Vec<u32>,
}

impl Model {
    pub(crate) fn apply(&mut self, slot: u32, event: &KvEvent) -> Applied {
        let rank = self.ranks.entry(slot).or_default();
        let mut applied = Applied::default();
        match event {
            KvEvent::Stored(event) => rank.store(event, &mut applied),
            KvEvent::Removed { hashes, tier } => {
                hashes.iter().for_each(|hash| rank.remove(*tier, name(hash), &mut applied));
            }
            KvEvent::Moved { hash, from, to } => rank.relocate(name(hash), *from, *to, &mut applied),
            KvEvent::Cleared => {
                applied.removed = rank.held.len() as u64;
                *rank = Rank { block_size: rank.block_size, ..Rank::default() };
            }
        }
        applied
    }

    pub(crate) fn leave(&mut self, slot: u32) {
        self.ranks.remove(&slot);
    }

    /// A rank that comes back from a snapshot: everything but the blocks that wait.
    pub(crate) fn reload(&mut self, slot: u32) {
        if let Some(rank) = self.ranks.get_mut(&slot) {
            rank.waiting.clear();
        }
    }

    /// What a rank holds on whichever tier.
    pub(crate) fn held(&self, slot: u32) -> BTreeSet<Prefix> {
        self.ranks.get(&slot).map_or_else(BTreeSet::new, |rank| rank.held.values().cloned().collect())
    }

    pub(crate) fn distinct(&self, slot: u32, tier: Tier) -> usize {
        self.ranks.get(&slot).map_or(0, |rank| {
            rank.held
                .iter()
                .filter(|((at, _), _)| *at == tier)
                .map(|(_, prefix)| prefix)
                .collect::<BTreeSet<_>>()
                .len()
        })
    }

    pub(crate) fn waiting(&self, slot: u32) -> usize {
        self.ranks.get(&slot).map_or(0, |rank| rank.waiting.len())
    }

    pub(crate) fn block_size(&self, slot: u32) -> Option<u32> {
        self.ranks.get(&slot).and_then(|rank| rank.block_size)
    }

    pub(crate) fn cached_prefix(
        &self,
        slot: u32,
        size: u32,
        prefix_of: impl Fn(usize) -> Prefix,
        blocks: usize,
    ) -> CachedPrefix {
        let Some(rank) = self.ranks.get(&slot).filter(|rank| rank.block_size == Some(size)) else {
            return CachedPrefix::default();
        };
        let mut end = 0;
        let [device, host, disk] = Tier::ALL.map(|tier| {
            let start = end;
            while end < blocks && rank.holds(tier, &prefix_of(end + 1)) {
                end += 1;
            }
            Blocks::from(end - start)
        });
        CachedPrefix { device, host, disk }
    }
}

impl Rank {
    fn store(&mut self, event: &StoredBlocks, applied: &mut Applied) {
        let size = event.block_size.get();
        if self.block_size != Some(size) && (!self.held.is_empty() || !self.waiting.is_empty()) {
            applied.rejected += 1;
            return;
        }
        self.block_size = Some(size);
        let mut parent = event.parent.as_ref().map(name);
        for (hash, tokens) in event.hashes.iter().zip(event.tokens.chunks(size as usize)) {
            let block = name(hash);
            match self.prefix_behind(parent, event, tokens).or_else(|| self.meaning(block)) {
                Some(prefix) => {
                    self.hold(event.tier, block, prefix, applied);
                    self.settle(applied);
                }
                None => self.set_aside(event.tier, block, parent, tokens, applied),
            }
            parent = Some(block);
        }
    }

    fn prefix_behind(&self, parent: Option<u64>, event: &StoredBlocks, tokens: &[u32]) -> Option<Prefix> {
        let before = match parent {
            None => Some((event.salt.is_some(), Vec::new())),
            Some(parent) => self.meaning(parent),
        };
        before.map(|(salted, before)| (salted, [&before, tokens].concat()))
    }

    fn meaning(&self, block: u64) -> Option<Prefix> {
        self.held.iter().find(|((_, name), _)| *name == block).map(|(_, prefix)| prefix.clone())
    }

    fn hold(&mut self, tier: Tier, block: u64, prefix: Prefix, applied: &mut Applied) {
        if self.meaning(block).is_some_and(|meaning| meaning != prefix) {
            self.held.retain(|(_, name), _| *name != block);
            applied.conflicting += 1;
        }
        self.waiting.retain(|waiting| (waiting.tier, waiting.name) != (tier, block));
        match self.held.insert((tier, block), prefix) {
            Some(_) => applied.duplicate += 1,
            None => applied.stored += 1,
        }
    }

    /// Holds every waiting block that can be understood by now.
    fn settle(&mut self, applied: &mut Applied) {
        while let Some((at, prefix)) = self.understood() {
            let block = self.waiting.remove(at);
            self.hold(block.tier, block.name, prefix, applied);
        }
    }

    fn understood(&self) -> Option<(usize, Prefix)> {
        self.waiting.iter().enumerate().find_map(|(at, block)| {
            let by_name = self.meaning(block.name);
            let by_parent = || {
                self.meaning(block.parent)
                    .map(|(salted, before)| (salted, [before, block.tokens.clone()].concat()))
            };
            by_name.or_else(by_parent).map(|prefix| (at, prefix))
        })
    }

    fn set_aside(
        &mut self,
        tier: Tier,
        name: u64,
        parent: Option<u64>,
        tokens: &[u32],
        applied: &mut Applied,
    ) {
        let parent = parent.unwrap();
        let block = Waiting { tier, name, parent, tokens: tokens.to_vec() };
        match self.waiting.iter_mut().find(|waiting| (waiting.tier, waiting.name) == (tier, name)) {
            Some(known) if known.parent == parent && known.tokens == tokens => applied.duplicate += 1,
            Some(known) => {
                *known = block;
                applied.orphaned += 1;
            }
            None => {
                self.waiting.push(block);
                applied.orphaned += 1;
            }
        }
    }

    fn remove(&mut self, tier: Tier, block: u64, applied: &mut Applied) {
        let waiting = self.waiting.len();
        self.waiting.retain(|waiting| (waiting.tier, waiting.name) != (tier, block));
        if self.held.remove(&(tier, block)).is_some() || self.waiting.len() < waiting {
            applied.removed += 1;
        } else {
            applied.unknown += 1;
        }
    }

    fn relocate(&mut self, block: u64, from: Tier, to: Tier, applied: &mut Applied) {
        let Some(prefix) = self.held.get(&(from, block)).cloned() else {
            applied.unknown += 1;
            return;
        };
        if from == to {
            return;
        }
        self.hold(to, block, prefix, applied);
        self.remove(from, block, applied);
    }

    fn holds(&self, tier: Tier, prefix: &Prefix) -> bool {
        self.held.iter().any(|((at, _), held)| *at == tier && held == prefix)
    }
}

fn name(hash: &EngineHash) -> u64 {
    match hash {
        EngineHash::Int(name) => *name,
        EngineHash::Digest(_) => panic!("the model names blocks by integers"),
    }
}
