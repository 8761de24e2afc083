//! The cache-reuse funnel: how much of the input is reused, how much could be, and where the rest is lost.

use kvroute_core::Phase;
use kvroute_funnel::LossStage;
use kvroute_metrics::{Row, rows};

use super::{Dashboard, Panel, Section, Unit};
use crate::query::{Query, Series, Spelling};

const PER_GROUP: [&str; 2] = ["model", "phase"];

/// The funnel's dashboard.
pub(super) fn dashboard(spelling: &Spelling) -> Dashboard {
    Dashboard {
        name: "funnel",
        title: "kvroute: cache-reuse funnel",
        about: "How much of the input is reused, how much could be, and why the rest is lost.",
        sections: vec![
            Section::new(
                "At a glance",
                vec![reuse(spelling), reachable(spelling), kept(spelling), coverage(spelling)],
            ),
            Section::new(
                "Stages",
                vec![range(spelling), rates(spelling), shares(spelling), by_group(spelling)],
            ),
            Section::new("Losses", losses(spelling)),
            Section::new("What was computed before", computed_before(spelling)),
            Section::new("Reports", reports(spelling)),
            Section::new("Other policies", vec![shadows(spelling)]),
        ],
    }
}

fn reuse(spelling: &Spelling) -> Panel {
    Panel::figures("Reused", Unit::Share)
        .says(
            "Reused tokens by the input of the attempts that reported. Far below `Reachable`: the panels of section \
             Losses say why.",
        )
        .shows("reused", rate(spelling, rows::WORKER_REUSED).over(rate(spelling, rows::REPORTED_INPUT)))
}

fn reachable(spelling: &Spelling) -> Panel {
    Panel::figures("Reachable", Unit::Share)
        .says(
            "Share of the input that lay cached on some worker that could have taken the attempt. It bounds what any \
             decision can reach; more needs larger caches or other traffic.",
        )
        .shows("reachable", rate(spelling, rows::ANYWHERE_CACHED).over(rate(spelling, rows::LEDGER_INPUT)))
}

fn kept(spelling: &Spelling) -> Panel {
    Panel::figures("Promises kept", Unit::Share)
        .says(
            "What workers reused by what the index promised, of the same attempts. Below 0.95: see the losses of stage \
             delivery, and the workers' dashboard for the worker. Above 1: workers hold more than the index knows.",
        )
        .shows(
            "kept",
            rate(spelling, rows::COMPARED_REPORTED).over(rate(spelling, rows::COMPARED_PREDICTED)),
        )
}

fn coverage(spelling: &Spelling) -> Panel {
    Panel::figures("Coverage", Unit::Share)
        .says(
            "Input with a counted report by the input that could have had one. Below 0.9 the reuse speaks of a part of \
             the traffic: see the outcomes of reports.",
        )
        .shows("coverage", rate(spelling, rows::REPORTED_INPUT).over(rate(spelling, rows::EXPECTED_INPUT)))
}

/// The one picture of the whole funnel, in tokens.
fn range(spelling: &Spelling) -> Panel {
    let spelling = Spelling { window: "$__range", ..spelling.clone() };
    let total = |series: Series| series.increase().sum();
    Panel::bars("Tokens in the whole time shown", Unit::Tokens)
        .wide()
        .says(
            "The stages from top to bottom, in tokens. Each is a part of the one above it, but for F4, which workers \
             report by themselves, and F1, which only pools with a history have, and which caches may know more than. The \
             largest step is where to look first.",
        )
        .shows("F0 input", total(spelling.series(rows::INPUT_TOKENS).total()))
        .shows("F1 computed before", total(spelling.series(rows::HISTORY_CACHED_BY_MODEL)))
        .shows("A cached on any worker", total(spelling.series(rows::ANYWHERE_CACHED)))
        .shows("F2 cached on the best eligible worker", total(spelling.series(rows::BEST_CACHED)))
        .shows("F3 cached on the picked worker", total(spelling.series(rows::SELECTED_CACHED)))
        .shows("F4 reported as reused", total(spelling.series(rows::WORKER_REUSED)))
}

fn rates(spelling: &Spelling) -> Panel {
    Panel::lines("Stages", Unit::TokensPerSecond)
        .says(
            "The stages as they flow. F0 counts every counted attempt, F1 only those that a history was asked about, A only \
             those that the loss ledger covers, F4 only those that reported: for shares see the panel beside this one.",
        )
        .shows("F0 input", spelling.series(rows::INPUT_TOKENS).total().rate().sum())
        .shows("F1 computed before", rate(spelling, rows::HISTORY_CACHED_BY_MODEL))
        .shows("A cached on any worker", rate(spelling, rows::ANYWHERE_CACHED))
        .shows("F2 best eligible", rate(spelling, rows::BEST_CACHED))
        .shows("F3 picked", rate(spelling, rows::SELECTED_CACHED))
        .shows("F4 reused", rate(spelling, rows::WORKER_REUSED))
        .shows("to be computed", rate(spelling, rows::UNCACHED_PREFILL))
        .shows("repeated by retries", rate(spelling, rows::REPEATED_INPUT))
}

