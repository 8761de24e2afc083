//! The funnel as plain numbers against the exposition: one source, so that nobody reads two truths.

use kvroute_core::{DpRank, ModelName, Phase, Tokens, WorkerId, WorkerRank};
use kvroute_funnel::{Close, LossStage, ReportOutcome, UncountedReason};
use kvroute_metrics::{Losses, PhaseFunnel, PoolLabels, WorkerType};

use crate::reader::{sample, samples};
use crate::script::{self, Fleet, metrics};

/// An exposition, read for one model.
#[derive(Clone, Copy)]
struct Exposed<'a> {
    text: &'a str,
    model: &'a str,
}

/// Value of a family in one phase of the model, with further labels in the order of the text format.
fn value(Exposed { text, model }: Exposed<'_>, family: &str, phase: Phase, labels: &str) -> Option<u64> {
    let (before, after) = labels.split_once('|').unwrap_or(("", labels));
    let key = format!("{family}{{model=\"{model}\",{before}phase=\"{}\"{after}}}", phase.as_str());
    sample(text, &key).map(|value| value as u64)
}

fn assert_exposed(text: Exposed<'_>, phase: Phase, funnel: &PhaseFunnel) {
    let standard = |name: &str| value(text, &format!("dynamo_component_router_{name}"), phase, "");
    let own = |name: &str| value(text, &format!("kvroute_router_{name}_tokens_total"), phase, "");
    assert_eq!(funnel.input.map(|tokens| tokens.get()), standard("input_sequence_tokens_sum"));
    let cached = funnel.cached.as_ref();
    let best = cached.map(|cached| cached.best.get());
    assert_eq!(best, standard("kv_best_eligible_cached_prefix_tokens_total"));
    let selected = cached.map(|cached| cached.selected.get());
    assert_eq!(selected, standard("kv_selected_cached_prefix_tokens_total"));
    assert_eq!(Some(funnel.reused.get()), standard("kv_worker_reused_tokens_total"));
    assert_eq!(Some(funnel.reported_input.get()), own("reuse_reported_input"));
    assert_eq!(Some(funnel.expected_input.get()), own("reuse_expected_input"));
    assert_eq!(Some(funnel.repeated_input.get()), own("repeated_input"));
    let uncached = value(text, "kvroute_uncached_prefill_tokens_total", phase, "");
    assert_eq!(Some(funnel.uncached_prefill.get()), uncached);
    let ledger = |of: fn(&kvroute_metrics::LedgerTotals) -> u64| funnel.ledger.as_ref().map(of);
    assert_eq!(ledger(|ledger| ledger.input.get()), own("ledger_input"));
    assert_eq!(ledger(|ledger| ledger.anywhere.get()), own("best_cached_prefix"));
    assert_eq!(ledger(|ledger| ledger.compared_predicted.get()), own("reuse_compared_predicted"));
    assert_eq!(ledger(|ledger| ledger.compared_reported.get()), own("reuse_compared_reported"));
    let surplus = value(text, "kvroute_router_reuse_surplus_tokens_total", phase, ",stage=\"delivery\"");
    assert_eq!(ledger(|ledger| ledger.surplus.get()), surplus);
    assert_history_exposed(text, phase, funnel);
    assert_attempts_exposed(text, phase, funnel);
}

fn assert_history_exposed(text: Exposed<'_>, phase: Phase, funnel: &PhaseFunnel) {
    let of_history = |of: fn(&kvroute_metrics::LedgerTotals) -> Option<Tokens>| {
        funnel.ledger.as_ref().and_then(of).map(Tokens::get)
    };
    let exposed = value(text, "kvroute_router_history_cached_tokens_total", phase, "");
    assert_eq!(of_history(|ledger| ledger.history), exposed);
    let surplus = value(text, "kvroute_router_reuse_surplus_tokens_total", phase, ",stage=\"residency\"");
    assert_eq!(of_history(|ledger| ledger.residency_surplus), surplus);
}

fn assert_attempts_exposed(text: Exposed<'_>, phase: Phase, funnel: &PhaseFunnel) {
    let by_label = |family: &str, label: &str, text_of: &str| {
        let place = if label < "phase" {
            format!("{label}=\"{text_of}\",|")
        } else {
            format!(",{label}=\"{text_of}\"")
        };
        value(text, family, phase, &place)
    };
    for (outcome, attempts) in ReportOutcome::ALL.into_iter().zip(funnel.reports) {
        let exposed = by_label("kvroute_router_reuse_reports_total", "outcome", outcome.as_str());
        assert_eq!(Some(attempts), exposed, "{outcome:?}");
    }
    for (reason, attempts) in UncountedReason::ALL.into_iter().zip(funnel.uncounted) {
        let exposed = by_label("kvroute_uncounted_attempts_total", "reason", reason.as_str());
        assert_eq!(Some(attempts), exposed, "{reason:?}");
    }
    for (close, attempts) in Close::ALL.into_iter().zip(funnel.attempts) {
        let key = format!(
            "kvroute_attempts_total{{model=\"{}\",outcome=\"{}\",phase=\"{}\",policy=\"kv\"}}",
            text.model,
            close.as_str(),
            phase.as_str()
        );
        assert_eq!(Some(attempts as f64), sample(text.text, &key), "{close:?}");
    }
}

