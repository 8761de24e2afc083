//! A real index with its tombstones: every reason by example, then any history against a literal reading of the rule.

use std::sync::LazyLock;
use std::time::Duration;

use kvroute_core::{
    AttemptId, BlockExtras, BlockSize, DpRank, EngineHash, KvEvent, Namespace, Phase, RankSlot, StoredBlocks,
    Tier, TokenId, WorkerId, WorkerRank, WorkerRole,
};
use kvroute_engine::EngineKind;
use kvroute_engine::events::SourceStatus;
use kvroute_index::RememberedRank;
use kvroute_metrics::{Metrics, MetricsOptions, WorkerType};
use kvroute_select::{Affinity, CostWeights};

use super::*;
use crate::cached_view::with_cached;
use crate::config::WorkerConfig;
use crate::memory::Memory;
use crate::rank::RankParams;
use crate::source::RankSource;
use crate::worker::Worker;

mod against_model;
mod with_history;

/// Where series of ranks go; making it takes longer than most tests.
static METRICS: LazyLock<Metrics> = LazyLock::new(|| Metrics::new(&MetricsOptions::default()).unwrap());

/// Some ranks and what is known of them.
struct World {
    knowledge: Knowledge,
    ranks: Vec<Arc<Rank>>,
}

/// What a rank's source is.
#[derive(Clone, Copy, Debug)]
enum Tells {
    Everything,
    NotAlways,
    Remembered,
    Nothing,
}

const NOW: Duration = Duration::from_millis(1);

// === impl World ===

impl World {
    /// One rank whose source is exact for each block size.
    fn new(sizes: &[u32]) -> Self {
        let mut world = Self::within(8 << 20);
        for &size in sizes {
            world.joins(size, Tells::Everything);
        }
        world
    }

    fn within(bytes: usize) -> Self {
        Self { knowledge: Knowledge::new(bytes), ranks: Vec::new() }
    }

    fn joins(&mut self, size: u32, tells: Tells) {
        let slot = (0..).map(RankSlot::new).find(|slot| self.ranks.iter().all(|rank| rank.slot != *slot));
        let rank = self.rank(slot.unwrap(), BlockSize::new(size).unwrap(), tells);
        self.ranks.push(Arc::new(rank));
    }

    fn rank(&self, slot: RankSlot, block_size: BlockSize, tells: Tells) -> Rank {
        let worker = Worker::new(WorkerConfig::at(format!("http://w{}:1", slot.get())), &METRICS);
        let name = WorkerRank::new(WorkerId::new(format!("w{}:1", slot.get())), DpRank::new(0));
        Rank::new(RankParams {
            slot,
            worker: Arc::new(worker),
            engine: EngineKind::Vllm,
            role: WorkerRole::Aggregated,
            bootstrap_port: 0,
            ranks_of_worker: 1,
            block_size,
            metrics: METRICS.rank(&name, WorkerType::Decode),
            source: self.source(&name, slot, block_size, tells),
            told_load: None,
            busy_above: None,
            adapters: std::collections::BTreeSet::new(),
            name,
        })
    }

    fn source(&self, name: &WorkerRank, slot: RankSlot, size: BlockSize, tells: Tells) -> Option<RankSource> {
        let shown = || METRICS.source(name, SourceState::Degraded);
        match tells {
            Tells::Nothing => None,
            Tells::Remembered => {
                let remembered = RememberedRank::new(slot, size, Duration::from_secs(60), None);
                let memory = Memory::new(remembered, METRICS.remembered(name));
                Some(RankSource::remembered(name, memory, shown(), NOW))
            }
            Tells::Everything | Tells::NotAlways => {
                let source = RankSource::reported(name, None, None, shown(), NOW);
                if matches!(tells, Tells::Everything) {
                    source.learn(NOW, |trust| trust.stream(SourceStatus::EXACT, NOW));
                }
                Some(source)
            }
        }
    }

    /// The rank leaves, and another one may get its slot.
    fn leaves(&mut self, rank: usize) {
        let left = self.ranks.remove(rank);
        self.knowledge.remove(left.slot);
    }

    /// The leading blocks of a prompt are cached.
    fn stores(&self, rank: usize, prompt: &[TokenId], blocks: usize) {
        let size = self.ranks[rank].block_size();
        let tokens = prompt[..blocks * size.get() as usize].to_vec();
        let names = names(prompt, size);
        let stored = StoredBlocks {
            hashes: names[..blocks].to_vec(),
            parent: None,
            tokens,
            block_size: size,
            tier: Tier::Device,
            salt: None,
            adapter: None,
            extras: BlockExtras::default(),
        };
        self.tell(rank, KvEvent::Stored(stored));
    }

