//! Ownership of series.

pub(crate) mod locks;
mod request_path;

use super::*;
use crate::catalogue::{SOURCE_STATE, WORKER_PREDICTED};

fn family(registry: &Registry) -> Family<IntCounter, 2> {
    Family::register(registry, &WORKER_PREDICTED, "dynamo").unwrap()
}

fn count(registry: &Registry) -> usize {
    registry.gather().iter().map(|family| family.get_metric().len()).sum()
}

#[test]
fn label_values_that_read_alike_when_joined_are_two_series() {
    let registry = Registry::new();
    let family = family(&registry);
    let mut scope = Scope::default();
    scope.hold(&family, ["w1", "11"]).inc();
    scope.hold(&family, ["w11", "1"]).inc();
    assert_eq!(count(&registry), 2);
}

#[test]
fn the_last_owner_takes_the_series_along() {
    let registry = Registry::new();
    let family = family(&registry);
    let (mut old, mut new) = (Scope::default(), Scope::default());
    old.hold(&family, ["w", "0"]).inc();
    let held = new.hold(&family, ["w", "0"]);
    drop(old);
    assert_eq!((count(&registry), held.get()), (1, 1));
    drop(new);
    assert_eq!(count(&registry), 0);
    held.inc();

    let mut returned = Scope::default();
    assert_eq!(returned.hold(&family, ["w", "0"]).get(), 0);
}

#[test]
fn a_row_that_contradicts_its_use_is_refused() {
    let registry = Registry::new();
    let refusal = |error: MetricsError| error.to_string();
    let labels = Family::<IntCounter, 3>::register(&registry, &WORKER_PREDICTED, "dynamo").unwrap_err();
    assert!(refusal(labels).contains("another kind or number of labels"));
    let kind = Family::<IntCounter, 3>::register(&registry, &SOURCE_STATE, "dynamo").unwrap_err();
    assert!(refusal(kind).contains("kvroute_index_source_state"));
    family(&registry);
    let twice = Family::<IntCounter, 2>::register(&registry, &WORKER_PREDICTED, "dynamo").unwrap_err();
    assert!(refusal(twice).contains("kvroute_reuse_worker_predicted_tokens_total"));
}