/// Each over the input of its own population.
fn shares(spelling: &Spelling) -> Panel {
    let of_ledger = |row: &'static Row| in_ledger(spelling, row).rate().sum();
    let input = || of_ledger(rows::LEDGER_INPUT);
    Panel::lines("Stages by their input", Unit::Share)
        .says(
            "F1 by the input of the attempts that a history was asked about, A, F2 and F3 by the input of those with an index \
             view, F4 by the input of those that reported. F1 low: prompts are new. A below F1: caches lose what comes \
             again. F2 below A: holders are not eligible. F3 below F2: load or \
             policy outweigh the cache. F4 below F3: promises are not kept.",
        )
        .shows("F1 computed before", known(spelling, &[]))
        .shows("A cached on any worker", of_ledger(rows::ANYWHERE_CACHED).over(input()))
        .shows("F2 best eligible", of_ledger(rows::BEST_CACHED).over(input()))
        .shows("F3 picked", of_ledger(rows::SELECTED_CACHED).over(input()))
        .shows("F4 reused", rate(spelling, rows::WORKER_REUSED).over(rate(spelling, rows::REPORTED_INPUT)))
}

fn by_group(spelling: &Spelling) -> Panel {
    let by = |query: Query| query.sum_by(&PER_GROUP);
    Panel::lines("Reused and promised, by model and phase", Unit::Share)
        .wide()
        .says(
            "Per model and phase: reused by reported input, and cached on the picked worker by the input with an index \
             view. A model far below the others: its prompts share little, or its pool is misconfigured.",
        )
        .shows(
            "F4 {{model}} {{phase}}",
            by(spelling.rate(rows::WORKER_REUSED)).over(by(spelling.rate(rows::REPORTED_INPUT))),
        )
        .shows(
            "F3 {{model}} {{phase}}",
            by(in_ledger(spelling, rows::SELECTED_CACHED).rate()).over(by(spelling.rate(rows::LEDGER_INPUT))),
        )
}

fn losses(spelling: &Spelling) -> Vec<Panel> {
    let lost = || spelling.rate(rows::REUSE_LOST);
    vec![
        Panel::stacked("Lost tokens by stage", Unit::TokensPerSecond)
            .says(
                "Where tokens drop out between input and reuse. new: never computed before. residency: computed before, and \
                 cached nowhere any more. unavailable: one of these two, in a pool without a history. eligibility: cached \
                 where nothing could be sent. placement: the decision went elsewhere. delivery: promised and not reused.",
            )
            .shows("{{stage}}", lost().sum_by(&["stage"])),
        Panel::lines("Lost tokens by stage and input", Unit::Share)
            .says(
                "The same, by the input of the attempts with an index view; delivery by what was promised to attempts \
                 that reported, last blocks included.",
            )
            .shows("{{stage}}", before_delivery(spelling).over_sum(rate(spelling, rows::LEDGER_INPUT)))
            .shows("delivery", in_delivery(spelling).over(rate(spelling, rows::COMPARED_PREDICTED))),
        Panel::stacked("Lost tokens by reason", Unit::TokensPerSecond)
            .says(
                "Every lost token has one reason; docs/funnel.md explains each. partial_block, unseen, not_cached and \
                 last_block are natural.",
            )
            .shows("{{stage}}: {{reason}}", lost().sum_by(&["stage", "reason"])),
        Panel::stacked("Lost prefill time by reason", Unit::SecondsPerSecond)
            .says(
                "Seconds of computing a second that the lost tokens cost, by the speed that the picked workers showed. The \
                 largest reason is the one worth working on.",
            )
            .shows("{{stage}}: {{reason}}", spelling.rate(rows::LOST_SECONDS).sum_by(&["stage", "reason"])),
        Panel::lines("Surplus", Unit::TokensPerSecond)
            .says(
                "Tokens of which a later stage had more than the earlier one. Rising in delivery: workers hold more than \
                 the index knows; look for sources that are not exact. In residency: caches hold more than the history \
                 knows.",
            )
            .shows("{{stage}}", spelling.rate(rows::REUSE_SURPLUS).sum_by(&["stage"])),
        Panel::lines("Promised and delivered", Unit::TokensPerSecond)
            .says("Both sides of stage delivery, of the same attempts.")
            .shows("promised", rate(spelling, rows::COMPARED_PREDICTED))
            .shows("reused", rate(spelling, rows::COMPARED_REPORTED)),
    ]
}

