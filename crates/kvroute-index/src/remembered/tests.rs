mod correction;

use kvroute_core::{Namespace, RemovalCause};

use super::*;
use crate::{IndexOptions, Prefixes};

const SLOT: RankSlot = RankSlot::new(2);
const TTL: Duration = Duration::from_secs(120);

/// A rank with its index, and what left it.
struct World {
    index: ReportedIndex,
    rank: RememberedRank,
    gone: Vec<Removal>,
}

impl World {
    fn with_capacity(blocks: u64) -> Self {
        Self::new(Some(Blocks::new(blocks)))
    }

    fn without_capacity() -> Self {
        Self::new(None)
    }

    fn new(capacity: Option<Blocks>) -> Self {
        let index = ReportedIndex::new(IndexOptions::default());
        Self { index, rank: RememberedRank::new(SLOT, BlockSize::DEFAULT, TTL, capacity), gone: Vec::new() }
    }

    fn placed(&mut self, attempt: u64, prompt: &PromptBlocks, second: u64) {
        let gone = &mut |removal| self.gone.push(removal);
        self.rank.placed(&self.index, AttemptId::new(attempt), prompt, at(second), gone);
    }

    fn grew(&mut self, attempt: u64, output: u64, second: u64) {
        let gone = &mut |removal| self.gone.push(removal);
        self.rank.grew(&self.index, AttemptId::new(attempt), Blocks::new(output), at(second), gone);
    }

    fn finished(&mut self, attempt: u64, second: u64) {
        self.rank.finished(AttemptId::new(attempt), at(second));
    }

    fn reported(&mut self, attempt: u64, predicted: u64, reused: u64, second: u64) -> Correction {
        let reuse = ReportedReuse { predicted: Tokens::new(predicted), reused: Tokens::new(reused) };
        let gone = &mut |removal| self.gone.push(removal);
        self.rank.reported(&self.index, AttemptId::new(attempt), reuse, at(second), gone)
    }

    fn expire(&mut self, second: u64) {
        let gone = &mut |removal| self.gone.push(removal);
        self.rank.expire(&self.index, at(second), gone);
    }

    /// A whole life of an attempt, with an answer shorter than a block.
    fn served(&mut self, attempt: u64, prompt: &PromptBlocks, second: u64) {
        self.placed(attempt, prompt, second);
        self.grew(attempt, 0, second);
        self.finished(attempt, second);
    }

    fn cached(&self, prompt: &PromptBlocks) -> u64 {
        let mut found = Prefixes::default();
        self.index.cached_prefixes(prompt, &mut found);
        found.of(SLOT).blocks().get()
    }
}

fn at(second: u64) -> Duration {
    Duration::from_secs(second)
}

/// Blocks with these contents, and so many tokens behind them.
fn prompt_with_tail(contents: &[u32], tail: usize) -> PromptBlocks {
    let mut tokens: Vec<u32> = contents.iter().flat_map(|content| [*content; 16]).collect();
    tokens.extend(std::iter::repeat_n(0, tail));
    PromptBlocks::new(&tokens, BlockSize::DEFAULT, Namespace::DEFAULT)
}

/// With one token behind the blocks, so that all of them can be reused.
fn prompt(contents: &[u32]) -> PromptBlocks {
    prompt_with_tail(contents, 1)
}

#[test]
fn a_prompt_is_remembered_once_it_is_computed() {
    let mut world = World::with_capacity(100);
    let hello = prompt(&[1, 2, 3]);
    world.placed(1, &hello, 0);
    assert_eq!(world.cached(&hello), 0);
    world.grew(1, 0, 1);
    assert_eq!((world.cached(&hello), world.rank.blocks().get()), (3, 3));
    world.finished(1, 2);
    assert_eq!(world.cached(&hello), 3);
    assert_eq!(world.rank.policy(), RememberPolicy::Lru);
}

#[test]
fn a_report_tells_that_a_prompt_without_output_is_computed() {
    let mut world = World::with_capacity(100);
    world.placed(1, &prompt(&[1, 2]), 0);
    world.reported(1, 0, 0, 1);
    assert_eq!(world.cached(&prompt(&[1, 2])), 2);
}

#[test]
fn a_failed_dispatch_leaves_no_trace() {
    let mut world = World::without_capacity();
    world.served(1, &prompt(&[1, 2]), 0);
    world.placed(2, &prompt(&[1, 2, 3]), 100);
    world.finished(2, 101);
    world.grew(2, 5, 102);
    assert_eq!(world.cached(&prompt(&[1, 2, 3])), 2);
    assert_eq!(world.rank.counts().output_batches, 0);
    world.expire(120);
    assert_eq!(world.cached(&prompt(&[1, 2, 3])), 0);
}

#[test]
fn every_prompt_of_a_list_is_remembered() {
    let mut world = World::with_capacity(100);
    world.placed(1, &prompt(&[1, 2]), 0);
    world.placed(1, &prompt(&[1, 5]), 0);
    world.grew(1, 0, 1);
    world.finished(1, 1);
    assert_eq!((world.cached(&prompt(&[1, 2])), world.cached(&prompt(&[1, 5]))), (2, 2));
    assert_eq!(world.rank.blocks().get(), 3);
}

