//! What it costs to say why the blocks of a cold prompt are cached nowhere: a look for the tombstone of each, and one
//! for who still holds any of them.

use std::hint::black_box;
use std::time::Duration;

use anyhow::{Result, ensure};
use kvroute_core::{PromptBlocks, RankSlot, Removal, RemovalCause, SequenceHash};
use kvroute_index::{ReportedIndex, Tombstones};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::measure::nanoseconds_each;
use crate::index::contestant::Index;
use crate::index::kvroute::FromHashes;
use crate::index::workload::{BLOCK_SIZE, Workload, prompt_blocks};
use crate::random::Random;
use crate::stopwatch::Stopwatch;

/// One thing that is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Search {
    /// Tombstones of a prompt that is new.
    NoTombstones,
    /// Tombstones of a prompt that was evicted; a few have fallen out of the table by then.
    Tombstones,
    /// Who holds anything of a prompt, where nobody does.
    Unheld,
    /// The same where all but the first block is held.
    BehindHole,
}

/// What is to be measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Length of the prompts.
    pub(crate) blocks: usize,
    /// Blocks that the workers hold together.
    pub(crate) entries: usize,
    /// Blocks of one measurement, at least.
    pub(crate) looks: usize,
    pub(crate) seed: u64,
}

/// The figures of prompts of one length, in nanoseconds a prompt, one a repetition.
#[derive(Clone, Debug)]
pub(crate) struct Reasons {
    pub(crate) blocks: usize,
    figures: [Vec<f64>; Search::ALL.len()],
}

/// An index and tombstones as full as those of a router that has run for long.
struct World {
    index: FromHashes,
    tombstones: Mutex<Tombstones>,
    new: Vec<PromptBlocks>,
    evicted: Vec<PromptBlocks>,
    cut: Vec<PromptBlocks>,
    looks: usize,
}

const WORKERS: usize = 26;
/// What the router takes at its default budget.
const TOMBSTONE_BYTES: usize = 16 << 20;

// === impl Search ===

impl Search {
    pub(crate) const ALL: [Self; 4] = [Self::NoTombstones, Self::Tombstones, Self::Unheld, Self::BehindHole];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::NoTombstones => "tombstones: a new prompt has none",
            Self::Tombstones => "tombstones: each block was evicted",
            Self::Unheld => "holders: nobody holds anything",
            Self::BehindHole => "holders: all but the first block is held",
        }
    }
}

// === impl Reasons ===

impl Reasons {
    pub(crate) fn measure(plan: Plan, repetitions: usize) -> Result<Self> {
        let world = World::new(plan);
        let mut reasons = Self { blocks: plan.blocks, figures: Default::default() };
        for _ in 0..repetitions {
            for search in Search::ALL {
                reasons.figures[search as usize].push(world.cost(search)?);
            }
        }
        Ok(reasons)
    }

    /// Nanoseconds a prompt, one figure a repetition.
    pub(crate) fn of(&self, search: Search) -> &[f64] {
        &self.figures[search as usize]
    }

    pub(crate) fn as_json(&self) -> Value {
        let named = Search::ALL.map(|search| (search.name().to_owned(), json!(self.of(search))));
        json!({ "blocks": self.blocks, "ns_a_prompt": serde_json::Map::from_iter(named) })
    }
}

// === impl World ===

impl World {
    fn new(Plan { blocks, entries, looks, seed }: Plan) -> Self {
        let index = FromHashes::new(WORKERS);
        for event in &Workload::chat(blocks, WORKERS, entries, seed).stores {
            index.apply(&mut 0, FromHashes::event(event));
        }
        let mut random = Random::new(seed ^ 1);
        let count = (entries / 4 / blocks).clamp(8, 2000);
        let mut prompts =
            || (0..count).map(|_| prompt_blocks(&random.take(blocks))).collect::<Vec<PromptBlocks>>();
        let (new, evicted, cut) = (prompts(), prompts(), prompts());
        let tombstones = Mutex::new(buried(&evicted, &mut random));
        cut.iter().for_each(|prompt| hold_without_first(&index.0, prompt));
        Self { index, tombstones, new, evicted, cut, looks }
    }

    fn cost(&self, search: Search) -> Result<f64> {
        let mut held = Vec::new();
        match search {
            Search::NoTombstones => self.timed(&self.new, |prompt| self.count_tombstones(prompt) == 0),
            Search::Tombstones => {
                self.timed(&self.evicted, |prompt| self.count_tombstones(prompt) >= prompt.hashes().len() / 2)
            }
            Search::Unheld => self.timed(&self.new, |prompt| self.count_held(prompt, &mut held) == 0),
            Search::BehindHole => self
                .timed(&self.cut, |prompt| self.count_held(prompt, &mut held) + 1 == prompt.hashes().len()),
        }
    }

    /// Nanoseconds a prompt. Each look says whether it found what it should.
    fn timed(&self, prompts: &[PromptBlocks], mut look: impl FnMut(&PromptBlocks) -> bool) -> Result<f64> {
        let blocks: usize = prompts.iter().map(|prompt| prompt.hashes().len()).sum();
        let rounds = self.looks.div_ceil(blocks);
        let mut wrong = 0;
        let watch = Stopwatch::start();
        for prompt in (0..rounds).flat_map(|_| prompts) {
            wrong += usize::from(!black_box(look(prompt)));
        }
        let time = watch.worked();
        ensure!(wrong == 0, "{wrong} of {} lookups found something else", rounds * prompts.len());
        Ok(nanoseconds_each(time, rounds * prompts.len()))
    }

    fn count_tombstones(&self, prompt: &PromptBlocks) -> usize {
        let tombstones = self.tombstones.lock();
        prompt.hashes().iter().filter(|hash| tombstones.newest(**hash, |_| true).is_some()).count()
    }

    fn count_held(&self, prompt: &PromptBlocks, held: &mut Vec<bool>) -> usize {
        self.index.0.held_anywhere(prompt, 0, held);
        held.iter().filter(|is_held| **is_held).count()
    }
}

/// A full table, and the prompts' blocks the newest in it.
fn buried(evicted: &[PromptBlocks], random: &mut Random) -> Tombstones {
    let mut tombstones = Tombstones::new(TOMBSTONE_BYTES);
    let older = TOMBSTONE_BYTES / size_of::<[u64; 3]>() * 2;
    let older = (0..older).map(|_| SequenceHash::from_raw(random.next()));
    let newer = evicted.iter().flat_map(|prompt| prompt.hashes().iter().copied());
    for sequence in older.chain(newer) {
        let slot = RankSlot::new(sequence.get() as u32 % WORKERS as u32);
        tombstones.bury(Removal { slot, sequence, cause: RemovalCause::Evicted }, Duration::ZERO);
    }
    tombstones
}

fn hold_without_first(index: &ReportedIndex, prompt: &PromptBlocks) {
    let (slot, hashes) = (RankSlot::new(0), prompt.hashes());
    let _ = index.hold(slot, BLOCK_SIZE, hashes, &mut |_| {});
    let _ = index.release(slot, &hashes[..1], &mut |_| {});
}
