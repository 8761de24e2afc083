//! The index against a plain set of what each rank holds, over chains that are longer than one run and branch
//! in its middle, on many ranks, and under a budget that they do not fit in.

#![expect(clippy::unwrap_used, reason = "a test reports a broken assumption by panicking")]

use std::collections::{HashMap, HashSet};

use kvroute_core::{
    BlockSize, Blocks, EngineHash, KvEvent, Namespace, PromptBlocks, RankSlot, Removal, RemovalCause,
    SequenceHash, Tier,
};
use kvroute_index::{ExportedBlock, IndexOptions, Prefixes, RankExport, ReportedIndex};
use proptest::prelude::*;

const SLOTS: [u32; 9] = [0, 1, 2, 3, 4, 63, 64, 65, 200];
const TRUNK: usize = 300;
const LENGTH: usize = 560;
/// Where each branch leaves the trunk.
const BRANCHES: [usize; 6] = [0, 1, 100, 255, 256, 299];

#[derive(Clone, Debug)]
enum Step {
    Store {
        slot: u32,
        branch: usize,
        from: usize,
        to: usize,
    },
    /// Takes every `stride`-th block of a range away, from its end or from its start.
    Remove {
        slot: u32,
        branch: usize,
        from: usize,
        to: usize,
        stride: usize,
        is_backwards: bool,
    },
    Clear {
        slot: u32,
    },
    Leave {
        slot: u32,
    },
    Reload {
        slot: u32,
    },
    /// A chain that nobody stores again.
    Flood {
        slot: u32,
        seed: u32,
        blocks: usize,
    },
}

/// What is held, by rank.
#[derive(Debug, Default)]
struct Model {
    held: HashMap<u32, HashSet<SequenceHash>>,
}

struct World {
    index: ReportedIndex,
    model: Model,
    branches: Vec<PromptBlocks>,
    comparisons: usize,
}

fn size() -> BlockSize {
    BlockSize::new(1).unwrap()
}

fn chain(tokens: &[u32]) -> PromptBlocks {
    PromptBlocks::new(tokens, size(), Namespace::DEFAULT)
}

fn branch(at: usize) -> PromptBlocks {
    let tokens: Vec<u32> =
        (0..LENGTH).map(|block| (if block < at { block } else { 1000 * (at + 1) + block }) as u32).collect();
    chain(&tokens)
}

fn named(hashes: &[SequenceHash]) -> Vec<ExportedBlock> {
    hashes.iter().map(|hash| ExportedBlock { engine_key: !hash.get(), sequence: *hash }).collect()
}

impl World {
    fn new(options: IndexOptions) -> Self {
        let branches = [TRUNK].into_iter().chain(BRANCHES).map(branch).collect();
        Self { index: ReportedIndex::new(options), model: Model::default(), branches, comparisons: 0 }
    }

    fn store(&mut self, slot: u32, hashes: &[SequenceHash], parent: Option<SequenceHash>) {
        let Self { index, model, .. } = self;
        let mut gone = Vec::new();
        let parent = parent.map(|hash| !hash.get());
        let applied =
            index.store(rank(slot), (size(), Tier::Device), parent, &named(hashes), &mut |removal| {
                gone.push(removal);
            });
        assert_eq!((applied.conflicting, applied.orphaned, applied.unknown), (0, 0, 0));
        model.held.entry(slot).or_default().extend(hashes);
        model.lose(&gone, &[RemovalCause::IndexBudget]);
        // What left and came back with the same event is counted, and not told.
        assert!(applied.evicted >= gone.len() as u64);
    }

    fn run(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match *step {
            Step::Store { slot, branch, from, to } => {
                let hashes = self.branches[branch].hashes().to_vec();
                self.store(slot, &hashes[from..to], from.checked_sub(1).map(|parent| hashes[parent]));
            }
            Step::Remove { slot, branch, from, to, stride, is_backwards } => {
                let mut hashes: Vec<SequenceHash> =
                    self.branches[branch].hashes()[from..to].iter().step_by(stride).copied().collect();
                if is_backwards {
                    hashes.reverse();
                }
                self.remove(slot, &hashes)?;
            }
            Step::Clear { slot } => {
                let mut gone = Vec::new();
                let copies =
                    self.index.clear(rank(slot), RemovalCause::Cleared, &mut |removal| gone.push(removal));
                prop_assert_eq!(copies, Blocks::from(gone.len()));
                self.left(slot, &gone, RemovalCause::Cleared)?;
            }
            Step::Leave { slot } => {
                let mut gone = Vec::new();
                self.index.remove_rank(rank(slot), &mut |removal| gone.push(removal));
                self.left(slot, &gone, RemovalCause::WorkerGone)?;
            }
            Step::Reload { slot } => {
                let export: RankExport = self.index.export(rank(slot));
                self.index.remove_rank(rank(slot), &mut |_| {});
                let mut gone = Vec::new();
                let _ = self.index.import(rank(slot), &export, &mut |removal| gone.push(removal));
                self.model.lose(&gone, &[RemovalCause::IndexBudget]);
            }
            Step::Flood { slot, seed, blocks } => {
                let tokens: Vec<u32> = (0..blocks as u32).map(|block| block ^ seed << 12 | 1 << 31).collect();
                self.store(slot, chain(&tokens).hashes(), None);
            }
        }
        Ok(())
    }

