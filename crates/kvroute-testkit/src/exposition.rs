//! A scraped exposition, as far as tests look at it.

use std::collections::BTreeMap;

/// Series of one scrape.
#[derive(Clone, Debug)]
pub struct Exposition {
    series: Vec<Series>,
}

#[derive(Clone, Debug)]
struct Series {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

// === impl Exposition ===

impl Exposition {
    /// Reads the text format. Label values of this project hold no escapes.
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        Self { series: lines.map(Series::parse).collect() }
    }

    /// Sum of all series of a name that carry these labels; `None` if there is no such series.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let matching = self.series.iter().filter(|series| series.name == name && series.has(labels));
        matching.fold(None, |sum, series| Some(sum.unwrap_or(0.0) + series.value))
    }

    /// The same as a count; a missing series, or a value that is no count, fails the test.
    pub fn count(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        match self.sum(name, labels) {
            Some(value) if value >= 0.0 && value.fract() == 0.0 => value as u64,
            Some(value) => panic!("{name} with {labels:?} is {value}, no count"),
            None => panic!("no series {name} with {labels:?}"),
        }
    }

    /// Every series of a name, with its labels and value.
    pub fn family(&self, name: &str) -> Vec<(&BTreeMap<String, String>, f64)> {
        let of_name = self.series.iter().filter(|series| series.name == name);
        of_name.map(|series| (&series.labels, series.value)).collect()
    }
}

// === impl Series ===

impl Series {
    fn parse(line: &str) -> Self {
        let (key, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value in {line:?}"));
        let (name, labels) = match key.split_once('{') {
            Some((name, labels)) => (name, labels.trim_end_matches('}')),
            None => (key, ""),
        };
        let pairs = labels.split("\",").filter(|pair| !pair.is_empty());
        let labels = pairs.map(|pair| {
            let (label, text) =
                pair.split_once("=\"").unwrap_or_else(|| panic!("no label value in {line:?}"));
            (label.to_owned(), text.trim_end_matches('"').to_owned())
        });
        let value = value.parse().unwrap_or_else(|_| panic!("no number in {line:?}"));
        Self { name: name.to_owned(), labels: labels.collect(), value }
    }

    fn has(&self, labels: &[(&str, &str)]) -> bool {
        labels.iter().all(|(name, value)| self.labels.get(*name).is_some_and(|has| has == value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_summed_by_their_labels() {
        let text = "# HELP a x\na{m=\"one\",k=\"x\"} 2\na{m=\"two\",k=\"x\"} 3\nb 7\n";
        let exposition = Exposition::parse(text);
        assert_eq!(exposition.count("a", &[("k", "x")]), 5);
        assert_eq!(exposition.count("a", &[("m", "two")]), 3);
        assert_eq!(exposition.count("b", &[]), 7);
        assert_eq!(exposition.sum("a", &[("m", "three")]), None);
    }
}
