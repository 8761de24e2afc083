//! Reads the text format back, independently of what wrote it.

use std::collections::{BTreeMap, BTreeSet};

/// One `# HELP` and `# TYPE` with the labels that its samples carry.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Family {
    pub(crate) kind: String,
    pub(crate) help: String,
    pub(crate) labels: BTreeSet<String>,
}

/// One line.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) name: String,
    /// The name without a histogram's suffix.
    pub(crate) family: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: f64,
}

impl Sample {
    /// The series, as the text format writes it.
    pub(crate) fn key(&self) -> String {
        let labels: Vec<String> =
            self.labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        if labels.is_empty() { self.name.clone() } else { format!("{}{{{}}}", self.name, labels.join(",")) }
    }
}

pub(crate) fn families(text: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    for line in text.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            families.entry(name.to_owned()).or_default().help = help.to_owned();
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            families.entry(name.to_owned()).or_default().kind = kind.to_owned();
        }
    }
    for sample in samples(text) {
        let family = families.get_mut(&sample.family).unwrap();
        family.labels.extend(sample.labels.into_keys().filter(|name| name != "le"));
    }
    families
}

pub(crate) fn samples(text: &str) -> Vec<Sample> {
    let histograms: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" histogram")).collect();
    text.lines().filter(|line| !line.starts_with('#')).map(|line| read(line, &histograms)).collect()
}

/// The value of one series, if it exists.
pub(crate) fn sample(text: &str, key: &str) -> Option<f64> {
    samples(text).into_iter().find(|sample| sample.key() == key).map(|sample| sample.value)
}

fn read(line: &str, histograms: &BTreeSet<&str>) -> Sample {
    let (series, value) = line.rsplit_once(' ').unwrap();
    let (name, labels) =
        series.strip_suffix('}').and_then(|rest| rest.split_once('{')).unwrap_or((series, ""));
    let pairs = labels.split_terminator("\",").filter_map(|pair| pair.split_once("=\""));
    let labels =
        pairs.map(|(name, value)| (name.to_owned(), value.trim_end_matches('"').to_owned())).collect();
    let stem = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
    let family = stem.filter(|stem| histograms.contains(stem)).unwrap_or(name);
    Sample { name: name.to_owned(), family: family.to_owned(), labels, value: value.parse().unwrap() }
}
