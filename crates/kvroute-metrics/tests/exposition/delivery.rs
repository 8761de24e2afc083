//! The delivery stage as a scraper sees it: what was promised, what was reused, and the reason of each loss.

use std::collections::{BTreeMap, BTreeSet};

use kvroute_core::{DpRank, ModelName, Phase, WorkerId, WorkerRank};
use kvroute_metrics::{PoolLabels, WorkerType};

use crate::reader::{sample, samples};
use crate::script::{self, Fleet, metrics};

/// The series of an aggregated attempt's delivery losses of one reason.
pub(crate) fn lost(reason: &str) -> String {
    format!(
        "kvroute_router_reuse_lost_tokens_total{{model=\"alpha\",phase=\"aggregated\",reason=\"{reason}\",stage=\"delivery\"}}"
    )
}

/// The series of an aggregated attempt's surplus.
pub(crate) fn surplus() -> String {
    "kvroute_router_reuse_surplus_tokens_total{model=\"alpha\",phase=\"aggregated\",stage=\"delivery\"}"
        .to_owned()
}

#[test]
fn a_loss_that_is_decided_after_its_worker_and_pool_left_is_harmless() {
    let metrics = metrics();
    let fleet = Fleet::join(&metrics);
    let pending = fleet.pending_delivery();
    drop(fleet);
    assert_eq!(sample(&metrics.render(), &lost("stale_index")), Some(0.0));
    pending.stale_index();
    assert!(!metrics.render().contains("model=\"alpha\""));
}

#[test]
fn a_loss_stands_under_its_reason_once_that_is_decided_and_the_account_closes() {
    let metrics = metrics();
    let fleet = Fleet::join(&metrics);
    let value = |key: &str| sample(&metrics.render(), key);
    let (first, second) = (fleet.pending_delivery(), fleet.pending_delivery());
    let of_reasons =
        || ["last_block", "stale_index", "unexplained"].map(|reason| value(&lost(reason)).unwrap());
    assert_eq!(of_reasons(), [32.0, 0.0, 0.0]);
    first.stale_index();
    drop(second);
    assert_eq!(of_reasons(), [32.0, 112.0, 112.0]);

    let compared = |what: &str| {
        value(&format!(
            "kvroute_router_reuse_compared_{what}_tokens_total{{model=\"alpha\",phase=\"aggregated\"}}"
        ))
    };
    assert_eq!([compared("predicted"), compared("reported")], [Some(1280.0), Some(1024.0)]);
    let of_rank = |what: &str| {
        value(&format!("kvroute_reuse_worker_{what}_tokens_total{{dp_rank=\"0\",worker_id=\"w1\"}}"))
    };
    assert_eq!([of_rank("predicted"), of_rank("reported")], [Some(1280.0), Some(1024.0)]);
}

#[test]
fn the_account_of_each_model_and_phase_closes_once_every_loss_has_its_reason() {
    let metrics = metrics();
    let rank = metrics.rank(&WorkerRank::new(WorkerId::new("w"), DpRank::new(0)), WorkerType::Decode);
    let names = ["alpha", "beta"].map(ModelName::new);
    let pools = names.each_ref().map(|name| metrics.pool(&of_all_phases(name)));
    let mut pending = Vec::new();
    for (pool, step) in pools.iter().zip([70, 110]) {
        for phase in [Phase::Aggregated, Phase::Prefill] {
            for reused in (0..=1000).step_by(step) {
                pending.extend(script::compared_attempt(pool, phase, &rank, reused));
            }
        }
    }
    assert!(!accounts(&metrics.render()).values().any(Account::closes));
    for (index, pending) in pending.into_iter().enumerate() {
        match index % 3 {
            0 => pending.stale_index(),
            1 => pending.unexplained(),
            _ => drop(pending),
        }
    }
    let accounts = accounts(&metrics.render());
    assert_eq!(accounts.len(), 4);
    for (labels, account) in accounts {
        assert!(account.predicted > 0.0 && account.surplus > 0.0, "{labels:?}: {account:?}");
        assert!(account.closes(), "{labels:?}: {account:?}");
    }
    drop(pools);
}

/// What a scraper reads of one (model, phase).
#[derive(Debug, Default)]
struct Account {
    predicted: f64,
    reported: f64,
    lost: f64,
    surplus: f64,
}

impl Account {
    fn closes(&self) -> bool {
        self.predicted == self.reported + self.lost - self.surplus
    }
}