/// Shown for pools with a history; for others there is nothing to show.
fn computed_before(spelling: &Spelling) -> Vec<Panel> {
    let of_stages = |stages: &[LossStage]| {
        let stages: Vec<_> = stages.iter().map(|stage| stage.as_str()).collect();
        spelling.series(rows::REUSE_LOST).with_any("stage", &stages).rate()
    };
    let before = || rate(spelling, rows::HISTORY_CACHED_BY_MODEL);
    vec![
        Panel::lines("Computed before, by model", Unit::Share)
            .says(
                "What some request had computed before, by the input of the attempts that a history was asked about: the \
                 most that caches could save which never lose anything. Nothing is shown for pools without a history.",
            )
            .shows("F1 {{model}}", known(spelling, &["model"])),
        Panel::lines("Still cached of it", Unit::Share)
            .says(
                "What is cached on any worker of what was computed before. Low: caches lose what comes again, and the reasons \
                 beside it say how.",
            )
            .shows("still cached", {
                before().minus(of_stages(&[LossStage::Residency]).sum()).over(before())
            }),
        Panel::stacked("New and lost again, by reason", Unit::TokensPerSecond)
            .wide()
            .says(
                "new: nobody computed it before, so that no cache could have it. residency: it was computed before; evicted \
                 asks for more cache, worker_gone and cleared for fewer restarts.",
            )
            .shows(
                "{{stage}}: {{reason}}",
                of_stages(&[LossStage::New, LossStage::Residency]).sum_by(&["stage", "reason"]),
            ),
    ]
}

fn reports(spelling: &Spelling) -> Vec<Panel> {
    vec![
        Panel::stacked("Reports by outcome", Unit::PerSecond)
            .says(
                "One outcome an attempt. missing: the engine's reporting is off. mismatched: tokenizer or chat template \
                 differ. invalid, impossible: the engine reports nonsense.",
            )
            .shows("{{outcome}}", spelling.rate(rows::REUSE_REPORTS).sum_by(&["outcome"])),
        Panel::lines("Input with and without a report", Unit::TokensPerSecond)
            .says("Both sides of the coverage. A gap: see the outcomes.")
            .shows("expected", rate(spelling, rows::EXPECTED_INPUT))
            .shows("reported", rate(spelling, rows::REPORTED_INPUT)),
        Panel::stacked("Attempts that were not counted", Unit::PerSecond)
            .says(
                "They are missing from the funnel and routed by load. template, tokenizer, identity: look at the pool's \
                 tokenizer. off: the pool has count = off.",
            )
            .shows("{{reason}}", spelling.rate(rows::UNCOUNTED_ATTEMPTS).sum_by(&["reason"])),
        Panel::lines("Coverage by model", Unit::Share)
            .says("The reuse of a model is known as far as its coverage goes.")
            .shows("{{model}}", {
                let by = |row: &'static Row| spelling.rate(row).sum_by(&["model"]);
                by(rows::REPORTED_INPUT).over(by(rows::EXPECTED_INPUT))
            }),
    ]
}

fn shadows(spelling: &Spelling) -> Panel {
    let labels = ["model", "policy"];
    let found = spelling.rate(rows::SHADOW_SELECTED).sum_by(&labels);
    Panel::lines("What other policies would have found", Unit::Share)
        .wide()
        .says(
            "Cached prefix on the worker that each shadow policy (pool.shadow) would have picked, by the input that it was \
             asked about, beside the live policy. The cache is the one that the live policy filled: a shadow that \
             gathers prompts looks worse than it is. Nothing is shown for pools without shadows.",
        )
        .shows(
            "{{policy}} would have found, {{model}}",
            found.over(spelling.rate(rows::SHADOW_INPUT).sum_by(&labels)),
        )
        .shows("live, {{model}}", {
            let by = |row: &'static Row| in_ledger(spelling, row).rate().sum_by(&["model"]);
            by(rows::SELECTED_CACHED).over(by(rows::LEDGER_INPUT))
        })
}

/// One sum of a counter's rates.
fn rate(spelling: &Spelling, row: &'static Row) -> Query {
    spelling.rate(row).sum()
}

/// F1 by the input of the attempts that have it, whatever other pools have: F1 and what was new are all of that input.
fn known(spelling: &Spelling, labels: &[&str]) -> Query {
    let by = |query: Query| if labels.is_empty() { query.sum() } else { query.sum_by(labels) };
    let new = spelling.series(rows::REUSE_LOST).with("stage", LossStage::New.as_str());
    let known = || by(spelling.rate(rows::HISTORY_CACHED_BY_MODEL));
    known().over(known().plus(by(new.rate())))
}

/// The phases that the loss ledger covers: a decode leg has cached stages of its own.
fn in_ledger(spelling: &Spelling, row: &'static Row) -> Series {
    spelling.series(row).without("phase", Phase::Decode.as_str())
}

fn in_delivery(spelling: &Spelling) -> Query {
    spelling.series(rows::REUSE_LOST).with("stage", LossStage::Delivery.as_str()).rate().sum()
}

fn before_delivery(spelling: &Spelling) -> Query {
    spelling.series(rows::REUSE_LOST).without("stage", LossStage::Delivery.as_str()).rate().sum_by(&["stage"])
}
