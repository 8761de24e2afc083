//! PromQL over rows of the catalogue.
//!
//! A query is put together from rows instead of being written as text, so that it can name no family, label or label
//! value that the catalogue does not have, and so that it can tell which families it reads. Only what the dashboards and
//! alerts need is here: rates, increases, sums, shares and quantiles.

use std::collections::BTreeSet;

use kvroute_metrics::{Row, Values};

/// An expression, and the families that it reads.
#[derive(Clone, Debug)]
pub struct Query {
    text: String,
    rows: Vec<&'static Row>,
    /// Two operands side by side: to be set in parentheses before anything else is done with it.
    is_binary: bool,
}

/// How families are spelled: their prefix, the window of rates, and what every selector is narrowed by.
#[derive(Clone, Debug)]
pub(crate) struct Spelling {
    pub(crate) prefix: String,
    /// Range of rates and increases.
    pub(crate) window: &'static str,
    /// Regular expressions by label; a family without the label is not narrowed by it.
    pub(crate) narrowed: &'static [(&'static str, &'static str)],
}

/// One selector that is being written.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    row: &'static Row,
    name: String,
    matchers: Vec<String>,
    window: &'static str,
}

// === impl Query ===

impl Query {
    /// Whether the targets of a scrape job answer: a family of Prometheus itself.
    pub(crate) fn scraped(job: &str) -> Self {
        Self { text: format!("up{{job=\"{job}\"}}"), rows: Vec::new(), is_binary: false }
    }

    /// Now, in seconds since 1970.
    pub(crate) fn time() -> Self {
        Self { text: "time()".to_owned(), rows: Vec::new(), is_binary: false }
    }

    /// The expression.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Names of the families that it reads, under the default prefix.
    pub fn families(&self) -> BTreeSet<&'static str> {
        self.rows.iter().map(|row| row.name).collect()
    }

    /// One sum over everything.
    pub(crate) fn sum(self) -> Self {
        self.wrapped("sum(", ")")
    }

    /// One sum for each combination of these labels.
    pub(crate) fn sum_by(self, labels: &[&str]) -> Self {
        self.aggregated("sum", labels)
    }

    /// The largest value for each combination of these labels: of what several routers see of one thing.
    pub(crate) fn max_by(self, labels: &[&str]) -> Self {
        self.aggregated("max", labels)
    }

    /// Divided by another one: both must have the same labels. A share of sums, never a mean of shares.
    pub(crate) fn over(self, divisor: Self) -> Self {
        self.joined("/", divisor)
    }

    /// Each part divided by one sum that has no labels: parts of a whole.
    pub(crate) fn over_sum(self, divisor: Self) -> Self {
        self.joined("/ on () group_left ()", divisor)
    }

    /// Together with another one.
    pub(crate) fn plus(self, other: Self) -> Self {
        self.joined("+", other)
    }

    /// Less another one.
    pub(crate) fn minus(self, other: Self) -> Self {
        self.joined("-", other)
    }

    /// Only of those processes that are routers, since every process exports such families.
    pub(crate) fn of_routers(self, build_info: Self) -> Self {
        self.joined("and on (job, instance)", build_info)
    }

    /// Set in parentheses, to be compared as a whole.
    pub(crate) fn in_brackets(self) -> Self {
        self.wrapped("(", ")")
    }

    /// A quantile, from the rates of a histogram's buckets.
    pub(crate) fn quantile(self, quantile: f64) -> Self {
        self.wrapped(&format!("histogram_quantile({quantile}, "), ")")
    }

    /// Another function of one argument.
    pub(crate) fn through(self, function: &str) -> Self {
        self.wrapped(&format!("{function}("), ")")
    }

    fn aggregated(self, operator: &str, labels: &[&str]) -> Self {
        debug_assert!(
            labels.iter().all(|label| self.rows.iter().all(|row| has_label(row, label))),
            "{labels:?} in {}",
            self.text
        );
        self.wrapped(&format!("{operator} by ({}) (", labels.join(", ")), ")")
    }

    fn wrapped(self, before: &str, after: &str) -> Self {
        Self { text: format!("{before}{}{after}", self.text), is_binary: false, ..self }
    }

    fn joined(self, operator: &str, other: Self) -> Self {
        let text = format!("{} {operator} {}", self.operand(), other.operand());
        Self { text, rows: [self.rows, other.rows].concat(), is_binary: true }
    }

    fn operand(&self) -> String {
        if self.is_binary { format!("({})", self.text) } else { self.text.clone() }
    }
}

// === impl Spelling ===

impl Spelling {
    /// A selector of one family.
    pub(crate) fn series(&self, row: &'static Row) -> Series {
        let narrowed = self.narrowed.iter().filter(|(label, _)| has_label(row, label));
        Series {
            row,
            name: row.exposed_name(&self.prefix),
            matchers: narrowed.map(|(label, pattern)| format!("{label}=~\"{pattern}\"")).collect(),
            window: self.window,
        }
    }

    /// How fast a counter grows, each series by itself.
    pub(crate) fn rate(&self, row: &'static Row) -> Query {
        self.series(row).rate()
    }

    /// A gauge as it is now, each series by itself.
    pub(crate) fn now(&self, row: &'static Row) -> Query {
        self.series(row).now()
    }

    /// A quantile of a histogram over all its series.
    pub(crate) fn quantile(&self, row: &'static Row, quantile: f64) -> Query {
        self.series(row).bucket().rate().sum_by(&["le"]).quantile(quantile)
    }

    /// A quantile of a histogram for each value of a label.
    pub(crate) fn quantile_by(&self, row: &'static Row, quantile: f64, label: &str) -> Query {
        self.series(row).bucket().rate().sum_by(&["le", label]).quantile(quantile)
    }
}