    /// The engine evicts one block of a prompt.
    fn evicts(&self, rank: usize, prompt: &[TokenId], block: usize) {
        let hashes = vec![names(prompt, self.ranks[rank].block_size())[block]];
        self.tell(rank, KvEvent::Removed { hashes, tier: Tier::Device });
    }

    fn tell(&self, rank: usize, event: KvEvent) {
        let applied = self.knowledge.apply(self.ranks[rank].slot, &[event]);
        assert_eq!((applied.rejected, applied.orphaned, applied.conflicting), (0, 0, 0));
    }

    fn hashed(&self, prompts: &[Vec<TokenId>]) -> HashedPrompts {
        let mut sizes: Vec<_> = self.ranks.iter().map(|rank| rank.block_size()).collect();
        sizes.sort();
        sizes.dedup();
        HashedPrompts::new(prompts, &sizes, Namespace::DEFAULT, || {})
    }

    /// What is lost before A, once `meanwhile` has happened between the lookup and the question why.
    fn lost_after(&self, prompts: &[Vec<TokenId>], meanwhile: impl FnOnce()) -> (Tokens, UnavailableLoss) {
        match self.absent(prompts, None, meanwhile) {
            (anywhere, AbsentLoss::Unavailable(lost)) => (anywhere, lost),
            (_, lost) => panic!("{lost:?} without a history"),
        }
    }

    /// A, and what is lost before it, where a history knows so many blocks of each prompt.
    fn absent(
        &self,
        prompts: &[Vec<TokenId>],
        known: Option<&[u64]>,
        meanwhile: impl FnOnce(),
    ) -> (Tokens, AbsentLoss) {
        let hashed = self.hashed(prompts);
        let slots: Vec<_> = self.ranks.iter().map(|rank| rank.slot).collect();
        let lengths: Vec<_> = prompts.iter().map(|prompt| Tokens::from(prompt.len())).collect();
        let cached = with_cached(self.knowledge.index(), &hashed, &slots, <[CachedTokens]>::to_vec);
        meanwhile();
        let inquiry = Inquiry {
            phase: Phase::Aggregated,
            engine: None,
            takers: &[],
            has_others: false,
            ranks: &self.ranks,
            cached: Some(&cached),
            hashed: &hashed,
            prompt_lengths: &lengths,
            choices: 1,
            is_stream: false,
            weights: CostWeights::default(),
            affinity: Affinity::default(),
            pin: None,
            adapter: None,
            tried: &[],
        };
        let anywhere = cached.iter().map(|tokens| tokens.total()).max().unwrap_or_default();
        let known = known.map(|blocks| {
            let size = self.ranks.iter().map(|rank| rank.block_size()).min().unwrap();
            let of_prompts: Vec<_> = blocks.iter().map(|blocks| size.tokens(Blocks::new(*blocks))).collect();
            Known { size, total: of_prompts.iter().copied().sum(), of_prompts }
        });
        let lost = absent(&self.knowledge, &inquiry, known.as_ref()).unwrap();
        let history = known.map(|known| known.total);
        assert!(lost.closes(lengths.iter().copied().sum(), history, anywhere), "{lost:?}");
        (anywhere, lost)
    }

    /// What is lost, by reason; what is not is left out.
    fn lost(&self, prompts: &[&[TokenId]]) -> Vec<(&'static str, u64)> {
        let prompts: Vec<_> = prompts.iter().map(|prompt| prompt.to_vec()).collect();
        shown(&self.lost_after(&prompts, || {}).1)
    }
}

fn shown(loss: &UnavailableLoss) -> Vec<(&'static str, u64)> {
    let lost = loss.by_reason().filter(|(_, tokens)| !tokens.is_zero());
    lost.map(|(reason, tokens)| (reason.as_str(), tokens.get())).collect()
}

/// The engine's names of a prompt's blocks.
fn names(prompt: &[TokenId], size: BlockSize) -> Vec<EngineHash> {
    let blocks = PromptBlocks::new(prompt, size, Namespace::DEFAULT);
    blocks.hashes().iter().map(|hash| EngineHash::Int(hash.get())).collect()
}

/// A prompt that shares nothing with one of another seed.
fn prompt(seed: u32, tokens: u32) -> Vec<TokenId> {
    (0..tokens).map(|position| seed * 1_000_000 + position).collect()
}

#[test]
fn what_nobody_ever_had_is_not_cached_and_the_end_of_the_prompt_is_partial() {
    let world = World::new(&[16]);
    assert_eq!(world.lost(&[&prompt(1, 100)]), [("partial_block", 4), ("not_cached", 96)]);
    world.stores(0, &prompt(1, 100), 6);
    assert_eq!(world.lost(&[&prompt(1, 100)]), [("partial_block", 4)]);
    assert_eq!(world.lost(&[&prompt(1, 96)]), []);
}