    fn remove(&mut self, slot: u32, hashes: &[SequenceHash]) -> Result<(), TestCaseError> {
        let mut gone = Vec::new();
        let names = hashes.iter().map(|hash| EngineHash::Int(!hash.get())).collect();
        let event = KvEvent::Removed { hashes: names, tier: Tier::Device };
        let applied = self.index.apply(rank(slot), &event, &mut |removal| gone.push(removal));
        let held = self.model.held.entry(slot).or_default();
        let expected = hashes.iter().filter(|hash| held.contains(*hash)).count();
        prop_assert_eq!((applied.removed as usize, gone.len()), (expected, expected));
        self.model.lose(&gone, &[RemovalCause::Evicted]);
        prop_assert!(!hashes.iter().any(|hash| self.model.held[&slot].contains(hash)));
        Ok(())
    }

    fn left(&mut self, slot: u32, gone: &[Removal], cause: RemovalCause) -> Result<(), TestCaseError> {
        self.model.lose(gone, &[cause]);
        prop_assert!(self.model.held.get(&slot).is_none_or(HashSet::is_empty));
        prop_assert_eq!(self.index.blocks(rank(slot)), Blocks::ZERO);
        Ok(())
    }

    fn compare(&mut self, found: &mut Prefixes) -> Result<(), TestCaseError> {
        for prompt in &self.branches {
            self.index.cached_prefixes(prompt, found);
            for slot in SLOTS {
                let expected = self.model.prefix(slot, prompt);
                prop_assert_eq!(found.of(rank(slot)).device.get(), expected, "slot {}", slot);
            }
        }
        for slot in SLOTS {
            let held = self.model.held.get(&slot).map_or(0, HashSet::len);
            prop_assert_eq!(self.index.blocks(rank(slot)), Blocks::from(held));
        }
        self.compare_held_anywhere()
    }

    /// Another branch each time, from its first block and from one of the others.
    fn compare_held_anywhere(&mut self) -> Result<(), TestCaseError> {
        self.comparisons += 1;
        let prompt = &self.branches[self.comparisons % self.branches.len()];
        let expected: Vec<bool> = prompt.hashes().iter().map(|hash| self.model.is_held(*hash)).collect();
        let mut held = Vec::new();
        for first in [0, self.comparisons * 85 % (LENGTH + 2)] {
            self.index.held_anywhere(prompt, first, &mut held);
            prop_assert_eq!(&held[..], expected.get(first..).unwrap_or_default(), "from {}", first);
        }
        Ok(())
    }
}

impl Model {
    fn lose(&mut self, gone: &[Removal], causes: &[RemovalCause]) {
        for removal in gone {
            assert!(causes.contains(&removal.cause));
            let held = self.held.get_mut(&removal.slot.get()).unwrap();
            assert!(held.remove(&removal.sequence), "told to be gone, and was not held: {removal:?}");
        }
    }

    fn is_held(&self, hash: SequenceHash) -> bool {
        self.held.values().any(|held| held.contains(&hash))
    }

    fn prefix(&self, slot: u32, prompt: &PromptBlocks) -> u64 {
        let Some(held) = self.held.get(&slot) else { return 0 };
        prompt.hashes().iter().take_while(|hash| held.contains(*hash)).count() as u64
    }
}

fn rank(slot: u32) -> RankSlot {
    RankSlot::new(slot)
}

fn slot() -> impl Strategy<Value = u32> {
    prop::sample::select(SLOTS.to_vec())
}

