//! The text format as exporters write it, and as nobody should.

use proptest::prelude::*;

use super::*;

fn read(line: &str) -> Option<(String, f64)> {
    let series = Series::read(line.as_bytes())?;
    Some((String::from_utf8_lossy(series.name).into_owned(), series.value))
}

fn label(line: &str, name: &str) -> Option<String> {
    Series::read(line.as_bytes()).unwrap().label(name).map(Cow::into_owned)
}

#[test]
fn a_line_is_a_name_labels_and_a_value() {
    let some = |name: &str, value| Some((name.to_owned(), value));
    assert_eq!(read("up 1"), some("up", 1.0));
    assert_eq!(read("  up\t1.5e3 1700000000000\r"), some("up", 1500.0));
    assert_eq!(read("a:b{x=\"1\"} 2"), some("a:b", 2.0));
    assert_eq!(read("a{x=\"1\", y=\"2\", } 3 # {trace=\"t\"} 1"), some("a", 3.0));
    assert_eq!(read("a{} 4"), some("a", 4.0));
    assert_eq!(read("a {x=\"}\"} 5"), some("a", 5.0));
    assert_eq!(read("a +Inf"), some("a", f64::INFINITY));
    assert!(read("a NaN").unwrap().1.is_nan());
}

#[test]
fn what_is_no_line_with_a_value_is_nothing() {
    let lines = [
        "",
        "#",
        "# 1",
        "#a 1",
        "# TYPE a gauge",
        "a",
        "a x",
        "{x=\"1\"} 1",
        "a{x=\"1\" 1",
        "a{x=\"1} 1",
        "a{x=\"1\"}",
    ];
    for line in lines {
        assert_eq!(read(line), None, "{line}");
    }
}

#[test]
fn a_label_is_found_by_its_whole_name_with_its_escapes_resolved() {
    let line = "a_info{x=\"1\",y=\"q\\\"uo\\\\te\\n,z=\\\"9\\\"\", z = \"last\",} 1.0";
    assert_eq!(label(line, "x").as_deref(), Some("1"));
    assert_eq!(label(line, "y").as_deref(), Some("q\"uo\\te\n,z=\"9\""));
    assert_eq!(label(line, "z").as_deref(), Some("last"));
    assert_eq!(label(line, ""), None);
    assert_eq!(label("a{xy=\"1\"} 1", "y"), None);
    assert_eq!(label("a{x=1,y=\"2\"} 1", "y"), None);
    assert_eq!(label("a 1", "x"), None);
}

#[test]
fn a_family_is_its_whole_name_with_or_without_colons() {
    let is = |line: &str, family: &str| Series::read(line.as_bytes()).unwrap().is(family);
    assert!(is("vllm:num 1", "vllm:num") && is("vllm_num 1", "vllm:num"));
    assert!(!is("vllm:num_total 1", "vllm:num") && !is("vllm:nu 1", "vllm:num"));
    assert!(!is("vllm:num 1", "vllm_num"));
}

#[test]
fn lines_that_cannot_be_read_cost_no_other_line() {
    let text = b"# HELP a \xff\na{x=\"\xff\"} 1\n\xff\xfe 2\nbroken{x=\" 3\na{x=\"2\"} 4";
    let values: Vec<f64> = series(text).map(|series| series.value).collect();
    assert_eq!(values, [1.0, 2.0, 4.0]);
    assert_eq!(series(text).next().unwrap().label("x").unwrap(), "\u{fffd}");
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(
        name in "[a-z_:][a-z0-9_:]{0,20}",
        labels in proptest::collection::vec(("[a-z_]{1,8}", "\\PC{0,12}"), 0..5),
        value in -1e12..1e12f64,
    ) {
        let escape = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let pairs: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
        let line = format!("{name}{{{}}} {value}", pairs.join(","));
        let series = Series::read(line.as_bytes()).unwrap();
        prop_assert!(series.is(&name));
        prop_assert_eq!(series.value, value);
        for (name, _) in &labels {
            let first = labels.iter().find(|(other, _)| other == name).unwrap();
            prop_assert_eq!(series.label(name).unwrap(), first.1.as_str());
        }
    }

    #[test]
    fn arbitrary_bytes_are_read_without_a_panic(line in "a\\{[ -~]{0,40}\\} ?[ -~]{0,8}", bytes: Vec<u8>) {
        for text in [line.as_bytes(), &bytes] {
            series(text).for_each(|series| drop((series.label("x"), series.is("a:b"))));
        }
    }
}