#[test]
fn an_evicted_tail_is_evicted_and_what_comes_behind_it_is_new() {
    let world = World::new(&[16]);
    world.stores(0, &prompt(1, 64), 4);
    world.evicts(0, &prompt(1, 64), 3);
    world.evicts(0, &prompt(1, 64), 2);
    assert_eq!(world.lost(&[&prompt(1, 100)]), [("partial_block", 4), ("evicted", 32), ("not_cached", 32)]);
}

#[test]
fn a_cleared_cache_is_cleared() {
    let world = World::new(&[16]);
    world.stores(0, &prompt(1, 64), 4);
    world.tell(0, KvEvent::Cleared);
    assert_eq!(world.lost(&[&prompt(1, 64)]), [("cleared", 64)]);
}

#[test]
fn a_worker_that_left_is_gone_even_when_another_has_its_slot() {
    let mut world = World::new(&[16, 16]);
    world.stores(0, &prompt(1, 64), 4);
    world.leaves(0);
    assert_eq!(world.lost(&[&prompt(1, 64)]), [("worker_gone", 64)]);
    world.joins(16, Tells::Everything);
    assert_eq!(world.lost(&[&prompt(1, 64)]), [("worker_gone", 64)]);
}

#[test]
fn what_the_index_had_no_room_for_is_its_own_eviction() {
    let mut world = World::within(1 << 20);
    world.joins(16, Tells::Everything);
    let mut stored = 0;
    while world.knowledge.take_pushed_out() == 0 {
        stored += 1;
        world.stores(0, &prompt(stored, 1024), 64);
    }
    let lost: Vec<_> = (1..=stored).flat_map(|seed| world.lost(&[&prompt(seed, 1024)])).collect();
    assert!(!lost.is_empty());
    assert!(lost.iter().all(|(reason, _)| *reason == "index_budget"), "{lost:?}");
}

#[test]
fn what_the_memory_let_go_is_forgotten() {
    let mut world = World::within(8 << 20);
    world.joins(16, Tells::Remembered);
    let (attempt, asked) = (AttemptId::new(1), prompt(1, 64));
    let memory = world.ranks[0].source.as_ref().unwrap().memory().unwrap();
    let hashed = world.hashed(std::slice::from_ref(&asked));
    memory.placed(&world.knowledge, attempt, hashed.of_size(BlockSize::DEFAULT));
    memory.grew(&world.knowledge, attempt, kvroute_core::Blocks::new(1));
    assert_eq!(world.lost(&[&asked]), []);
    memory.forget(&world.knowledge, world.ranks[0].slot);
    assert_eq!(world.lost(&[&asked]), [("forgotten", 64)]);
}

#[test]
fn of_several_removals_the_newest_counts() {
    let mut world = World::new(&[16, 16]);
    for rank in 0..2 {
        world.stores(rank, &prompt(1, 64), 4);
    }
    world.tell(0, KvEvent::Cleared);
    world.evicts(1, &prompt(1, 64), 3);
    assert_eq!(world.lost(&[&prompt(1, 64)]), [("evicted", 16)]);
    world.leaves(1);
    assert_eq!(world.lost(&[&prompt(1, 64)]), [("worker_gone", 48), ("evicted", 16)]);
}

#[test]
fn what_is_held_behind_a_hole_is_lost_with_the_hole() {
    let world = World::new(&[16]);
    world.stores(0, &prompt(1, 96), 6);
    world.evicts(0, &prompt(1, 96), 2);
    assert_eq!(world.lost(&[&prompt(1, 96)]), [("evicted", 64)]);
    assert_eq!(world.lost(&[&prompt(1, 50)]), [("partial_block", 2), ("evicted", 16)]);
}

/// The hole lies in what another rank has: nothing of it is missing, and yet it is why the rest is of no use.
#[test]
fn what_is_held_behind_a_hole_that_another_rank_covers_was_called_not_cached() {
    let world = World::new(&[16, 16]);
    world.stores(0, &prompt(1, 64), 4);
    world.stores(1, &prompt(1, 64), 2);
    world.evicts(0, &prompt(1, 64), 1);
    assert_eq!(world.lost(&[&prompt(1, 96)]), [("evicted", 32), ("not_cached", 32)]);
    world.evicts(0, &prompt(1, 64), 3);
    world.tell(0, KvEvent::Cleared);
    assert_eq!(world.lost(&[&prompt(1, 96)]), [("cleared", 16), ("evicted", 16), ("not_cached", 32)]);
}

