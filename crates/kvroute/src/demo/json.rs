//! The demo's result as JSON. The shape is an interface: fields may be added, never renamed.

use kvroute_router::{ByName, LostByStage, SurplusByStage};
use serde::Serialize;

use super::funnel::{Funnel, Loss};
use super::outcome::Outcome;
use super::plan::Plan;
use super::progress::Percentiles;

#[derive(Serialize)]
struct Report<'a> {
    runs: Vec<Run<'a>>,
}

#[derive(Serialize)]
struct Run<'a> {
    policy: &'a str,
    workers: u32,
    kv_blocks: u32,
    block_size: u32,
    seed: u64,
    repeats: u32,
    requests: u64,
    errors: u64,
    input_tokens: Option<u64>,
    history_cached_tokens: Option<u64>,
    best_cached_tokens: Option<u64>,
    best_eligible_cached_tokens: Option<u64>,
    selected_cached_tokens: Option<u64>,
    reused_tokens: Option<u64>,
    reported_input_tokens: Option<u64>,
    ledger_input_tokens: Option<u64>,
    engine_reused_tokens: Option<u64>,
    lost: LostByStage<ByName<u64>>,
    lost_prefill_seconds: LostByStage<ByName<Option<f64>>>,
    surplus: SurplusByStage<u64>,
    ttft_seconds: Seconds,
}

#[derive(Serialize)]
struct Seconds {
    p50: Option<f64>,
    p90: Option<f64>,
    p99: Option<f64>,
}

/// One object with one entry a run, on one line.
pub(crate) fn render(plan: &Plan, outcomes: &[Outcome]) -> serde_json::Result<String> {
    let runs = outcomes.iter().map(|outcome| run(plan, outcome)).collect();
    serde_json::to_string(&Report { runs }).map(|text| text + "\n")
}

fn run<'a>(plan: &Plan, outcome: &'a Outcome) -> Run<'a> {
    let funnel = &outcome.funnel;
    Run {
        policy: &outcome.policy,
        workers: plan.workers,
        kv_blocks: plan.kv_blocks,
        block_size: plan.block_size.get(),
        seed: plan.seed,
        repeats: 1,
        requests: outcome.requests,
        errors: outcome.errors,
        input_tokens: funnel.input,
        history_cached_tokens: funnel.history,
        best_cached_tokens: funnel.anywhere,
        best_eligible_cached_tokens: funnel.best_eligible,
        selected_cached_tokens: funnel.selected,
        reused_tokens: funnel.reused,
        reported_input_tokens: funnel.reported_input,
        ledger_input_tokens: funnel.ledger_input,
        engine_reused_tokens: outcome.engine_reused,
        lost: by_stage(funnel, |loss| loss.tokens),
        lost_prefill_seconds: by_stage(funnel, |loss| loss.seconds),
        surplus: SurplusByStage::each(|stage| funnel.surplus_at(stage)),
        ttft_seconds: seconds(&outcome.first_token),
    }
}

/// A stage that the router does not export does not exist.
fn by_stage<T>(funnel: &Funnel, of: impl Fn(&Loss) -> T) -> LostByStage<ByName<T>> {
    LostByStage::each(|stage| {
        let mut losses = funnel.lost_at(stage).peekable();
        losses.peek()?;
        Some(losses.map(|loss| (loss.reason, of(loss))).collect())
    })
}

fn seconds(percentiles: &Percentiles) -> Seconds {
    let seconds = |time: Option<std::time::Duration>| time.map(|time| time.as_secs_f64());
    Seconds { p50: seconds(percentiles.p50), p90: seconds(percentiles.p90), p99: seconds(percentiles.p99) }
}
