//! Reads the text format strictly, escapes included.

use std::collections::{BTreeMap, BTreeSet};

use kvroute_testkit::Fleet;

/// A name and labels: what Prometheus stores one series for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
}

/// Every series of a router now, each once.
pub(crate) async fn series_of(fleet: &Fleet) -> BTreeSet<Series> {
    let text = fleet.client.get(&fleet.admin("/metrics")).await.text();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let series: BTreeSet<_> = lines.iter().map(|line| read(line)).collect();
    assert_eq!(series.len(), lines.len(), "a series is there twice");
    series
}

fn read(line: &str) -> Series {
    let named = line.find(['{', ' ']).unwrap();
    let (name, rest) = line.split_at(named);
    let (labels, value) = match rest.strip_prefix('{') {
        Some(labels) => read_labels(labels),
        None => (BTreeMap::new(), rest),
    };
    assert!(value.strip_prefix(' ').unwrap().parse::<f64>().is_ok(), "{line:?}");
    Series { name: name.to_owned(), labels }
}

/// Labels up to their brace, and what follows it.
fn read_labels(text: &str) -> (BTreeMap<String, String>, &str) {
    let (mut labels, mut rest) = (BTreeMap::new(), text);
    loop {
        let (name, quoted) = rest.split_once("=\"").unwrap();
        let (value, behind) = unescaped(quoted);
        assert!(labels.insert(name.to_owned(), value).is_none(), "label {name} is there twice in {text:?}");
        match behind.split_at(1) {
            (",", more) => rest = more,
            ("}", behind) => return (labels, behind),
            _ => panic!("{behind:?} behind the label {name}"),
        }
    }
}

/// A label value up to its quote, and what follows it. Only three characters are ever escaped.
fn unescaped(text: &str) -> (String, &str) {
    let (mut value, mut characters) = (String::new(), text.chars());
    loop {
        match characters.next().unwrap() {
            '"' => return (value, characters.as_str()),
            '\\' => value.push(match characters.next().unwrap() {
                'n' => '\n',
                same @ ('\\' | '"') => same,
                other => panic!("\\{other} is no escape: {text:?}"),
            }),
            plain => value.push(plain),
        }
    }
}