#[test]
fn a_rank_that_never_had_the_prompt_makes_no_hole() {
    let world = World::new(&[16, 16, 16]);
    world.stores(0, &prompt(1, 64), 2);
    world.stores(1, &prompt(2, 64), 4);
    world.evicts(1, &prompt(2, 64), 0);
    assert_eq!(world.lost(&[&prompt(1, 64)]), [("not_cached", 32)]);
}

#[test]
fn ranks_with_larger_blocks_buried_the_block_that_covers_a_missing_one() {
    let world = World::new(&[16, 32]);
    world.stores(1, &prompt(1, 96), 3);
    world.evicts(1, &prompt(1, 96), 2);
    assert_eq!(world.lost(&[&prompt(1, 100)]), [("partial_block", 4), ("evicted", 32)]);
    world.evicts(1, &prompt(1, 96), 1);
    world.stores(0, &prompt(1, 96), 3);
    assert_eq!(world.lost(&[&prompt(1, 100)]), [("partial_block", 4), ("evicted", 48)]);
}

#[test]
fn a_longer_prefix_in_larger_blocks_covers_a_part_of_a_smaller_one() {
    let world = World::new(&[16, 24]);
    world.stores(1, &prompt(1, 48), 1);
    assert_eq!(world.lost(&[&prompt(1, 50)]), [("partial_block", 2), ("not_cached", 24)]);
    world.stores(1, &prompt(1, 48), 2);
    world.evicts(1, &prompt(1, 48), 1);
    assert_eq!(world.lost(&[&prompt(1, 50)]), [("partial_block", 2), ("evicted", 24)]);
}

/// The rank that holds most of the list holds little of one of its prompts.
#[test]
fn each_prompt_of_a_list_is_missing_what_the_holder_of_the_list_lacks() {
    let world = World::new(&[16, 16]);
    let (long, short) = (prompt(1, 96), prompt(2, 40));
    world.stores(0, &long, 6);
    world.stores(1, &short, 2);
    assert_eq!(world.lost(&[&long, &short]), [("partial_block", 8), ("not_cached", 32)]);
    world.evicts(0, &long, 5);
    assert_eq!(
        world.lost(&[&long, &short]),
        [("partial_block", 8), ("evicted", 16), ("not_cached", 32)],
        "what the other rank holds of the short one is behind no hole"
    );
}

#[test]
fn nothing_known_is_blamed_on_a_source_that_does_not_tell_everything() {
    for (tells, reason) in [
        (Tells::NotAlways, "source_blind"),
        (Tells::Nothing, "source_blind"),
        (Tells::Remembered, "not_cached"),
        (Tells::Everything, "not_cached"),
    ] {
        let mut world = World::new(&[16]);
        world.joins(16, tells);
        world.stores(0, &prompt(1, 64), 3);
        world.evicts(0, &prompt(1, 64), 2);
        assert_eq!(world.lost(&[&prompt(1, 64)]), [("evicted", 16), (reason, 16)], "{tells:?}");
    }
}

#[test]
fn a_decision_without_an_index_has_no_reasons() {
    let world = World::new(&[16]);
    let (hashed, prompts) = (HashedPrompts::default(), [Tokens::new(7)]);
    let inquiry = Inquiry {
        phase: Phase::Aggregated,
        engine: None,
        takers: &[],
        has_others: false,
        ranks: &world.ranks,
        cached: None,
        hashed: &hashed,
        prompt_lengths: &prompts,
        choices: 1,
        is_stream: false,
        weights: CostWeights::default(),
        affinity: Affinity::default(),
        pin: None,
        adapter: None,
        tried: &[],
    };
    assert_eq!(absent(&world.knowledge, &inquiry, None), None);
}

/// The lookup and the question why are two steps; what the index says in between must not open the books.
#[test]
fn an_index_that_changes_between_the_lookup_and_the_reasons_closes_all_the_same() {
    let asked = [prompt(1, 100), prompt(2, 50)];
    type Change = fn(&World, &[Vec<TokenId>]);
    let changes: [Change; 5] = [
        |world, _| world.tell(0, KvEvent::Cleared),
        |world, asked| world.evicts(0, &asked[0], 1),
        |world, asked| world.stores(0, &asked[0], 6),
        |world, asked| world.stores(1, &asked[1], 3),
        |world, _| world.ranks[0].learn_block_size(BlockSize::new(32).unwrap()),
    ];
    for change in changes {
        let world = World::new(&[16, 16]);
        world.stores(0, &asked[0], 4);
        world.stores(0, &asked[1], 1);
        let (anywhere, _) = world.lost_after(&asked, || change(&world, &asked));
        assert_eq!(anywhere, Tokens::new(80), "A is what the decision saw");
    }
}
