//! Any history of few prompts on few ranks, against the rule as it is written: who holds which block, who buried it when.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

/// Tokens of the smaller blocks; the larger ones hold two of them.
const SMALL: usize = 4;

/// A block by all that stands before it and itself, in letters of [`SMALL`] equal tokens.
type Prefix = Vec<u8>;

/// A prompt in letters, and how many tokens of half a block follow.
type Prompt = (Vec<u8>, usize);

#[derive(Clone, Debug)]
enum Step {
    Store { rank: usize, letters: Vec<u8> },
    Evict { rank: usize, block: usize, letters: Vec<u8> },
    Clear { rank: usize },
    Replace { rank: usize },
    Ask { prompts: Vec<Prompt> },
}

/// The same world by hand.
#[derive(Debug, Default)]
struct Model {
    /// Letters of a block on each rank, and what it holds.
    ranks: Vec<(usize, BTreeSet<Prefix>)>,
    /// Every removal of a block of so many letters, in order.
    removed: BTreeMap<(usize, Prefix), (usize, &'static str)>,
    clock: usize,
    is_blind: bool,
}

// === impl Model ===

impl Model {
    fn store(&mut self, rank: usize, letters: &[u8]) {
        let (size, held) = &mut self.ranks[rank];
        held.extend((1..=letters.len() / *size).map(|block| letters[..block * *size].to_vec()));
    }

    fn remove(&mut self, rank: usize, prefix: &[u8], cause: &'static str) {
        let (size, held) = &mut self.ranks[rank];
        if held.remove(prefix) {
            self.clock += 1;
            self.removed.insert((*size, prefix.to_vec()), (self.clock, cause));
        }
    }

    fn remove_all(&mut self, rank: usize, cause: &'static str) {
        for prefix in self.ranks[rank].1.clone() {
            self.remove(rank, &prefix, cause);
        }
    }

    /// Complete blocks of a prompt that a rank holds without a hole.
    fn cached(&self, rank: usize, letters: &[u8]) -> usize {
        let (size, held) = &self.ranks[rank];
        let is_held = |block: &usize| held.contains(&letters[..(block + 1) * size]);
        (0..letters.len() / size).take_while(is_held).count() * size
    }

    fn cached_of(&self, rank: usize, prompts: &[Prompt]) -> usize {
        prompts.iter().map(|(letters, _)| self.cached(rank, letters)).sum()
    }

    /// F0 − A by reason, in tokens.
    fn lost(&self, prompts: &[Prompt]) -> BTreeMap<&'static str, u64> {
        let most = (0..self.ranks.len()).map(|rank| self.cached_of(rank, prompts)).max().unwrap();
        let holder = (0..self.ranks.len()).find(|rank| self.cached_of(*rank, prompts) == most).unwrap();
        let smallest = self.ranks.iter().map(|(size, _)| *size).min().unwrap();
        let mut lost = BTreeMap::new();
        let input: usize = prompts.iter().map(|(letters, rest)| letters.len() * SMALL + rest).sum();
        let mut left = input - most * SMALL;
        let mut take = |reason: &'static str, tokens: usize| {
            let taken = tokens.min(left);
            left -= taken;
            if taken > 0 {
                *lost.entry(reason).or_insert(0) += taken as u64;
            }
        };
        let partial = |(letters, rest): &Prompt| letters.len() % smallest * SMALL + rest;
        take("partial_block", prompts.iter().map(partial).sum());
        for (letters, _) in prompts {
            let prefix = if most == 0 { 0 } else { self.cached(holder, letters) };
            let mut hole = self.hole_before(letters, prefix);
            for start in (0..letters.len() / smallest * smallest).step_by(smallest) {
                if start + smallest <= prefix {
                    continue;
                }
                let reason = match hole {
                    Some(hole) if self.is_held(letters, start) => hole,
                    _ => self.newest_removal(letters, start).unwrap_or_else(|| self.unknown()),
                };
                hole = Some(reason);
                take(reason, (start + smallest - start.max(prefix)) * SMALL);
            }
        }
        lost
    }

    /// Where a rank lost something that the longest prefix covers: what that rank has behind it is lost with it.
    fn hole_before(&self, letters: &[u8], prefix: usize) -> Option<&'static str> {
        let holes = (0..self.ranks.len()).filter_map(|rank| {
            let (size, end) = (self.ranks[rank].0, self.cached(rank, letters));
            let block = letters.get(..end + size).filter(|_| end < prefix)?;
            self.removed.get(&(size, block.to_vec()))
        });
        holes.max().map(|(_, cause)| *cause)
    }

    /// The block of any size that covers this place, on any rank.
    fn is_held(&self, letters: &[u8], start: usize) -> bool {
        self.ranks.iter().any(|(size, held)| {
            letters.get(..(start / size + 1) * size).is_some_and(|block| held.contains(block))
        })
    }

    fn newest_removal(&self, letters: &[u8], start: usize) -> Option<&'static str> {
        let sizes: BTreeSet<_> = self.ranks.iter().map(|(size, _)| *size).collect();
        let of_size = |size: usize| {
            let block = letters.get(..(start / size + 1) * size)?;
            self.removed.get(&(size, block.to_vec()))
        };
        sizes.into_iter().filter_map(of_size).max().map(|(_, cause)| *cause)
    }

    fn unknown(&self) -> &'static str {
        if self.is_blind { "source_blind" } else { "not_cached" }
    }
}

