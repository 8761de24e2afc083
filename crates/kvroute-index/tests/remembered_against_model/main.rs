//! What is remembered of a rank against a model that keeps plain lists, over random lives of attempts.

#![expect(clippy::unwrap_used, reason = "a test reports a broken assumption by panicking")]

mod model;

use std::time::Duration;

use kvroute_core::{
    AttemptId, BlockSize, Blocks, Namespace, PromptBlocks, RankSlot, Removal, RemovalCause, SequenceHash,
    Tokens,
};
use kvroute_index::{IndexOptions, RememberedRank, ReportedIndex, ReportedReuse};
use proptest::prelude::*;

use model::{Model, Path};

const SLOT: RankSlot = RankSlot::new(3);
const SIZE: u32 = 2;
const DEPTH: usize = 4;
const TTL: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
enum Step {
    Place { id: u64, path: Path, is_partial: bool },
    Grow { id: u64, output: u64 },
    Finish { id: u64 },
    Report { id: u64, predicted: u64, reused: u64 },
    Expire,
}

fn path() -> impl Strategy<Value = Path> {
    (0u32..1 << DEPTH, 0..=DEPTH).prop_map(|(bits, blocks)| Path::new(bits, blocks))
}

fn step() -> impl Strategy<Value = Step> {
    let id = || 0u64..5;
    prop_oneof![
        5 => (id(), path(), any::<bool>()).prop_map(|(id, path, is_partial)| Step::Place { id, path, is_partial }),
        5 => (id(), 0u64..4).prop_map(|(id, output)| Step::Grow { id, output }),
        5 => id().prop_map(|id| Step::Finish { id }),
        2 => (id(), 0..=DEPTH as u64, 0..=2 * DEPTH as u64).prop_map(|(id, predicted, reused)| Step::Report { id, predicted, reused }),
        2 => Just(Step::Expire),
    ]
}

fn prompt(path: Path, is_partial: bool) -> PromptBlocks {
    let mut tokens = path.tokens(SIZE);
    tokens.extend(is_partial.then_some(9));
    PromptBlocks::new(&tokens, BlockSize::new(SIZE).unwrap(), Namespace::DEFAULT)
}

/// A rank with its index, and the model of it.
struct World {
    blocks: Vec<(Path, SequenceHash)>,
    index: ReportedIndex,
    rank: RememberedRank,
    model: Model,
    gone: Vec<Removal>,
}

impl World {
    fn new(capacity: Option<u64>) -> Self {
        let size = BlockSize::new(SIZE).unwrap();
        let last = |path| *prompt(path, false).hashes().last().unwrap();
        Self {
            blocks: Path::all(DEPTH).map(|path| (path, last(path))).collect(),
            index: ReportedIndex::new(IndexOptions::default()),
            rank: RememberedRank::new(SLOT, size, TTL, capacity.map(Blocks::new)),
            model: Model::new(capacity.is_none().then_some(TTL)),
            gone: Vec::new(),
        }
    }

    fn run(&mut self, step: &Step, now: Duration) {
        let (index, gone) = (&self.index, &mut self.gone);
        let gone = &mut |removal| gone.push(removal);
        match *step {
            Step::Place { id, path, is_partial } => {
                self.rank.placed(index, AttemptId::new(id), &prompt(path, is_partial), now, gone);
                self.model.placed(id, path, is_partial, now);
            }
            Step::Grow { id, output } => {
                self.rank.grew(index, AttemptId::new(id), Blocks::new(output), now, gone);
                if !self.model.grew(id, output, now) {
                    return;
                }
            }
            Step::Finish { id } => {
                self.rank.finished(AttemptId::new(id), now);
                self.model.finished(id, now);
                return;
            }
            Step::Report { id, predicted, reused } => {
                let reuse = ReportedReuse {
                    predicted: Tokens::new(predicted * u64::from(SIZE)),
                    reused: Tokens::new(reused),
                };
                let correction = self.rank.reported(index, AttemptId::new(id), reuse, now, gone);
                let Some(dropped) = self.model.reported(id, reuse, SIZE, now) else { return };
                assert_eq!(correction.dropped, Blocks::from(dropped.len()));
            }
            Step::Expire => {
                self.rank.expire(index, now, gone);
                self.model.expire(now);
            }
        }
        self.model.make_room(self.rank.capacity().get());
    }

    fn compare(&mut self) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.rank.blocks(), Blocks::from(self.model.len()));
        prop_assert_eq!(self.index.blocks(SLOT), self.rank.blocks());
        for (path, hash) in &self.blocks {
            prop_assert_eq!(self.index.holds(SLOT, *hash), self.model.remembers(*path), "{:?}", path);
        }
        let mut causes = self.gone.drain(..).map(|removal| (removal.slot, removal.cause));
        prop_assert!(causes.all(|removal| removal == (SLOT, RemovalCause::Forgotten)));
        Ok(())
    }
}

fn second(number: usize) -> Duration {
    Duration::from_secs(number as u64)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn a_rank_with_a_known_capacity_equals_the_model(
        steps in prop::collection::vec(step(), 1..100),
        capacity in 0u64..14,
    ) {
        run_all(&steps, Some(capacity))?;
    }

    #[test]
    fn a_rank_without_one_equals_the_model(steps in prop::collection::vec(step(), 1..100)) {
        run_all(&steps, None)?;
    }

    /// Several prompts an attempt: which of two equally old blocks leaves first is open, everything else is not.
    #[test]
    fn whatever_happens_the_index_holds_what_is_remembered_and_it_all_ends(
        steps in prop::collection::vec(step(), 1..100),
        capacity in prop::option::of(0u64..14),
    ) {
        let mut world = World::new(capacity);
        for (number, step) in steps.iter().enumerate() {
            world.run(step, second(number));
            prop_assert_eq!(world.index.blocks(SLOT), world.rank.blocks());
        }
        let end = second(steps.len());
        (0..5).for_each(|id| world.run(&Step::Finish { id }, end));
        world.run(&Step::Expire, end);
        prop_assert!(world.rank.blocks() <= world.rank.capacity());
        if capacity.is_none() {
            world.run(&Step::Expire, end + TTL);
            prop_assert_eq!(world.index.blocks(SLOT), Blocks::ZERO);
        }
    }
}

fn run_all(steps: &[Step], capacity: Option<u64>) -> Result<(), TestCaseError> {
    let mut world = World::new(capacity);
    for (number, step) in steps.iter().enumerate() {
        if matches!(step, Step::Place { id, .. } if world.model.is_running(*id)) {
            continue;
        }
        world.run(step, second(number));
        world.compare()?;
    }
    Ok(())
}
