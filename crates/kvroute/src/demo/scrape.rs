//! Reads the router's metrics as Prometheus would, so that the demo shows what a dashboard would show.

use std::collections::BTreeMap;

use kvroute_metrics::{Kind, Row, Values, rows};

use super::funnel::{Funnel, Loss};

/// One scraped exposition.
#[derive(Debug)]
pub(crate) struct Scrape(String);

/// What stands between the braces of one line.
#[derive(Clone, Copy, Debug)]
struct Labels<'a>(&'a str);

/// The demo's router exports under the default prefix.
const PREFIX: &str = "dynamo";

// === impl Scrape ===

impl Scrape {
    pub(crate) const fn new(exposition: String) -> Self {
        Self(exposition)
    }

    /// The stages of the funnel, over all phases and models.
    pub(crate) fn funnel(&self) -> Funnel {
        Funnel {
            input: self.sum(rows::INPUT_TOKENS),
            history: self.sum(rows::HISTORY_CACHED),
            anywhere: self.sum(rows::ANYWHERE_CACHED),
            best_eligible: self.sum(rows::BEST_CACHED),
            selected: self.sum(rows::SELECTED_CACHED),
            reused: self.sum(rows::WORKER_REUSED),
            reported_input: self.sum(rows::REPORTED_INPUT),
            ledger_input: self.sum(rows::LEDGER_INPUT),
            lost: self.losses(),
            surplus: self.surplus(),
        }
    }

    /// True if every attempt that was started is closed, and the account closes: every lost token has its reason, some
    /// of which are found a moment after the attempt.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.sum(rows::BOOKINGS) == self.sum(rows::ATTEMPTS) && self.closes()
    }

    /// Whether each stage is the one before it, less what was lost, and what came on top.
    fn closes(&self) -> bool {
        let funnel = self.funnel();
        let sum = |row| self.sum(row).unwrap_or(0);
        let lost = |stage: &str| funnel.lost_at(stage).map(|loss| loss.tokens).sum::<u64>();
        let surplus = |stage: &str| funnel.surplus_at(stage).unwrap_or(0);
        let [anywhere, best, selected] =
            [funnel.anywhere, funnel.best_eligible, funnel.selected].map(Option::unwrap_or_default);
        let cached_nowhere = lost("new") + lost("residency") + lost("unavailable");
        sum(rows::LEDGER_INPUT) + surplus("residency") == cached_nowhere + anywhere
            && anywhere == best + lost("eligibility")
            && best == selected + lost("placement")
            && sum(rows::COMPARED_PREDICTED) + surplus("delivery")
                == sum(rows::COMPARED_REPORTED) + lost("delivery")
    }

    fn losses(&self) -> Vec<Loss> {
        let by_reason = |row| {
            let mut totals = BTreeMap::new();
            for (labels, value) in self.samples(row) {
                let key = (labels.value_of("stage"), labels.value_of("reason"));
                *totals.entry(key).or_insert(0.0) += value;
            }
            totals
        };
        let (tokens, seconds) = (by_reason(rows::REUSE_LOST), by_reason(rows::LOST_SECONDS));
        let of = |stage, reason| {
            let tokens = *tokens.get(&(stage, reason))? as u64;
            Some(Loss { stage, reason, tokens, seconds: seconds.get(&(stage, reason)).copied() })
        };
        let of_stage =
            |stage| values(rows::REUSE_LOST, "reason").iter().filter_map(move |reason| of(stage, reason));
        values(rows::REUSE_LOST, "stage").iter().copied().flat_map(of_stage).collect()
    }

    fn surplus(&self) -> Vec<(&'static str, u64)> {
        let stages = values(rows::REUSE_SURPLUS, "stage").iter().copied();
        let of_stage = |stage| {
            let samples =
                self.samples(rows::REUSE_SURPLUS).filter(|(labels, _)| labels.value_of("stage") == stage);
            samples.fold(None, |total, (_, value)| Some(total.unwrap_or(0) + value as u64))
        };
        stages.filter_map(|stage| Some((stage, of_stage(stage)?))).collect()
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
    /// The value of a label whose values have no quotes; empty where there is no such label.
    fn value_of(self, name: &str) -> &'a str {
        let quoted = self.0.split(',').find_map(|pair| pair.strip_prefix(name)?.strip_prefix("=\""));
        quoted.and_then(|rest| rest.split('"').next()).unwrap_or_default()
    }
}

/// What a label of a family can say, in the order in which the catalogue says it.
fn values(row: &Row, label: &str) -> &'static [&'static str] {
    let found = row.labels.iter().find(|known| known.name == label);
    match found.map(|label| label.values) {
        Some(Values::Of(values)) => values,
        _ => &[],
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

    /// A router that promised 100 tokens in two models and lost some of them on the way, and others before.
    fn promised(unexplained: u64, by_load: u64) -> Scrape {
        let [lost, surplus, seconds] =
            [rows::REUSE_LOST, rows::REUSE_SURPLUS, rows::LOST_SECONDS].map(|row| row.exposed_name(PREFIX));
        let [predicted, reported, input, anywhere, best, selected] = [
            rows::COMPARED_PREDICTED,
            rows::COMPARED_REPORTED,
            rows::LEDGER_INPUT,
            rows::ANYWHERE_CACHED,
            rows::BEST_CACHED,
            rows::SELECTED_CACHED,
        ]
        .map(|row| row.exposed_name(PREFIX));
        Scrape::new(format!(
            "{lost}{{model=\"a, b\",reason=\"last_block\",stage=\"delivery\"}} 16\n\
             {lost}{{model=\"c\",reason=\"last_block\",stage=\"delivery\"}} 32\n\
             {lost}{{model=\"c\",reason=\"unexplained\",stage=\"delivery\"}} {unexplained}\n\
             {lost}{{model=\"c\",reason=\"load\",stage=\"placement\"}} {by_load}\n\
             {lost}{{model=\"c\",reason=\"unhealthy\",stage=\"eligibility\"}} 3\n\
             {lost}{{model=\"c\",reason=\"evicted\",stage=\"unavailable\"}} 90\n\
             {seconds}{{model=\"c\",reason=\"load\",stage=\"placement\"}} 0.5\n\
             {surplus}{{model=\"c\",stage=\"delivery\"}} 8\n\
             {input} 200\n{anywhere} 110\n{best} 107\n{selected} 100\n{predicted} 100\n{reported} 56\n"
        ))
    }

    #[test]
    fn losses_stand_by_stage_and_reason_in_the_order_of_the_ledger() {
        let funnel = promised(4, 7).funnel();
        let loss = |stage, reason, tokens, seconds| Loss { stage, reason, tokens, seconds };
        assert_eq!(
            funnel.lost,
            [
                loss("unavailable", "evicted", 90, None),
                loss("eligibility", "unhealthy", 3, None),
                loss("placement", "load", 7, Some(0.5)),
                loss("delivery", "last_block", 48, None),
                loss("delivery", "unexplained", 4, None),
            ]
        );
        assert_eq!(funnel.surplus, [("delivery", 8)]);
        assert_eq!(funnel.worst().unwrap().reason, "evicted");
        let nothing = exposition().funnel();
        assert_eq!((nothing.lost, nothing.surplus), (Vec::new(), Vec::new()));
    }

    #[test]
    fn a_router_whose_losses_still_lack_a_reason_is_not_at_rest() {
        assert!(promised(4, 7).is_at_rest());
        assert!(!promised(0, 7).is_at_rest());
        assert!(!promised(4, 0).is_at_rest());
    }
}