// === impl Series ===

impl Series {
    /// Only series with this label value.
    pub(crate) fn with(self, label: &str, value: &str) -> Self {
        self.matching(label, "=", &[value])
    }

    /// Only series without this label value.
    pub(crate) fn without(self, label: &str, value: &str) -> Self {
        self.matching(label, "!=", &[value])
    }

    /// Only series with one of these label values.
    pub(crate) fn with_any(self, label: &str, values: &[&str]) -> Self {
        let operator = if values.len() == 1 { "=" } else { "=~" };
        self.matching(label, operator, values)
    }

    /// Over another window.
    pub(crate) fn within(self, window: &'static str) -> Self {
        Self { window, ..self }
    }

    /// A histogram's buckets.
    pub(crate) fn bucket(self) -> Self {
        self.part("_bucket")
    }

    /// The sum of a histogram's samples.
    pub(crate) fn total(self) -> Self {
        self.part("_sum")
    }

    /// Growth a second.
    pub(crate) fn rate(self) -> Query {
        self.over_window("rate")
    }

    /// Growth over the window.
    pub(crate) fn increase(self) -> Query {
        self.over_window("increase")
    }

    /// How often a gauge changed within the window.
    pub(crate) fn changes(self) -> Query {
        self.over_window("changes")
    }

    /// By how much a gauge rose within the window.
    pub(crate) fn delta(self) -> Query {
        self.over_window("delta")
    }

    /// As it is now.
    pub(crate) fn now(self) -> Query {
        let text = self.selector();
        Query { text, rows: vec![self.row], is_binary: false }
    }

    fn over_window(self, function: &str) -> Query {
        let text = format!("{function}({}[{}])", self.selector(), self.window);
        Query { text, rows: vec![self.row], is_binary: false }
    }

    fn selector(&self) -> String {
        match self.matchers.is_empty() {
            true => self.name.clone(),
            false => format!("{}{{{}}}", self.name, self.matchers.join(", ")),
        }
    }

    fn part(mut self, suffix: &str) -> Self {
        debug_assert!(!self.row.buckets.is_empty(), "{} is no histogram", self.row.name);
        self.name.push_str(suffix);
        self
    }

    fn matching(mut self, label: &str, operator: &str, values: &[&str]) -> Self {
        debug_assert!(
            values.iter().all(|value| allows(self.row, label, value)),
            "{label} of {}",
            self.row.name
        );
        self.matchers.push(format!("{label}{operator}\"{}\"", values.join("|")));
        self
    }
}

/// Labels that Prometheus gives to everything that it scrapes.
const OF_TARGET: [&str; 2] = ["job", "instance"];

/// Whether a family has a label: of its own, from Prometheus, or the bounds of its buckets.
fn has_label(row: &Row, label: &str) -> bool {
    let is_bound = label == "le" && !row.buckets.is_empty();
    is_bound || OF_TARGET.contains(&label) || row.labels.iter().any(|of_row| of_row.name == label)
}

/// Whether a label can have a value.
fn allows(row: &Row, label: &str, value: &str) -> bool {
    let of_row = row.labels.iter().find(|of_row| of_row.name == label);
    of_row.is_some_and(|of_row| match of_row.values {
        Values::Of(closed) => closed.contains(&value),
        Values::NameOf(_) => true,
    })
}

#[cfg(test)]
mod tests {
    use kvroute_metrics::rows;

    use super::*;

    const PLAIN: Spelling = Spelling { prefix: String::new(), window: "5m", narrowed: &[] };

    fn spelling() -> Spelling {
        let narrowed = &[("model", "$model"), ("worker_id", "$worker")];
        Spelling { prefix: "acme".to_owned(), window: "1m", narrowed }
    }

    #[test]
    fn a_selector_is_narrowed_by_the_labels_that_its_family_has() {
        let rate = spelling().series(rows::BEST_CACHED).without("phase", "decode").rate();
        assert_eq!(
            rate.text(),
            "rate(acme_component_router_kv_best_eligible_cached_prefix_tokens_total{model=~\"$model\", \
             phase!=\"decode\"}[1m])"
        );
        assert_eq!(PLAIN.now(rows::BUILD_INFO).text(), "kvroute_build_info");
    }

    #[test]
    fn operands_are_set_apart_and_the_families_remembered() {
        let sum = |row| PLAIN.rate(row).sum();
        let share =
            sum(rows::COMPARED_REPORTED).over(sum(rows::COMPARED_PREDICTED).minus(sum(rows::REUSE_SURPLUS)));
        let name = |row: &Row| format!("sum(rate({}[5m]))", row.name);
        let [reported, predicted, surplus] =
            [rows::COMPARED_REPORTED, rows::COMPARED_PREDICTED, rows::REUSE_SURPLUS].map(name);
        assert_eq!(share.text(), format!("{reported} / ({predicted} - {surplus})"));
        assert_eq!(share.families().len(), 3);
    }

    #[test]
    #[should_panic(expected = "outcome of kvroute_requests_total")]
    fn a_label_value_that_cannot_be_is_found() {
        let _ = PLAIN.series(rows::REQUESTS).with("outcome", "lost");
    }

    #[test]
    #[should_panic(expected = "worker_id")]
    fn a_label_that_the_family_lacks_is_found() {
        let _ = PLAIN.rate(rows::REQUESTS).sum_by(&["worker_id"]);
    }

    #[test]
    #[should_panic(expected = "is no histogram")]
    fn only_histograms_have_quantiles() {
        let _ = PLAIN.quantile(rows::REQUESTS, 0.5);
    }
}
