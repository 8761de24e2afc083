//! What every row must have, whatever it measures.

use std::collections::BTreeSet;

use super::*;

#[test]
fn names_are_unique_and_follow_the_conventions() {
    let names: BTreeSet<&str> = CATALOGUE.iter().map(|row| row.name).collect();
    assert_eq!(names.len(), CATALOGUE.len());
    for row in CATALOGUE {
        let is_total = row.name.ends_with("_total");
        assert_eq!(is_total, row.kind == Kind::Counter, "{}", row.name);
        let prefixes =
            ["dynamo_component_router_", "dynamo_frontend_", "dynamo_router_", "kvroute_", "process_"];
        assert!(prefixes.iter().any(|prefix| row.name.starts_with(prefix)), "{}", row.name);
    }
}

#[test]
fn every_row_says_of_whom_it_speaks_what_it_means_when_it_moves_and_what_to_do() {
    for row in CATALOGUE {
        for text in [row.unit, row.help, row.population, row.moves, row.zero, row.act] {
            assert!(!text.is_empty() && text.is_ascii(), "{}: {text:?}", row.name);
        }
    }
}

#[test]
fn a_text_that_names_a_family_names_one_that_exists() {
    let names: BTreeSet<&str> = CATALOGUE.iter().map(|row| row.name).collect();
    for row in CATALOGUE {
        for text in [row.help, row.population, row.moves, row.zero, row.act, row.differs] {
            let words = text.split(|character: char| !character.is_ascii_alphanumeric() && character != '_');
            let families = words.filter(|word| word.starts_with("kvroute_") || word.starts_with("dynamo_"));
            for family in families {
                assert!(names.contains(family), "{} names {family}", row.name);
                assert!(
                    !family.starts_with("dynamo_"),
                    "{} names {family}, which has other prefixes",
                    row.name
                );
            }
        }
    }
}

#[test]
fn buckets_belong_to_histograms_and_rise() {
    for row in CATALOGUE {
        assert_eq!(row.kind == Kind::Histogram, !row.buckets.is_empty(), "{}", row.name);
        assert!(row.buckets.is_sorted_by(|low, high| low < high), "{}", row.name);
    }
}

#[test]
fn labels_of_a_row_are_distinct() {
    for row in CATALOGUE {
        let names: BTreeSet<&str> = row.labels.iter().map(|label| label.name).collect();
        assert_eq!(names.len(), row.labels.len(), "{}", row.name);
    }
}

#[test]
fn values_of_a_closed_set_are_distinct_and_not_empty() {
    for row in CATALOGUE {
        for label in row.labels {
            let Values::Of(values) = label.values else { continue };
            let distinct: BTreeSet<&str> = values.iter().copied().filter(|value| !value.is_empty()).collect();
            assert_eq!(distinct.len(), values.len(), "{} {}: {values:?}", row.name, label.name);
        }
    }
}

#[test]
fn the_prefix_changes_standard_names_only() {
    assert_eq!(BOOKINGS.exposed_name("acme"), "acme_component_router_requests_started_total");
    assert_eq!(REQUESTS.exposed_name("acme"), "kvroute_requests_total");
    assert_eq!(PROCESS_THREADS.exposed_name("acme"), "process_threads");
}