fn assert_losses_exposed(text: Exposed<'_>, phase: Phase, funnel: &PhaseFunnel) {
    for stage in LossStage::ALL {
        let lost = funnel.ledger.as_ref().and_then(|ledger| ledger.lost.of_stage(stage));
        let is_told = lost.is_some();
        for (reason, tokens) in lost.into_iter().flatten() {
            let labels = format!(",reason=\"{reason}\",stage=\"{}\"", stage.as_str());
            let exposed = value(text, "kvroute_router_reuse_lost_tokens_total", phase, &labels);
            assert_eq!(Some(tokens.get()), exposed, "{stage:?} {reason}");
        }
        let of_stage = format!("stage=\"{}\"", stage.as_str());
        let of_phase = [format!("model=\"{}\"", text.model), format!("phase=\"{}\"", phase.as_str())];
        let is_exposed = text.text.lines().any(|line| {
            line.starts_with("kvroute_router_reuse_lost_tokens_total{")
                && line.contains(&of_stage)
                && of_phase.iter().all(|label| line.contains(label.as_str()))
        });
        assert_eq!(is_told, is_exposed, "{stage:?}");
    }
}

#[test]
fn the_funnel_in_numbers_is_what_a_scrape_shows() {
    let metrics = metrics();
    let fleet = Fleet::run(&metrics);
    let text = metrics.render();
    let pools = [("alpha", fleet.pool()), ("beta", fleet.remembering().unwrap().pool())];
    for (model, pool) in pools {
        let (exposed, funnel) = (Exposed { text: &text, model }, pool.funnel());
        let phases: Vec<Phase> = funnel.by_phase().map(|(phase, _)| phase).collect();
        assert_eq!(phases, [Phase::Aggregated, Phase::Prefill], "those of the scripted attempts");
        for (phase, funnel) in funnel.by_phase() {
            assert_exposed(exposed, phase, funnel);
            assert_losses_exposed(exposed, phase, funnel);
            let has_history = funnel.ledger.as_ref().is_some_and(|ledger| ledger.history.is_some());
            assert_eq!(has_history, model == "beta");
        }
        assert_seconds_exposed(exposed, &funnel.lost_seconds.unwrap());
    }
    drop(fleet);
}

fn assert_seconds_exposed(Exposed { text, model }: Exposed<'_>, seconds: &Losses<f64>) {
    for stage in LossStage::ALL {
        for (reason, lost) in seconds.of_stage(stage).into_iter().flatten() {
            let key = format!(
                "kvroute_router_lost_prefill_seconds_total{{model=\"{model}\",reason=\"{reason}\",stage=\"{}\"}}",
                stage.as_str()
            );
            assert_eq!(Some(lost), sample(text, &key), "{stage:?} {reason}");
        }
    }
}

#[test]
fn a_stage_that_is_absent_from_the_exposition_is_no_zero_in_numbers() {
    let metrics = metrics();
    let model = ModelName::new("alpha");
    let pool = metrics.pool(&PoolLabels {
        model: &model,
        policy: "kv",
        reasons: &[],
        shadows: &[],
        phases: &[Phase::Aggregated],
        counts_input: false,
        history: None,
    });
    let of_phase = || pool.funnel().by_phase().next().map(|(_, funnel)| funnel.clone()).unwrap();
    let funnel = of_phase();
    assert_eq!((&funnel.input, &funnel.cached, &funnel.ledger), (&None, &None, &None));
    assert_eq!(pool.funnel().lost_seconds, None);
    assert_exposed(Exposed { text: &metrics.render(), model: "alpha" }, Phase::Aggregated, &funnel);
    let rank = metrics.rank(&WorkerRank::new(WorkerId::new("w"), DpRank::new(0)), WorkerType::Decode);
    drop(script::one_attempt(&pool, &rank));
    let funnel = of_phase();
    assert!(funnel.input.is_some() && funnel.cached.is_some() && funnel.ledger.is_some());
    assert_exposed(Exposed { text: &metrics.render(), model: "alpha" }, Phase::Aggregated, &funnel);
}

#[test]
fn the_number_of_series_is_that_of_the_lines_with_a_value() {
    let metrics = metrics();
    assert_eq!(metrics.series(), samples(&metrics.render()).len());
    let fleet = Fleet::run(&metrics);
    assert_eq!(metrics.series(), samples(&metrics.render()).len());
    drop(fleet);
}
