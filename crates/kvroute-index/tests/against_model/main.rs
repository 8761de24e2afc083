//! The index against a model that keeps whole prefixes instead of hashes, over random event streams.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test reports a broken assumption by panicking")]

mod model;

use std::collections::BTreeSet;

use kvroute_core::{
    BlockExtras, BlockSize, Blocks, EngineHash, KvEvent, Namespace, PromptBlocks, RankSlot, Removal,
    SequenceHash, StoredBlocks, Tier,
};
use kvroute_index::{Applied, Prefixes, ReportedIndex};
use proptest::prelude::*;

use model::{Model, Prefix};

/// Slots on both sides of a bit set's word.
const SLOTS: [u32; 4] = [0, 1, 63, 64];
const DEPTH: usize = 4;

#[derive(Clone, Debug)]
enum Step {
    Store { slot: u32, tier: Tier, path: Path, from: usize, form: u64 },
    Remove { slot: u32, tier: Tier, paths: Vec<Path>, form: u64 },
    Rename { slot: u32, tier: Tier, path: Path, other: Path, form: u64 },
    WrongLength { slot: u32, path: Path },
    Clear { slot: u32 },
    Leave { slot: u32 },
    Move { slot: u32, path: Path, form: u64, from: Tier, to: Tier },
    Hold { slot: u32, path: Path },
    Release { slot: u32, path: Path },
    Reload { slot: u32 },
}

/// A leaf of a small tree of prompts, one bit a block.
#[derive(Clone, Copy, Debug)]
struct Path {
    salted: bool,
    bits: u32,
    blocks: usize,
}

impl Path {
    fn namespace(self) -> Option<&'static str> {
        self.salted.then_some("tenant")
    }

    fn tokens(self, size: u32) -> Vec<u32> {
        (0..self.blocks)
            .flat_map(|block| (0..size).map(move |at| (self.bits >> block & 1) * 10 + at))
            .collect()
    }

    fn prefix(self, size: u32) -> Prefix {
        (self.salted, self.tokens(size))
    }

    fn cut(self, blocks: usize) -> Self {
        Self { blocks, ..self }
    }

    /// What an engine would call the last block. A second form is another name for the same content.
    fn name(self, form: u64) -> u64 {
        let prefix_bits = u64::from(self.bits & ((1 << self.blocks) - 1));
        form << 40 | u64::from(self.salted) << 32 | (self.blocks as u64) << 16 | prefix_bits
    }
}

impl Step {
    const fn slot(&self) -> u32 {
        match self {
            Self::Store { slot, .. }
            | Self::Remove { slot, .. }
            | Self::Rename { slot, .. }
            | Self::WrongLength { slot, .. }
            | Self::Clear { slot }
            | Self::Leave { slot }
            | Self::Move { slot, .. }
            | Self::Hold { slot, .. }
            | Self::Release { slot, .. }
            | Self::Reload { slot } => *slot,
        }
    }
}

/// Ranks differ in block size by slot: two sizes live in one pool.
fn size_of(slot: u32) -> u32 {
    1 + slot % 2
}

fn path() -> impl Strategy<Value = Path> {
    (prop::bool::weighted(0.2), 0u32..1 << DEPTH, 1..=DEPTH).prop_map(|(salted, bits, blocks)| Path {
        salted,
        bits,
        blocks,
    })
}

fn tier() -> impl Strategy<Value = Tier> {
    prop_oneof![6 => Just(Tier::Device), 2 => Just(Tier::Host), 1 => Just(Tier::Disk)]
}

fn slot() -> impl Strategy<Value = u32> {
    prop::sample::select(SLOTS.to_vec())
}

fn form() -> impl Strategy<Value = u64> {
    prop_oneof![4 => Just(0), 1 => Just(1)]
}