#[test]
fn without_a_capacity_time_forgets_and_use_refreshes() {
    let mut world = World::without_capacity();
    assert_eq!(world.rank.policy(), RememberPolicy::Ttl(TTL));
    world.served(1, &prompt(&[1, 2]), 0);
    world.served(2, &prompt(&[1, 3]), 60);
    world.expire(119);
    assert_eq!(world.cached(&prompt(&[1, 2])), 2);
    world.expire(120);
    assert_eq!((world.cached(&prompt(&[1, 2])), world.cached(&prompt(&[1, 3]))), (1, 2));
    world.expire(180);
    assert_eq!((world.index.blocks(SLOT), world.rank.blocks()), (Blocks::ZERO, Blocks::ZERO));
    assert!(world.gone.iter().all(|removal| removal.cause == RemovalCause::Forgotten));
    assert_eq!((world.gone.len(), world.rank.counts().fallbacks, world.rank.counts().evicted), (3, 2, 0));
}

#[test]
fn time_does_not_forget_what_a_running_attempt_uses() {
    let mut world = World::without_capacity();
    world.placed(1, &prompt(&[1, 2]), 0);
    world.grew(1, 0, 1);
    world.expire(1000);
    assert_eq!(world.cached(&prompt(&[1, 2])), 2);
    world.finished(1, 1000);
    world.expire(1119);
    assert_eq!(world.cached(&prompt(&[1, 2])), 2);
}

#[test]
fn with_a_capacity_time_forgets_nothing() {
    let mut world = World::with_capacity(100);
    world.served(1, &prompt(&[1, 2]), 0);
    world.expire(1_000_000);
    assert_eq!(world.cached(&prompt(&[1, 2])), 2);
    assert_eq!(world.rank.counts().fallbacks, 0);
}

#[test]
fn a_full_cache_gives_up_the_least_recently_used_from_its_end() {
    let mut world = World::with_capacity(6);
    world.served(1, &prompt_with_tail(&[1, 2, 3], 0), 0);
    world.served(2, &prompt_with_tail(&[4, 5, 6], 0), 1);
    world.served(3, &prompt_with_tail(&[7], 0), 2);
    assert_eq!(world.cached(&prompt(&[1, 2, 3])), 2);
    world.served(4, &prompt_with_tail(&[1, 2], 0), 3);
    world.served(5, &prompt_with_tail(&[8, 9], 0), 4);
    assert_eq!((world.cached(&prompt(&[1, 2])), world.cached(&prompt(&[4, 5, 6]))), (2, 1));
    assert_eq!((world.rank.blocks().get(), world.rank.counts().evicted), (6, 3));
    assert_eq!(world.index.blocks(SLOT), world.rank.blocks());
}

#[test]
fn running_attempts_keep_their_blocks_beyond_the_capacity() {
    let mut world = World::with_capacity(4);
    world.placed(1, &prompt(&[1, 2, 3]), 0);
    world.grew(1, 0, 0);
    world.placed(2, &prompt(&[4, 5, 6]), 1);
    world.grew(2, 0, 1);
    assert_eq!((world.cached(&prompt(&[1, 2, 3])), world.cached(&prompt(&[4, 5, 6]))), (3, 3));
    world.finished(1, 2);
    world.expire(2);
    assert_eq!((world.cached(&prompt(&[1, 2, 3])), world.cached(&prompt(&[4, 5, 6]))), (0, 3));
}

#[test]
fn what_an_attempt_waits_to_use_is_kept_for_it() {
    let mut world = World::with_capacity(4);
    world.served(1, &prompt_with_tail(&[1, 2], 0), 0);
    world.placed(2, &prompt_with_tail(&[1, 2], 0), 1);
    world.served(3, &prompt_with_tail(&[4, 5, 6, 7], 0), 2);
    assert_eq!(world.cached(&prompt(&[1, 2])), 2);
    world.finished(2, 3);
    world.expire(3);
    assert_eq!((world.cached(&prompt(&[1, 2])), world.cached(&prompt(&[4, 5, 6, 7]))), (0, 4));
}

#[test]
fn partial_and_output_blocks_take_room_until_the_attempt_is_over() {
    let mut world = World::with_capacity(6);
    world.served(1, &prompt_with_tail(&[1, 2, 3], 0), 0);
    world.placed(2, &prompt_with_tail(&[7], 5), 1);
    world.grew(2, 1, 1);
    assert_eq!(world.cached(&prompt(&[1, 2, 3])), 3);
    world.grew(2, 1, 2);
    world.grew(2, 3, 2);
    assert_eq!(world.cached(&prompt(&[1, 2, 3])), 1);
    assert_eq!(world.rank.counts().output_batches, 2);
    world.finished(2, 3);
    world.finished(2, 3);
    world.served(3, &prompt_with_tail(&[8, 9, 10, 11], 0), 4);
    assert_eq!((world.cached(&prompt(&[1, 2])), world.rank.blocks().get()), (1, 6));
}

