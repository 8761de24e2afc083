//! The funnel as plain numbers against the exposition: one source, so that nobody reads two truths.

use kvroute_core::{DpRank, ModelName, Phase, WorkerId, WorkerRank};
use kvroute_funnel::{Close, LossStage, ReportOutcome, UncountedReason};
use kvroute_metrics::{PhaseFunnel, PoolLabels, WorkerType};

use crate::reader::{sample, samples};
use crate::script::{self, Fleet, metrics};

/// Value of a family in one phase of the model, with further labels in the order of the text format.
fn value(text: &str, family: &str, phase: Phase, labels: &str) -> Option<u64> {
    let (before, after) = labels.split_once('|').unwrap_or(("", labels));
    let key = format!("{family}{{model=\"alpha\",{before}phase=\"{}\"{after}}}", phase.as_str());
    sample(text, &key).map(|value| value as u64)
}

fn assert_exposed(text: &str, phase: Phase, funnel: &PhaseFunnel) {
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
            "kvroute_attempts_total{{model=\"alpha\",outcome=\"{}\",phase=\"{}\",policy=\"kv\"}}",
            close.as_str(),
            phase.as_str()
        );
        assert_eq!(Some(attempts as f64), sample(text, &key), "{close:?}");
    }
}

fn assert_losses_exposed(text: &str, phase: Phase, funnel: &PhaseFunnel) {
    for stage in LossStage::ALL {
        let Some(ledger) = &funnel.ledger else { continue };
        for (reason, tokens) in ledger.lost.of_stage(stage) {
            let labels = format!(",reason=\"{reason}\",stage=\"{}\"", stage.as_str());
            let exposed = value(text, "kvroute_router_reuse_lost_tokens_total", phase, &labels);
            assert_eq!(Some(tokens.get()), exposed, "{stage:?} {reason}");
        }
    }
}

#[test]
fn the_funnel_in_numbers_is_what_a_scrape_shows() {
    let metrics = metrics();
    let fleet = Fleet::run(&metrics);
    let (text, funnel) = (metrics.render(), fleet.pool().funnel());
    let phases: Vec<Phase> = funnel.by_phase().map(|(phase, _)| phase).collect();
    assert_eq!(phases, [Phase::Aggregated, Phase::Prefill], "those of the scripted attempts");
    for (phase, funnel) in funnel.by_phase() {
        assert_exposed(&text, phase, funnel);
        assert_losses_exposed(&text, phase, funnel);
    }
    let seconds = funnel.lost_seconds.unwrap();
    for stage in LossStage::ALL {
        for (reason, lost) in seconds.of_stage(stage) {
            let key = format!(
                "kvroute_router_lost_prefill_seconds_total{{model=\"alpha\",reason=\"{reason}\",stage=\"{}\"}}",
                stage.as_str()
            );
            assert_eq!(Some(lost), sample(&text, &key), "{stage:?} {reason}");
        }
    }
    drop(fleet);
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
    });
    let of_phase = || pool.funnel().by_phase().next().map(|(_, funnel)| funnel.clone()).unwrap();
    let funnel = of_phase();
    assert_eq!((&funnel.input, &funnel.cached, &funnel.ledger), (&None, &None, &None));
    assert_eq!(pool.funnel().lost_seconds, None);
    assert_exposed(&metrics.render(), Phase::Aggregated, &funnel);
    let rank = metrics.rank(&WorkerRank::new(WorkerId::new("w"), DpRank::new(0)), WorkerType::Decode);
    drop(script::one_attempt(&pool, &rank));
    let funnel = of_phase();
    assert!(funnel.input.is_some() && funnel.cached.is_some() && funnel.ledger.is_some());
    assert_exposed(&metrics.render(), Phase::Aggregated, &funnel);
}

#[test]
fn the_number_of_series_is_that_of_the_lines_with_a_value() {
    let metrics = metrics();
    assert_eq!(metrics.series(), samples(&metrics.render()).len());
    let fleet = Fleet::run(&metrics);
    assert_eq!(metrics.series(), samples(&metrics.render()).len());
    drop(fleet);
}
