//! What there is to tell of a request.

use kvroute_core::{
    BlockSize, Blocks, Exclusion, Figure, PlacementReason, RemovalCause, ReportSource, Tokens,
    TokensPerSecond, WorkerLoad, WorkerReport,
};
use kvroute_funnel::{
    AbsentLoss, CachedStages, Count, LedgerTerms, MissingBlock, Opening, ReportExpectation, SelectionLosses,
    UnavailableLoss,
};
use kvroute_metrics::SelectionOverlap;
use kvroute_select::PickReason;

use crate::random::{OneIn, Random};

/// Workers of each model.
pub(crate) const RANKS: usize = 4;
/// The policy that decides.
pub(crate) const POLICY: &str = "kv";
/// The one that is only asked.
pub(crate) const SHADOW: &str = "round-robin";
/// Why it picks.
pub(crate) const REASONS: [&str; 2] = [PickReason::LowestCost.as_str(), PickReason::Tie.as_str()];

/// One request, all of it known beforehand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Story {
    pub(crate) opening: Opening,
    pub(crate) report: WorkerReport,
    /// Of the worker's prefill.
    pub(crate) speed: Option<TokensPerSecond>,
    pub(crate) rank: usize,
    pub(crate) reason: &'static str,
    pub(crate) overlap: SelectionOverlap,
    pub(crate) shadow: Tokens,
    pub(crate) load: WorkerLoad,
    pub(crate) output: Tokens,
}

/// Data-parallel rank of every worker, as its label says it.
pub(crate) const DP_RANK: &str = "0";

const BLOCK_SIZE: BlockSize = BlockSize::DEFAULT;
/// Prompts in blocks; one token more makes the last block a partial one.
const LONGEST: usize = 800;

// === impl Story ===

impl Story {
    /// Requests that differ in length, in what is cached of them and in why not more is.
    pub(crate) fn several(count: usize, seed: u64) -> Vec<Self> {
        let mut random = Random::new(seed);
        (0..count).map(|number| Self::new(number, &mut random)).collect()
    }

    /// The prompt's tokens.
    pub(crate) fn input(&self) -> Tokens {
        self.opening.count.input().unwrap_or_default()
    }

    fn new(number: usize, random: &mut Random) -> Self {
        let blocks = 8 + random.below(LONGEST) as u64;
        let input = tokens(blocks) + Tokens::new(1);
        let anywhere = random.below(blocks as usize) as u64;
        let mut part_of = |blocks: u64, share| if random.is(OneIn(share)) { blocks / 2 } else { blocks };
        let best = part_of(anywhere, 8);
        let selected = part_of(best, 4);
        let reused = part_of(selected, 4);
        let share = |blocks: u64| blocks as f64;
        Self {
            opening: opening(input, [anywhere, best, selected], random),
            report: report(input, tokens(reused)),
            speed: TokensPerSecond::new(8192.0),
            rank: number % RANKS,
            reason: REASONS[usize::from(random.is(OneIn(4)))],
            overlap: SelectionOverlap {
                selected: share(selected),
                best: share(best),
                prompt: share(blocks) + 1.0,
            },
            shadow: tokens(selected / 4),
            load: WorkerLoad {
                prefill_tokens: input,
                decode_blocks: Blocks::new(blocks),
                active_requests: random.below(32) as u64,
            },
            output: Tokens::new(2 + random.below(500) as u64),
        }
    }
}

/// What a model is called.
pub(crate) fn model_name(model: usize) -> String {
    format!("organisation/model-{model}-instruct")
}

/// What a model's worker is called.
pub(crate) fn worker_name(model: usize, rank: usize) -> String {
    format!("http://engine-{model}-{rank}.example:8000")
}

fn opening(input: Tokens, [anywhere, best, selected]: [u64; 3], random: &mut Random) -> Opening {
    let stages = CachedStages { anywhere: tokens(anywhere), best: tokens(best), selected: tokens(selected) };
    let losses = SelectionLosses {
        absent: AbsentLoss::Unavailable(unavailable(input - stages.anywhere, random)),
        eligibility: (best < anywhere).then_some(Exclusion::Unhealthy),
        placement: (selected < best).then_some(PlacementReason::Load),
    };
    Opening {
        count: Count::Exact { input, cached: Some(stages) },
        history: None,
        reports: ReportExpectation::Expected,
        ledger: Some(LedgerTerms { losses, reusable: BLOCK_SIZE.reusable_tokens(input) }),
        is_repeat: false,
    }
}

/// One block was evicted, some follow that are new, and the last token fills no block.
fn unavailable(lost: Tokens, random: &mut Random) -> UnavailableLoss {
    let removed = random.is(OneIn(2)).then_some(RemovalCause::Evicted);
    let block = MissingBlock { tokens: tokens(1), removed, is_held: false };
    UnavailableLoss::of(lost, Tokens::new(1), [[block]], false)
}

fn report(input: Tokens, reused: Tokens) -> WorkerReport {
    let figure = |tokens: Tokens| Figure::Count(tokens.get());
    WorkerReport { source: ReportSource::Usage, prompt: figure(input), reused: figure(reused) }
}

fn tokens(blocks: u64) -> Tokens {
    BLOCK_SIZE.tokens(Blocks::new(blocks))
}