fn step() -> impl Strategy<Value = Step> {
    let store = (slot(), tier(), path(), 0..DEPTH, form()).prop_map(|(slot, tier, path, from, form)| {
        Step::Store { slot, tier, path, from: from.min(path.blocks - 1), form }
    });
    let from_root = (slot(), tier(), path(), form()).prop_map(|(slot, tier, path, form)| Step::Store {
        slot,
        tier,
        path,
        from: 0,
        form,
    });
    let remove = (slot(), tier(), prop::collection::vec(path(), 1..4), form())
        .prop_map(|(slot, tier, paths, form)| Step::Remove { slot, tier, paths, form });
    let rename = (slot(), tier(), path(), path(), form())
        .prop_map(|(slot, tier, path, other, form)| Step::Rename { slot, tier, path, other, form });
    prop_oneof![
        10 => store,
        6 => from_root,
        10 => remove,
        1 => rename,
        1 => (slot(), path()).prop_map(|(slot, path)| Step::WrongLength { slot, path }),
        1 => slot().prop_map(|slot| Step::Clear { slot }),
        1 => slot().prop_map(|slot| Step::Leave { slot }),
        2 => (slot(), path(), form(), tier(), tier())
            .prop_map(|(slot, path, form, from, to)| Step::Move { slot, path, form, from, to }),
        2 => (slot(), path()).prop_map(|(slot, path)| Step::Hold { slot, path }),
        2 => (slot(), path()).prop_map(|(slot, path)| Step::Release { slot, path }),
        1 => slot().prop_map(|slot| Step::Reload { slot }),
    ]
}

fn stored(path: Path, slot: u32, tier: Tier, from: usize, form: u64) -> StoredBlocks {
    let size = size_of(slot);
    StoredBlocks {
        hashes: (from + 1..=path.blocks).map(|to| EngineHash::Int(path.cut(to).name(form))).collect(),
        parent: (from > 0).then(|| EngineHash::Int(path.cut(from).name(form))),
        tokens: path.tokens(size)[from * size as usize..].to_vec(),
        block_size: BlockSize::new(size).unwrap(),
        tier,
        salt: path.namespace().filter(|_| from == 0).map(str::to_owned),
        adapter: None,
        extras: BlockExtras::default(),
    }
}

/// The sequence hash of each block of a prefix.
fn sequences((salted, tokens): &Prefix, size: u32) -> Vec<SequenceHash> {
    let namespace = Namespace::new(salted.then_some("tenant"), None);
    PromptBlocks::new(tokens, BlockSize::new(size).unwrap(), namespace).hashes().to_vec()
}

fn run(step: &Step, index: &ReportedIndex, model: &mut Model) -> Result<(), TestCaseError> {
    let slot = step.slot();
    let before = model.held(slot);
    let mut gone = Vec::new();
    apply_step(step, index, model, &mut |removal| gone.push(removal))?;
    let after = model.held(slot);
    let expected: BTreeSet<_> =
        before.difference(&after).filter_map(|prefix| sequences(prefix, size_of(slot)).pop()).collect();
    let told: BTreeSet<_> = gone.iter().map(|removal| removal.sequence).collect();
    prop_assert!(gone.iter().all(|removal| removal.slot.get() == slot));
    prop_assert_eq!((gone.len(), told), (expected.len(), expected), "{:?}", step);
    Ok(())
}

