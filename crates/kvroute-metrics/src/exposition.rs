//! From series to the text that Prometheus scrapes.

use std::collections::BTreeMap;

use prometheus::proto::{LabelPair, Metric, MetricFamily, MetricType};
use prometheus::{Registry, TextEncoder};

/// The registry and the labels that every series carries.
#[derive(Debug)]
pub(crate) struct Exposition {
    registry: Registry,
    const_labels: Vec<LabelPair>,
}

// === impl Exposition ===

impl Exposition {
    pub(crate) fn new(registry: Registry, const_labels: &BTreeMap<String, String>) -> Self {
        let const_labels = const_labels.iter().map(|(name, value)| {
            let mut pair = LabelPair::default();
            pair.set_name(name.clone());
            pair.set_value(value.clone());
            pair
        });
        Self { registry, const_labels: const_labels.collect() }
    }

    /// The constant labels are added here and not by the registry, which would order them by chance.
    #[expect(
        clippy::expect_used,
        reason = "gathered families have names and series, and text takes all writes"
    )]
    pub(crate) fn render(&self) -> String {
        let mut families = self.registry.gather();
        for family in &mut families {
            self.add_const_labels(family);
        }
        TextEncoder::new().encode_to_string(&families).expect("gathered families can be written as text")
    }

    /// Series that a scraper would store now. One bucket for all that is above the others, the sum and the count of a
    /// histogram are series beside its buckets.
    pub(crate) fn series(&self) -> usize {
        let of_family = |family: &MetricFamily| -> usize {
            let buckets = |metric: &Metric| metric.get_histogram().get_bucket().len() + 3;
            match family.get_field_type() {
                MetricType::HISTOGRAM => family.get_metric().iter().map(buckets).sum(),
                _ => family.get_metric().len(),
            }
        };
        self.registry.gather().iter().map(of_family).sum()
    }

    fn add_const_labels(&self, family: &mut MetricFamily) {
        if self.const_labels.is_empty() {
            return;
        }
        for metric in family.mut_metric() {
            let mut labels = metric.take_label();
            labels.extend_from_slice(&self.const_labels);
            labels.sort();
            metric.set_label(labels);
        }
    }
}
