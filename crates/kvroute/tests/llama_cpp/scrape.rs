//! Reading Prometheus text.

/// Sum of all series that `selector` picks: a name, or `name{label="value"}` with one label.
pub(crate) fn sum(text: &str, selector: &str) -> u64 {
    let (family, label) = selector.trim_end_matches('}').split_once('{').unwrap_or((selector, ""));
    let series = text.lines().filter_map(|line| line.rsplit_once(' ')).filter(|(series, _)| {
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        name == family && labels.contains(label)
    });
    series.map(|(_, value)| whole(value)).sum()
}

/// Token and request counts are whole numbers, whatever the notation.
fn whole(value: &str) -> u64 {
    let value: f64 = value.parse().unwrap();
    assert!(value >= 0.0 && value.fract() == 0.0, "{value} is no count");
    value as u64
}

#[test]
fn sums_the_series_of_one_family() {
    let text = "# TYPE a counter\na{x=\"1\",y=\"2\"} 3\na{x=\"2\",y=\"2\"} 4\nab 9\nb 5\n";
    assert_eq!([sum(text, "a"), sum(text, "a{x=\"2\"}"), sum(text, "b"), sum(text, "c")], [7, 4, 5, 0]);
}