fn apply_step(
    step: &Step,
    index: &ReportedIndex,
    model: &mut Model,
    gone: &mut impl FnMut(Removal),
) -> Result<(), TestCaseError> {
    let rank = |slot: u32| RankSlot::new(slot);
    let (slot, event) = match step.clone() {
        Step::Store { slot, tier, path, from, form } => {
            (slot, KvEvent::Stored(stored(path, slot, tier, from, form)))
        }
        Step::Remove { slot, tier, paths, form } => {
            let hashes = paths.iter().map(|path| EngineHash::Int(path.name(form))).collect();
            (slot, KvEvent::Removed { hashes, tier })
        }
        Step::Rename { slot, tier, path, other, form } => {
            let mut event = stored(other.cut(1), slot, tier, 0, form);
            event.hashes = vec![EngineHash::Int(path.name(form))];
            (slot, KvEvent::Stored(event))
        }
        Step::WrongLength { slot, path } => {
            let mut event = stored(path, slot, Tier::Device, 0, 0);
            event.tokens.push(1);
            prop_assert_eq!(index.apply(rank(slot), &KvEvent::Stored(event), gone).rejected, 1);
            return Ok(());
        }
        Step::Clear { slot } => (slot, KvEvent::Cleared),
        Step::Leave { slot } => {
            index.remove_rank(rank(slot), gone);
            model.leave(slot);
            return Ok(());
        }
        Step::Move { slot, path, form, from, to } => {
            (slot, KvEvent::Moved { hash: EngineHash::Int(path.name(form)), from, to })
        }
        Step::Hold { slot, path } => {
            let size = size_of(slot);
            let hashes = sequences(&path.prefix(size), size);
            let mut event = stored(path, slot, Tier::Device, 0, 0);
            event.hashes = hashes.iter().map(|hash| EngineHash::Int(hash.get())).collect();
            let applied = index.hold(rank(slot), BlockSize::new(size).unwrap(), &hashes, gone);
            prop_assert_eq!(applied, model.apply(slot, &KvEvent::Stored(event)));
            return Ok(());
        }
        Step::Release { slot, path } => {
            let hashes = sequences(&path.prefix(size_of(slot)), size_of(slot));
            let names = hashes.iter().map(|hash| EngineHash::Int(hash.get())).collect();
            let event = KvEvent::Removed { hashes: names, tier: Tier::Device };
            prop_assert_eq!(index.release(rank(slot), &hashes, gone), model.apply(slot, &event));
            return Ok(());
        }
        Step::Reload { slot } => {
            reload(slot, index)?;
            model.reload(slot);
            return Ok(());
        }
    };
    prop_assert_eq!(index.apply(rank(slot), &event, gone), model.apply(slot, &event), "{:?}", event);
    Ok(())
}

/// Takes a rank out and back again, as a snapshot does.
fn reload(slot: u32, index: &ReportedIndex) -> Result<(), TestCaseError> {
    let rank = RankSlot::new(slot);
    let export = index.export(rank);
    let copies = export.runs.iter().map(|run| run.blocks.len() as u64).sum();
    let again = index.import(rank, &export, &mut |_| {});
    prop_assert_eq!(again, Applied { duplicate: copies, ..Applied::default() });
    index.remove_rank(rank, &mut |_| {});
    let applied = index.import(rank, &export, &mut |_| {});
    prop_assert_eq!(applied, Applied { stored: copies, ..Applied::default() });
    prop_assert_eq!(&index.export(rank).block_size, &export.block_size);
    Ok(())
}

fn compare(index: &ReportedIndex, model: &Model) -> Result<(), TestCaseError> {
    for slot in SLOTS {
        let rank = RankSlot::new(slot);
        prop_assert_eq!(index.blocks(rank), Blocks::from(model.distinct(slot, Tier::Device)));
        prop_assert_eq!(index.orphans(rank), Blocks::from(model.waiting(slot)));
        prop_assert_eq!(index.block_size(rank).map(BlockSize::get), model.block_size(slot));
    }
    let mut found = Prefixes::default();
    for (salted, bits, size) in prompts() {
        let path = Path { salted, bits, blocks: DEPTH };
        let namespace = Namespace::new(path.namespace(), None);
        let prompt = PromptBlocks::new(&path.tokens(size), BlockSize::new(size).unwrap(), namespace);
        index.cached_prefixes(&prompt, &mut found);
        for slot in SLOTS {
            let expected = model.cached_prefix(slot, size, |blocks| path.cut(blocks).prefix(size), DEPTH);
            let answer = found.of(RankSlot::new(slot));
            prop_assert_eq!(answer, expected, "prompt {:?} of size {} on {}", path, size, slot);
        }
    }
    Ok(())
}

