//! Reads the router's metrics as Prometheus would, so that the demo shows what a dashboard would show.

use kvroute_metrics::{Kind, Row, rows};

use super::funnel::Funnel;

/// One scraped exposition.
#[derive(Debug)]
pub(crate) struct Scrape(String);

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
            best_eligible: self.sum(rows::BEST_CACHED),
            selected: self.sum(rows::SELECTED_CACHED),
            reused: self.sum(rows::WORKER_REUSED),
            reported_input: self.sum(rows::REPORTED_INPUT),
        }
    }

    /// True if every attempt that was started is closed.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.sum(rows::BOOKINGS) == self.sum(rows::ATTEMPTS)
    }

    /// A family's value summed over its series, of a histogram the sum of its samples; `None` without series.
    fn sum(&self, row: &Row) -> Option<u64> {
        let mut name = row.exposed_name(PREFIX);
        if row.kind == Kind::Histogram {
            name.push_str("_sum");
        }
        let values = self.0.lines().filter_map(|line| value_of(line, &name));
        values.fold(None, |total, value| Some(total.unwrap_or(0) + value as u64))
    }
}

/// The value of a line `name value` or `name{labels} value`, if the line has this name.
fn value_of(line: &str, name: &str) -> Option<f64> {
    let rest = line.strip_prefix(name)?;
    let rest = match rest.strip_prefix('{') {
        Some(labelled) => labelled.rsplit_once('}')?.1,
        None => rest,
    };
    rest.strip_prefix(' ')?.trim().parse().ok()
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
}
