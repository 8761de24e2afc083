//! What an operator can set about the names and labels.

use std::collections::BTreeMap;

use crate::{CATALOGUE, MetricsError};

/// Settings of the exposition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsOptions {
    /// Stands for the leading `dynamo` of every standard family.
    pub prefix: String,
    /// Labels that every series carries.
    pub const_labels: BTreeMap<String, String>,
}

/// Label names that the text format itself uses.
const RESERVED_LABELS: [&str; 2] = ["le", "quantile"];

// === impl MetricsOptions ===

impl MetricsOptions {
    /// Refuses names that Prometheus would refuse, and constant labels that some family uses itself.
    pub fn validate(&self) -> Result<(), MetricsError> {
        if !is_name(&self.prefix) {
            return Err(MetricsError::Prefix { prefix: self.prefix.clone() });
        }
        for label in self.const_labels.keys() {
            if let Some(reason) = unusable(label) {
                return Err(MetricsError::ConstLabel { label: label.clone(), reason });
            }
        }
        Ok(())
    }
}

impl Default for MetricsOptions {
    fn default() -> Self {
        Self { prefix: "dynamo".to_owned(), const_labels: BTreeMap::new() }
    }
}

fn unusable(label: &str) -> Option<&'static str> {
    if !is_name(label) {
        return Some("is no label name");
    }
    if label.starts_with("__") {
        return Some("begins with two underscores");
    }
    let used = |row: &&crate::Row| row.labels.iter().any(|used| used.name == label);
    if RESERVED_LABELS.contains(&label) || CATALOGUE.iter().any(used) {
        return Some("is used by a metric");
    }
    None
}

fn is_name(text: &str) -> bool {
    let starts_well = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    starts_well && text.chars().all(|character| character.is_ascii_alphanumeric() || character == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(options: &MetricsOptions) -> String {
        options.validate().unwrap_err().to_string()
    }

    fn with_label(label: &str) -> MetricsOptions {
        let const_labels = BTreeMap::from([(label.to_owned(), "x".to_owned())]);
        MetricsOptions { const_labels, ..MetricsOptions::default() }
    }

    #[test]
    fn the_usual_constant_labels_are_accepted() {
        for label in ["dynamo_namespace", "dynamo_component", "router_id"] {
            with_label(label).validate().unwrap();
        }
    }

    #[test]
    fn a_prefix_that_is_no_name_is_refused() {
        for prefix in ["", "9lives", "a-b", "a:b", "é"] {
            let options = MetricsOptions { prefix: prefix.to_owned(), ..MetricsOptions::default() };
            assert!(refusal(&options).contains("is no metric name"), "{prefix:?}");
        }
    }

    #[test]
    fn constant_labels_that_would_clash_are_refused() {
        for label in ["model", "worker_id", "le", "quantile"] {
            assert!(refusal(&with_label(label)).contains("is used by a metric"), "{label}");
        }
        assert!(refusal(&with_label("__name__")).contains("two underscores"));
        assert!(refusal(&with_label("a-b")).contains("is no label name"));
    }
}
