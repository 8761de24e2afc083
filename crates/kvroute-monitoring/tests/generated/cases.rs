//! When each alert fires, and when it does not: in good health, without traffic, after a short blip, and where its
//! series are absent.

mod funnel;
mod history;
mod process;
mod sources;
mod traffic;

use std::collections::BTreeSet;

use kvroute_monitoring::{AlertGroup, alert_groups};

use crate::PREFIX;
use crate::rule_tests::Case;

/// Every case.
pub(crate) fn all() -> Vec<Case> {
    let written = [process::cases(), traffic::cases(), sources::cases(), funnel::cases(), history::cases()];
    written.into_iter().flatten().collect()
}

/// Alerts that are silent where there are no series at all: every one but that about it.
pub(crate) fn silent_without_series() -> Vec<&'static str> {
    names().into_iter().filter(|name| *name != "KvrouteAbsent").collect()
}

fn names() -> BTreeSet<&'static str> {
    alert_groups(PREFIX).iter().flat_map(AlertGroup::alerts).map(|alert| alert.name()).collect()
}

#[test]
fn every_alert_has_cases_in_which_it_fires_and_in_which_it_does_not() {
    let cases = all();
    let count = |name: &str, fires: bool| {
        cases.iter().filter(|case| case.alert == name && case.expects_an_alert() == fires).count()
    };
    for name in names() {
        assert!(count(name, true) >= 1, "{name} fires in no case");
        assert!(count(name, false) >= 2, "{name} has no case of good health and one of a blip");
    }
}
