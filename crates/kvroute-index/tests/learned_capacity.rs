//! An engine that holds less than it declares, or loses its cache, and what the remembered rank learns of it.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use kvroute_core::{AttemptId, BlockSize, Blocks, Namespace, PromptBlocks, RankSlot, SequenceHash, Tokens};
use kvroute_index::{IndexOptions, Prefixes, RememberedRank, ReportedIndex, ReportedReuse};

const SLOT: RankSlot = RankSlot::new(0);
const DECLARED: u64 = 4000;

/// A cache that gives up the least recently used block, the end of a prompt first.
#[derive(Default)]
struct Engine {
    capacity: usize,
    used_at: HashMap<SequenceHash, u64>,
    by_use: BTreeMap<u64, SequenceHash>,
    uses: u64,
}

impl Engine {
    /// Serves a prompt and answers how many of its leading blocks were there.
    fn serve(&mut self, prompt: &PromptBlocks) -> u64 {
        let hashes = prompt.hashes();
        let reused = hashes.iter().take_while(|hash| self.used_at.contains_key(hash)).count();
        for hash in hashes.iter().rev() {
            self.uses += 1;
            if let Some(before) = self.used_at.insert(*hash, self.uses) {
                self.by_use.remove(&before);
            }
            self.by_use.insert(self.uses, *hash);
        }
        while self.by_use.len() > self.capacity {
            let oldest = self.by_use.pop_first();
            oldest.map(|(_, hash)| self.used_at.remove(&hash));
        }
        reused as u64
    }

    fn wipe(&mut self) {
        *self = Self { capacity: self.capacity, ..Self::default() };
    }
}

struct World {
    engine: Engine,
    index: ReportedIndex,
    rank: RememberedRank,
    served: u64,
    random: u64,
}

impl World {
    fn new(engine: usize) -> Self {
        Self {
            engine: Engine { capacity: engine, ..Engine::default() },
            index: ReportedIndex::new(IndexOptions::default()),
            rank: RememberedRank::new(
                SLOT,
                BlockSize::DEFAULT,
                Duration::from_secs(120),
                Some(Blocks::new(DECLARED)),
            ),
            served: 0,
            random: 1,
        }
    }

    /// Serves so many prompts, one after another. Answers the predicted blocks, and those of them that were lost.
    fn serve(&mut self, prompts: usize) -> (u64, u64) {
        let (mut predicted, mut lost) = (0, 0);
        for _ in 0..prompts {
            let prompt = self.next_prompt();
            let (promised, reused) = self.serve_one(&prompt);
            predicted += promised;
            lost += promised.saturating_sub(reused);
        }
        (predicted, lost)
    }

    /// A conversation of ten blocks behind one of four beginnings, a few of them far more often than the others.
    fn next_prompt(&mut self) -> PromptBlocks {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let uniform = (self.random >> 33) as f64 / f64::from(1u32 << 31);
        let conversation = (600.0 * uniform.powi(2)) as u32;
        let contents = (0..12).map(|block| match block {
            0 | 1 => conversation % 4,
            _ => 100 + conversation,
        });
        let tokens: Vec<u32> = contents.flat_map(|content| [content; 16]).chain([0]).collect();
        PromptBlocks::new(&tokens, BlockSize::DEFAULT, Namespace::DEFAULT)
    }

    fn serve_one(&mut self, prompt: &PromptBlocks) -> (u64, u64) {
        let mut found = Prefixes::default();
        self.index.cached_prefixes(prompt, &mut found);
        let (promised, reused) = (found.of(SLOT).blocks().get(), self.engine.serve(prompt));
        self.served += 1;
        let (attempt, now) = (AttemptId::new(self.served), Duration::from_secs(self.served));
        let reuse = ReportedReuse { predicted: Tokens::new(16 * promised), reused: Tokens::new(16 * reused) };
        self.rank.placed(&self.index, attempt, prompt, now, &mut |_| {});
        self.rank.reported(&self.index, attempt, reuse, now, &mut |_| {});
        self.rank.finished(attempt, now);
        self.rank.expire(&self.index, now, &mut |_| {});
        (promised, reused)
    }
}

#[test]
fn an_engine_that_holds_what_it_declares_is_believed() {
    let mut world = World::new(DECLARED as usize);
    let (predicted, lost) = world.serve(3000);
    assert!(predicted > 10_000, "{predicted}");
    assert!(lost * 100 < predicted, "{lost} of {predicted}");
    assert!(world.rank.capacity().get() > DECLARED * 9 / 10, "{}", world.rank.capacity());
}

#[test]
fn an_engine_that_holds_half_of_what_it_declares_is_found_out() {
    let mut world = World::new(DECLARED as usize / 2);
    world.serve(3000);
    let (predicted, lost) = world.serve(3000);
    let capacity = world.rank.capacity().get();
    assert!((DECLARED * 2 / 5..DECLARED * 3 / 5).contains(&capacity), "{capacity}");
    assert!(lost * 25 < predicted, "{lost} of {predicted}");
}

#[test]
fn a_lost_cache_costs_one_prompt_of_each_beginning_and_the_capacity_recovers() {
    let mut world = World::new(DECLARED as usize);
    world.serve(3000);
    world.engine.wipe();
    let (_, lost) = world.serve(3000);
    assert!((12..=4 * 12).contains(&lost), "{lost}");
    assert_eq!(world.rank.capacity().get(), DECLARED);
}