#[test]
fn what_the_index_lost_is_held_again_with_its_next_prompt() {
    let mut world = World::with_capacity(6);
    world.served(1, &prompt_with_tail(&[1, 2, 3], 0), 0);
    let third = *prompt(&[1, 2, 3]).hashes().last().unwrap();
    let _ = world.index.release(SLOT, &prompt(&[1, 2, 3]).hashes()[1..], &mut |_| {});
    assert!(!world.index.holds(SLOT, third));
    world.served(2, &prompt_with_tail(&[1, 2, 3, 4], 0), 1);
    assert_eq!(world.cached(&prompt(&[1, 2, 3, 4])), 4);
    let _ = world.index.clear(SLOT, RemovalCause::IndexBudget, &mut |_| {});
    world.served(3, &prompt_with_tail(&[5, 6, 7, 8], 0), 2);
    assert_eq!((world.rank.blocks().get(), world.index.blocks(SLOT).get()), (6, 4));
}

#[test]
fn an_index_without_room_holds_less_than_is_remembered() {
    let mut world = World::with_capacity(100_000);
    world.index = ReportedIndex::new(IndexOptions { bytes: 1 << 20, ..IndexOptions::default() });
    for number in 0..2000u32 {
        let contents: Vec<_> = (0..50).map(|block| number * 50 + block).collect();
        world.served(u64::from(number), &prompt_with_tail(&contents, 0), u64::from(number));
    }
    let pushed_out = world.gone.iter().filter(|removal| removal.cause == RemovalCause::IndexBudget).count();
    assert_eq!(world.rank.blocks().get(), 100_000);
    assert_eq!(world.index.blocks(SLOT).get() + pushed_out as u64, 100_000);
    assert!(pushed_out > 0);
    world.served(5000, &prompt_with_tail(&[7; 50], 0), 5000);
    assert_eq!(world.cached(&prompt_with_tail(&[7; 50], 0)), 50);
    assert_eq!((world.rank.blocks().get(), world.rank.counts().evicted), (100_000, 50));
}

#[test]
fn a_prompt_cut_by_another_block_size_is_refused_and_counted() {
    let mut world = World::with_capacity(6);
    let other = PromptBlocks::new(&[1; 64], BlockSize::new(32).unwrap(), Namespace::DEFAULT);
    world.served(1, &other, 0);
    assert_eq!((world.rank.blocks(), world.rank.counts().rejected), (Blocks::ZERO, 1));
}

#[test]
fn an_index_that_knows_the_rank_by_another_block_size_is_counted() {
    let mut world = World::with_capacity(6);
    let size = BlockSize::new(32).unwrap();
    let held = PromptBlocks::new(&[1; 64], size, Namespace::DEFAULT);
    let _ = world.index.hold(SLOT, size, held.hashes(), &mut |_| {});
    world.served(1, &prompt(&[1, 2]), 0);
    assert_eq!(world.rank.counts().rejected, 1);
}

#[test]
fn an_engine_that_does_not_say_what_it_holds_is_not_taken_to_hold_everything() {
    let mut world = World::without_capacity();
    let most = RememberedRank::MAX_UNDECLARED;
    assert_eq!(world.rank.capacity().get(), most);
    let tokens: Vec<u32> = (0..16 * (most as u32 - 1)).collect();
    let long = PromptBlocks::new(&tokens, BlockSize::DEFAULT, Namespace::DEFAULT);
    world.served(1, &long, 0);
    world.served(2, &prompt_with_tail(&[1, 2, 3], 0), 1);
    world.expire(2);
    assert_eq!(world.rank.blocks().get(), most);
    assert_eq!((world.cached(&prompt(&[1, 2, 3])), world.cached(&long)), (3, most - 3));
}

#[test]
fn no_claim_and_no_prompt_exceeds_the_most_blocks() {
    let mut world = World::with_capacity(u64::MAX);
    assert_eq!(world.rank.capacity().get(), RememberedRank::MAX_BLOCKS);
    let most = RememberedRank::MAX_BLOCKS as usize;
    let tokens: Vec<u32> = (0..16 * (most as u32 + 10)).collect();
    let long = PromptBlocks::new(&tokens, BlockSize::DEFAULT, Namespace::DEFAULT);
    world.served(1, &prompt(&[1, 2, 3]), 0);
    world.placed(2, &long, 1);
    world.grew(2, u64::MAX, 1);
    assert_eq!((world.rank.blocks().get(), world.cached(&prompt(&[1]))), (RememberedRank::MAX_BLOCKS, 0));
    assert_eq!(world.cached(&long), RememberedRank::MAX_BLOCKS);
    world.placed(3, &prompt(&[4]), 2);
    world.grew(3, 1, 2);
    assert_eq!(world.cached(&prompt(&[4])), 0);
    world.finished(2, 3);
    world.finished(3, 3);
    world.served(4, &prompt_with_tail(&[5], 0), 4);
    assert_eq!((world.cached(&prompt(&[5])), world.rank.blocks().get()), (1, RememberedRank::MAX_BLOCKS));
}