/// Whether a block is held is answered from the block alone.
fn compare_blocks(index: &ReportedIndex, model: &Model) -> Result<(), TestCaseError> {
    for slot in SLOTS {
        let held = model.held(slot);
        for (salted, bits, size) in prompts().filter(|(.., size)| *size == size_of(slot)) {
            for blocks in 1..=DEPTH {
                let prefix = Path { salted, bits, blocks }.prefix(size);
                let sequence = *sequences(&prefix, size).last().unwrap();
                prop_assert_eq!(index.holds(RankSlot::new(slot), sequence), held.contains(&prefix));
            }
        }
    }
    Ok(())
}

/// Whether anybody holds a block does not depend on who holds what stands before it.
fn compare_held_anywhere(index: &ReportedIndex, model: &Model) -> Result<(), TestCaseError> {
    let held_by = SLOTS.map(|slot| (size_of(slot), model.held(slot)));
    let mut held = Vec::new();
    for (salted, bits, size) in prompts() {
        let path = Path { salted, bits, blocks: DEPTH };
        let is_held = |blocks: usize| {
            let prefix = path.cut(blocks).prefix(size);
            held_by.iter().any(|(of_size, prefixes)| *of_size == size && prefixes.contains(&prefix))
        };
        let expected: Vec<bool> = (1..=DEPTH).map(is_held).collect();
        let namespace = Namespace::new(path.namespace(), None);
        let prompt = PromptBlocks::new(&path.tokens(size), BlockSize::new(size).unwrap(), namespace);
        for first in 0..=DEPTH + 1 {
            index.held_anywhere(&prompt, first, &mut held);
            let rest = expected.get(first..).unwrap_or_default();
            prop_assert_eq!(&held[..], rest, "prompt {:?} of size {} from {}", path, size, first);
        }
    }
    Ok(())
}

fn prompts() -> impl Iterator<Item = (bool, u32, u32)> {
    (0..1 << DEPTH)
        .flat_map(|bits| [false, true].map(|salted| (salted, bits)))
        .flat_map(|(salted, bits)| [1, 2].map(|size| (salted, bits, size)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_answer_equals_the_models(steps in prop::collection::vec(step(), 1..60)) {
        let index = ReportedIndex::default();
        let mut model = Model::default();
        for step in &steps {
            run(step, &index, &mut model)?;
            compare(&index, &model)?;
        }
        compare_blocks(&index, &model)?;
        compare_held_anywhere(&index, &model)?;
    }

    /// Whatever is lost on the way, repeating the whole stream of stores ends in the same cache.
    #[test]
    fn a_full_repeat_heals_every_loss(
        paths in prop::collection::vec((path(), any::<bool>()), 1..20),
    ) {
        let rank = RankSlot::new(0);
        let index = ReportedIndex::default();
        let events = |path: Path| (0..path.blocks).map(move |from| stored(path.cut(from + 1), 0, Tier::Device, from, 0));
        for (path, is_lost) in &paths {
            for (number, event) in events(*path).enumerate() {
                if !is_lost || number % 2 == 1 {
                    let _ = index.apply(rank, &KvEvent::Stored(event), &mut |_| {});
                }
            }
        }
        for event in paths.iter().flat_map(|(path, _)| events(*path)) {
            let _ = index.apply(rank, &KvEvent::Stored(event), &mut |_| {});
        }
        prop_assert_eq!(index.orphans(rank), Blocks::ZERO);
        for (path, _) in &paths {
            let namespace = Namespace::new(path.namespace(), None);
            let prompt = PromptBlocks::new(&path.tokens(1), BlockSize::new(1).unwrap(), namespace);
            let mut found = Prefixes::default();
            index.cached_prefixes(&prompt, &mut found);
            prop_assert_eq!(found.of(rank).device, Blocks::from(path.blocks));
        }
    }
}
