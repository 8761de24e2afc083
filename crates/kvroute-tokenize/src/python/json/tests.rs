use minijinja::{Environment, context};
use proptest::prelude::*;

use super::*;
use crate::tree::Tree;

fn render(expression: &str, json: &str) -> String {
    let mut environment = Environment::new();
    environment.add_filter("tojson", tojson);
    let value = Value::from(Tree::parse(json).unwrap());
    environment.render_str(&format!("{{{{ {expression} }}}}"), context! { x => value }).unwrap()
}

/// Pairs made by CPython.
#[test]
fn values_are_written_as_python_writes_them() {
    for (json, expected) in [
        (r#"{"b": 1, "a": [true, null, {}], "c": []}"#, r#"{"b": 1, "a": [true, null, {}], "c": []}"#),
        (r#"{"q":"<b>&'é\n","n":1.50,"e":1e3}"#, r#"{"q": "<b>&'é\n", "n": 1.5, "e": 1000.0}"#),
        ("12345678901234567890", "12345678901234567890"),
        (r#""\u0000\u0001\u001f\u007f\b\f\/\\\"""#, "\"\\u0000\\u0001\\u001f\u{7f}\\b\\f/\\\\\\\"\""),
        (r#"[1e999, -1e999]"#, "[Infinity, -Infinity]"),
        (r#""\ud83d\ude00""#, "\"😀\""),
    ] {
        assert_eq!(render("x | tojson", json), expected);
    }
}

#[test]
fn the_options_of_json_dumps_are_understood() {
    let json = r#"{"b":{"y":[],"x":[1,2]},"a":"é😀"}"#;
    let indented =
        "{\n  \"b\": {\n    \"y\": [],\n    \"x\": [\n      1,\n      2\n    ]\n  },\n  \"a\": \"é😀\"\n}";
    assert_eq!(render("x | tojson(indent=2)", json), indented);
    assert_eq!(render("x | tojson(2)", json), indented);
    assert_eq!(
        render("x | tojson(ensure_ascii=true, sort_keys=true)", json),
        r#"{"a": "\u00e9\ud83d\ude00", "b": {"x": [1, 2], "y": []}}"#
    );
    assert_eq!(render("x | tojson(separators=(',', ':'))", json), r#"{"b":{"y":[],"x":[1,2]},"a":"é😀"}"#);
    assert_eq!(render("x | tojson(indent=none)", "[1, 2]"), "[1, 2]");
    assert_eq!(render("(x + [3]) | tojson", "[1, 2]"), "[1, 2, 3]");
    assert_eq!(render("{2: 1, true: 3, none: 4} | tojson", "0"), r#"{"2": 1, "true": 3, "null": 4}"#);
}

proptest! {
    #[test]
    fn what_is_written_reads_back_the_same(value in any_tree(), indent in prop::option::of(0i64..5), ascii: bool) {
        let mut style = Style { ensure_ascii: ascii, ..Style::default() };
        style.set_indent(indent.map(Value::from)).unwrap();
        let text = write_value(&Value::from(value.clone()), &style).unwrap();
        prop_assert_eq!(Tree::parse(&text).unwrap(), value);
        prop_assert!(!ascii || text.is_ascii());
    }
}

fn any_tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|value| value.to_string()),
        any::<i128>().prop_map(|number| number.to_string()),
        prop::num::f64::NORMAL.prop_map(|number| format!("{number:e}")),
        any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
    ];
    let json = leaf.prop_recursive(3, 20, 4, |inner| {
        let key = any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap());
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec((key, inner), 0..4).prop_map(|members| {
                let members: Vec<String> =
                    members.into_iter().map(|(name, value)| format!("{name}:{value}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    });
    json.prop_map(|text| Tree::parse(&text).unwrap())
}

#[test]
fn what_is_no_json_is_refused() {
    let mut environment = Environment::new();
    environment.add_filter("tojson", tojson);
    let error = environment.render_str("{{ missing | tojson }}", ()).unwrap_err();
    assert!(error.to_string().contains("not JSON serializable"), "{error}");
}
