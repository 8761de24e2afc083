//! Every alert has its paragraph in `docs/alerts.md`, and every paragraph its alert.

use std::collections::BTreeMap;

use kvroute_monitoring::{Alert, AlertGroup, alert_groups};

use crate::{PREFIX, in_checkout};

/// Text of each section by its heading.
fn paragraphs() -> BTreeMap<String, String> {
    let page = std::fs::read_to_string(in_checkout("docs/alerts.md")).unwrap();
    let sections = page.split("\n### ").skip(1);
    sections
        .map(|section| {
            let (heading, text) = section.split_once('\n').unwrap();
            let text = text.split("\n## ").next().unwrap();
            (heading.trim().to_owned(), text.to_owned())
        })
        .collect()
}

fn alerts() -> Vec<Alert> {
    alert_groups(PREFIX).iter().flat_map(AlertGroup::alerts).cloned().collect()
}

#[test]
fn every_alert_has_its_paragraph_and_every_paragraph_its_alert() {
    let written: Vec<_> = paragraphs().into_keys().collect();
    let mut existing: Vec<_> = alerts().iter().map(|alert| alert.name().to_owned()).collect();
    existing.sort();
    assert_eq!(written, existing);
}

#[test]
fn a_paragraph_says_what_it_means_where_to_look_and_how_it_clears() {
    for (alert, text) in paragraphs() {
        for part in ["\n1. ", "\n2. ", "\n3. ", "\nClears: "] {
            assert!(text.contains(part), "{alert} lacks {part:?}");
        }
        let meaning = text.split("\n1. ").next().unwrap();
        assert!(meaning.trim().len() > 80, "{alert}: {meaning}");
    }
}

#[test]
fn an_alert_tells_severity_summary_description_and_where_it_is_explained() {
    for alert in alerts() {
        assert!(!alert.summary().is_empty() && alert.summary().len() < 120, "{}", alert.name());
        assert!(alert.description().len() > alert.summary().len(), "{}", alert.name());
        assert_eq!(alert.runbook(), format!("docs/alerts.md#{}", alert.name().to_lowercase()));
        assert!(!alert.conditions().is_empty(), "{}", alert.name());
    }
}