fn accounts(text: &str) -> BTreeMap<(String, String), Account> {
    let mut accounts: BTreeMap<_, Account> = BTreeMap::new();
    for sample in samples(text) {
        let Some(rest) = sample.family.strip_prefix("kvroute_router_reuse_") else { continue };
        if sample.labels.get("stage").is_some_and(|stage| stage != "delivery") {
            continue;
        }
        let (model, phase) = (sample.labels["model"].clone(), sample.labels["phase"].clone());
        let field: fn(&mut Account) -> &mut f64 = match rest {
            "compared_predicted_tokens_total" => |account| &mut account.predicted,
            "compared_reported_tokens_total" => |account| &mut account.reported,
            "lost_tokens_total" => |account| &mut account.lost,
            "surplus_tokens_total" => |account| &mut account.surplus,
            _ => continue,
        };
        *field(accounts.entry((model, phase)).or_default()) += sample.value;
    }
    accounts
}

fn of_all_phases(model: &ModelName) -> PoolLabels<'_> {
    PoolLabels {
        model,
        policy: "kv",
        reasons: &["lowest_cost"],
        shadows: &[],
        phases: &Phase::ALL,
        counts_input: true,
        history: None,
    }
}

#[test]
fn the_loss_ledger_leaves_the_decode_phase_out() {
    let metrics = metrics();
    let model = ModelName::new("alpha");
    let pool = metrics.pool(&of_all_phases(&model));
    pool.index_view_exists();
    let all = samples(&metrics.render());
    let phases_of = |family: &str| -> BTreeSet<String> {
        let of_family = all.iter().filter(|sample| sample.family == family);
        of_family.map(|sample| sample.labels["phase"].clone()).collect()
    };
    let covered = BTreeSet::from(["aggregated".to_owned(), "prefill".to_owned()]);
    let families = ["lost", "surplus", "compared_predicted", "compared_reported"];
    let ledger =
        ["ledger_input", "best_cached_prefix"].map(|family| format!("kvroute_router_{family}_tokens_total"));
    let reuse = families.map(|family| format!("kvroute_router_reuse_{family}_tokens_total"));
    for family in ledger.iter().chain(&reuse) {
        assert_eq!(phases_of(family), covered, "{family}");
    }
    let selected = "dynamo_component_router_kv_selected_cached_prefix_tokens_total";
    assert_eq!(phases_of(selected).len(), 3, "the stages themselves have every phase");
    drop(pool);
}

#[test]
fn what_the_selection_gives_up_closes_between_input_and_picked_prefix() {
    let metrics = metrics();
    let rank = metrics.rank(&WorkerRank::new(WorkerId::new("w"), DpRank::new(0)), WorkerType::Decode);
    let (model, attempts) = (ModelName::new("alpha"), 7);
    let pool = metrics.pool(&of_all_phases(&model));
    let pending: Vec<_> =
        (0..attempts).filter_map(|_| script::compared_attempt(&pool, Phase::Prefill, &rank, 0)).collect();
    let text = metrics.render();
    let sum = |family: &str, labels: &[(&str, &str)]| -> f64 {
        let matching = samples(&text).into_iter().filter(|sample| sample.family == family);
        let of_labels =
            matching.filter(|sample| labels.iter().all(|(name, value)| sample.labels[*name] == *value));
        of_labels.map(|sample| sample.value).sum()
    };
    let lost =
        |stage| sum("kvroute_router_reuse_lost_tokens_total", &[("stage", stage), ("phase", "prefill")]);
    let prefix =
        |which: &str| sum(&format!("dynamo_component_router_kv_{which}_cached_prefix_tokens_total"), &[]);
    let anywhere = sum("kvroute_router_best_cached_prefix_tokens_total", &[]);
    assert_eq!(sum("kvroute_router_ledger_input_tokens_total", &[]), lost("unavailable") + anywhere);
    assert_eq!(anywhere, prefix("best_eligible") + lost("eligibility"));
    assert_eq!(prefix("best_eligible"), prefix("selected") + lost("placement"));
    assert_eq!([lost("unavailable"), lost("eligibility"), lost("placement")], [280.0, 1120.0, 1120.0]);
    let seconds =
        sum("kvroute_router_lost_prefill_seconds_total", &[("stage", "placement"), ("reason", "load")]);
    assert!((seconds - 1.12).abs() < 1e-9, "1,120 tokens at 1,000 a second took {seconds} s");
    drop(pending);
}