fn tokens((letters, rest): &Prompt) -> Vec<TokenId> {
    let whole = letters.iter().flat_map(|letter| [u32::from(*letter); SMALL]);
    whole.chain(std::iter::repeat_n(9, *rest)).collect()
}

fn any_letters() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(1u8..3, 0..7)
}

fn any_step(ranks: usize) -> impl Strategy<Value = Step> {
    let rank = 0..ranks;
    prop_oneof![
        6 => (rank.clone(), any_letters()).prop_map(|(rank, letters)| Step::Store { rank, letters }),
        6 => (rank.clone(), 0usize..6, any_letters())
            .prop_map(|(rank, block, letters)| Step::Evict { rank, block, letters }),
        1 => rank.clone().prop_map(|rank| Step::Clear { rank }),
        1 => rank.prop_map(|rank| Step::Replace { rank }),
        8 => prop::collection::vec((any_letters(), 0usize..SMALL), 1..4)
            .prop_map(|prompts| Step::Ask { prompts }),
    ]
}

/// Plays a step in both worlds.
fn play(world: &mut World, model: &mut Model, step: Step) -> Result<(), TestCaseError> {
    match step {
        Step::Store { rank, letters } => {
            let blocks = letters.len() / model.ranks[rank].0;
            if blocks > 0 {
                world.stores(rank, &tokens(&(letters.clone(), 0)), blocks);
                model.store(rank, &letters);
            }
        }
        Step::Evict { rank, block, letters } => {
            let size = model.ranks[rank].0;
            let Some(prefix) = letters.get(..(block + 1) * size) else { return Ok(()) };
            if model.ranks[rank].1.contains(prefix) {
                world.evicts(rank, &tokens(&(letters.clone(), 0)), block);
                model.remove(rank, prefix, "evicted");
            }
        }
        Step::Clear { rank } => {
            world.tell(rank, KvEvent::Cleared);
            model.remove_all(rank, "cleared");
        }
        Step::Replace { rank } => {
            let (old, size) = (Arc::clone(&world.ranks[rank]), model.ranks[rank].0);
            world.knowledge.remove(old.slot);
            let tells = if model.is_blind { Tells::NotAlways } else { Tells::Everything };
            world.ranks[rank] = Arc::new(world.rank(old.slot, old.block_size(), tells));
            model.remove_all(rank, "worker_gone");
            model.ranks[rank] = (size, BTreeSet::new());
        }
        Step::Ask { prompts } => {
            let asked: Vec<_> = prompts.iter().map(tokens).collect();
            let (_, lost) = world.lost_after(&asked, || {});
            let found: BTreeMap<_, _> = shown(&lost).into_iter().collect();
            prop_assert_eq!(found, model.lost(&prompts), "{:?} with {:?}", prompts, model);
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn the_reasons_are_those_of_the_rule(
        (sizes, steps) in prop::collection::vec(1usize..3, 1..4)
            .prop_flat_map(|sizes| {
                let steps = prop::collection::vec(any_step(sizes.len()), 1..60);
                (Just(sizes), steps)
            }),
        is_blind in any::<bool>(),
    ) {
        let (mut world, mut model) = (World::new(&[]), Model { is_blind, ..Model::default() });
        for size in sizes {
            let tells = if is_blind { Tells::NotAlways } else { Tells::Everything };
            world.joins((size * SMALL) as u32, tells);
            model.ranks.push((size, BTreeSet::new()));
        }
        for step in steps {
            play(&mut world, &mut model, step)?;
        }
    }

    /// Whatever happens to the index between the lookup and the question why, the reasons add up.
    #[test]
    fn the_reasons_add_up_in_any_race(
        before in prop::collection::vec(any_step(3), 0..20),
        meanwhile in prop::collection::vec(any_step(3), 0..5),
        prompts in prop::collection::vec((any_letters(), 0usize..SMALL), 1..4),
    ) {
        let (mut world, mut model) = (World::new(&[4, 4, 8]), Model::default());
        model.ranks = [1, 1, 2].map(|size| (size, BTreeSet::new())).into();
        for step in before {
            play(&mut world, &mut model, step)?;
        }
        let asked: Vec<_> = prompts.iter().map(tokens).collect();
        world.lost_after(&asked, || {
            for step in meanwhile {
                happen(&world, &mut model, step);
            }
        });
    }
}

/// A step while somebody asks: without a change of the fleet, of which a decision sees one state.
fn happen(world: &World, model: &mut Model, step: Step) {
    match step {
        Step::Store { rank, letters } if letters.len() >= model.ranks[rank].0 => {
            world.stores(rank, &tokens(&(letters.clone(), 0)), letters.len() / model.ranks[rank].0);
            model.store(rank, &letters);
        }
        Step::Evict { rank, block, letters } => {
            let prefix = letters.get(..(block + 1) * model.ranks[rank].0);
            if let Some(prefix) = prefix.filter(|prefix| model.ranks[rank].1.contains(*prefix)) {
                world.evicts(rank, &tokens(&(letters.clone(), 0)), block);
                model.remove(rank, prefix, "evicted");
            }
        }
        Step::Clear { rank } => {
            world.tell(rank, KvEvent::Cleared);
            model.remove_all(rank, "cleared");
        }
        _ => {}
    }
}
