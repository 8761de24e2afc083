//! Reads the router's metrics as Prometheus would, so that the demo shows what a dashboard would show.

use std::collections::BTreeMap;

use kvroute_metrics::{Kind, Row, rows};

use super::funnel::{Delivery, Funnel};

/// One scraped exposition.
#[derive(Debug)]
pub(crate) struct Scrape(String);

/// What stands between the braces of one line.
#[derive(Clone, Copy, Debug)]
struct Labels<'a>(&'a str);

/// The demo's router exports under the default prefix.
const PREFIX: &str = "dynamo";

/// Value of the label `stage` between the index's promise and the engine's report.
const DELIVERY: (&str, &str) = ("stage", "delivery");

// === impl Scrape ===

impl Scrape {
    pub(crate) const fn new(exposition: String) -> Self {
        Self(exposition)
    }

    /// The stages of the funnel, over all phases and models.
    pub(crate) fn funnel(&self) -> Funnel {
        Funnel {
            input: self.sum(rows::INPUT_TOKENS),
            best_eligible: self.sum(rows::BEST_CACHED),
            selected: self.sum(rows::SELECTED_CACHED),
            reused: self.sum(rows::WORKER_REUSED),
            reported_input: self.sum(rows::REPORTED_INPUT),
            delivery: self.delivery(),
        }
    }

    /// True if every attempt that was started is closed, and every loss has its reason, which is found a moment
    /// after the attempt.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.sum(rows::BOOKINGS) == self.sum(rows::ATTEMPTS) && self.delivery_closes()
    }

    /// Whether what was promised is what was reused, plus what was lost, less what came on top.
    fn delivery_closes(&self) -> bool {
        let Delivery { lost, surplus } = self.delivery().unwrap_or_default();
        let sum = |row| self.sum(row).unwrap_or(0);
        sum(rows::COMPARED_PREDICTED) + surplus == sum(rows::COMPARED_REPORTED) + lost.values().sum::<u64>()
    }

    /// The delivery stage; `None` where no promise is compared with any report.
    fn delivery(&self) -> Option<Delivery> {
        let mut lost = BTreeMap::new();
        for (labels, value) in self.samples(rows::REUSE_LOST).filter(|(labels, _)| labels.has(DELIVERY)) {
            *lost.entry(labels.value_of("reason").to_owned()).or_default() += value as u64;
        }
        let surplus = self.samples(rows::REUSE_SURPLUS).filter(|(labels, _)| labels.has(DELIVERY));
        let surplus = surplus.map(|(_, value)| value as u64).sum();
        (!lost.is_empty()).then_some(Delivery { lost, surplus })
    }

    /// A family's value summed over its series, of a histogram the sum of its samples; `None` without series.
    fn sum(&self, row: &Row) -> Option<u64> {
        self.samples(row).fold(None, |total, (_, value)| Some(total.unwrap_or(0) + value as u64))
    }

    fn samples(&self, row: &Row) -> impl Iterator<Item = (Labels<'_>, f64)> {
        let mut name = row.exposed_name(PREFIX);
        if row.kind == Kind::Histogram {
            name.push_str("_sum");
        }
        self.0.lines().filter_map(move |line| sample(line, &name))
    }
}

// === impl Labels ===

impl<'a> Labels<'a> {
    fn has(self, (name, value): (&str, &str)) -> bool {
        self.value_of(name) == value
    }

    /// The value of a label whose values have no quotes; empty where there is no such label.
    fn value_of(self, name: &str) -> &'a str {
        let quoted = self.0.split(',').find_map(|pair| pair.strip_prefix(name)?.strip_prefix("=\""));
        quoted.and_then(|rest| rest.split('"').next()).unwrap_or_default()
    }
}

/// Labels and value of a line `name value` or `name{labels} value`, if the line has this name.
fn sample<'a>(line: &'a str, name: &str) -> Option<(Labels<'a>, f64)> {
    let rest = line.strip_prefix(name)?;
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(labelled) => labelled.rsplit_once('}')?,
        None => ("", rest),
    };
    Some((Labels(labels), rest.strip_prefix(' ')?.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exposition() -> Scrape {
        let input = rows::INPUT_TOKENS.exposed_name(PREFIX);
        let best = rows::BEST_CACHED.exposed_name(PREFIX);
        Scrape::new(format!(
            "# HELP {input} 99\n{input}_bucket{{le=\"1\"}} 7\n{input}_sum{{model=\"a}} 5\"}} 100\n\
             {input}_sum{{model=\"b\"}} 20\n{input}_count{{model=\"b\"}} 3\n{best} 0\n"
        ))
    }

    #[test]
    fn series_are_summed_and_absent_ones_are_not_zero() {
        let funnel = exposition().funnel();
        assert_eq!(funnel.input, Some(120));
        assert_eq!(funnel.best_eligible, Some(0));
        assert_eq!(funnel.selected, None);
    }

    #[test]
    fn a_router_is_at_rest_when_every_started_attempt_is_closed() {
        let started = rows::BOOKINGS.exposed_name(PREFIX);
        let closed = rows::ATTEMPTS.exposed_name(PREFIX);
        assert!(
            Scrape::new(format!(
                "{started} 4\n{closed}{{outcome=\"completed\"}} 1\n{closed}{{outcome=\"failed\"}} 3\n"
            ))
            .is_at_rest()
        );
        assert!(!Scrape::new(format!("{started} 4\n{closed} 3\n")).is_at_rest());
    }

    /// A router that promised 100 tokens in two models and lost some of them on the way.
    fn promised(unexplained: u64) -> Scrape {
        let [lost, surplus] = [rows::REUSE_LOST, rows::REUSE_SURPLUS].map(|row| row.exposed_name(PREFIX));
        let [predicted, reported] =
            [rows::COMPARED_PREDICTED, rows::COMPARED_REPORTED].map(|row| row.exposed_name(PREFIX));
        Scrape::new(format!(
            "{lost}{{model=\"a, b\",reason=\"last_block\",stage=\"delivery\"}} 16\n\
             {lost}{{model=\"c\",reason=\"last_block\",stage=\"delivery\"}} 32\n\
             {lost}{{model=\"c\",reason=\"unexplained\",stage=\"delivery\"}} {unexplained}\n\
             {lost}{{model=\"c\",reason=\"load\",stage=\"placement\"}} 7\n\
             {surplus}{{model=\"c\",stage=\"residency\"}} 9\n{surplus}{{model=\"c\",stage=\"delivery\"}} 8\n\
             {predicted} 100\n{reported} 56\n"
        ))
    }

    #[test]
    fn losses_of_delivery_are_told_apart_by_reason_and_from_other_stages() {
        let delivery = promised(4).funnel().delivery.unwrap();
        let lost = [("last_block".to_owned(), 48), ("unexplained".to_owned(), 4)];
        assert_eq!(delivery, Delivery { lost: lost.into(), surplus: 8 });
        assert_eq!(exposition().funnel().delivery, None);
    }

    #[test]
    fn a_router_whose_losses_still_lack_a_reason_is_not_at_rest() {
        assert!(promised(4).is_at_rest());
        assert!(!promised(0).is_at_rest());
    }
}