/// Ranges that often begin or end where runs do.
fn range() -> impl Strategy<Value = (usize, usize)> {
    let edge = || {
        prop_oneof![
            Just(0),
            Just(LENGTH),
            prop::sample::select(vec![1, 99, 100, 101, 254, 255, 256, 257, 299, 300, 301, 512]),
            0..LENGTH,
        ]
    };
    (edge(), edge()).prop_map(|(one, other)| (one.min(other), one.max(other)))
}

fn step() -> impl Strategy<Value = Step> {
    let branch = || 0..=BRANCHES.len();
    let store = (slot(), branch(), range()).prop_map(|(slot, branch, (from, to))| Step::Store {
        slot,
        branch,
        from,
        to,
    });
    let from_root = (slot(), branch(), range()).prop_map(|(slot, branch, (_, to))| Step::Store {
        slot,
        branch,
        from: 0,
        to,
    });
    let decode = (slot(), branch(), 0..LENGTH).prop_map(|(slot, branch, from)| Step::Store {
        slot,
        branch,
        from,
        to: from + 1,
    });
    let remove = (slot(), branch(), range(), prop_oneof![3 => Just(1), 1 => 2usize..90], any::<bool>())
        .prop_map(|(slot, branch, (from, to), stride, is_backwards)| Step::Remove {
            slot,
            branch,
            from,
            to,
            stride,
            is_backwards,
        });
    prop_oneof![
        4 => store,
        6 => from_root,
        2 => decode,
        6 => remove,
        1 => slot().prop_map(|slot| Step::Clear { slot }),
        1 => slot().prop_map(|slot| Step::Leave { slot }),
        1 => slot().prop_map(|slot| Step::Reload { slot }),
    ]
}

fn flood() -> impl Strategy<Value = Step> {
    (slot(), 0u32..60, prop_oneof![Just(3), Just(40), Just(700), Just(4000)])
        .prop_map(|(slot, seed, blocks)| Step::Flood { slot, seed, blocks })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn branching_chains_are_credited_exactly(steps in prop::collection::vec(step(), 1..60)) {
        let mut world = World::new(IndexOptions::default());
        let mut found = Prefixes::default();
        for step in &steps {
            world.run(step)?;
            world.compare(&mut found)?;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Every eviction is told, so that the set of what is held stays exact even so.
    #[test]
    fn the_budget_is_never_exceeded_and_what_left_for_it_is_told(
        steps in prop::collection::vec(prop_oneof![1 => step(), 3 => flood()], 60..100),
    ) {
        let options = IndexOptions { bytes: IndexOptions::MIN_BYTES, ..IndexOptions::default() };
        let mut world = World::new(options);
        let mut found = Prefixes::default();
        for step in &steps {
            world.run(step)?;
            prop_assert!(world.index.bytes() <= options.bytes, "{} bytes", world.index.bytes());
        }
        world.compare(&mut found)?;
    }
}

#[test]
fn what_is_looked_up_outlives_what_is_not() {
    let options = IndexOptions { bytes: IndexOptions::MIN_BYTES, ..IndexOptions::default() };
    let mut world = World::new(options);
    let hot = branch(TRUNK);
    world.store(0, hot.hashes(), None);
    let mut found = Prefixes::default();
    for seed in 0..200 {
        world.run(&Step::Flood { slot: seed % 2, seed, blocks: 600 }).unwrap();
        world.index.cached_prefixes(&hot, &mut found);
        assert_eq!(found.of(rank(0)).device.get(), LENGTH as u64, "after flood {seed}");
        assert!(world.index.bytes() <= options.bytes);
    }
    let held: usize = world.model.held.values().map(HashSet::len).sum();
    assert!((20_000..60_000).contains(&held), "{held} blocks in a budget for about forty thousand");
}

/// The run begins where another one ends, so that nothing but its first block leads to it.
#[test]
fn a_block_is_found_by_the_beginning_of_the_longest_run_that_reaches_it() {
    let mut world = World::new(IndexOptions::default());
    let chain = branch(TRUNK);
    let hashes = chain.hashes();
    world.store(0, &hashes[..10], None);
    world.store(1, &hashes[..266], None);
    world.remove(0, &hashes[..10]).unwrap();
    world.remove(1, &hashes[..265]).unwrap();
    let mut held = Vec::new();
    for first in [0, 9, 10, 11, 264, 265] {
        world.index.held_anywhere(&chain, first, &mut held);
        let found: Vec<usize> = (first..LENGTH).filter(|block| held[block - first]).collect();
        assert_eq!(found, [265], "from {first}");
    }
}
