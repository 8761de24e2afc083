use proptest::prelude::*;
use serde_json::{Map, Value};

use super::*;

fn with(body: &str, members: &[Member<'_>]) -> String {
    let edited = set(&Bytes::copy_from_slice(body.as_bytes()), members);
    String::from_utf8(edited.to_vec()).unwrap()
}

#[test]
fn members_are_set_removed_and_added_in_place() {
    let body = r#"{ "a" : 1 , "stream":true, "b":{"a":7}}"#;
    assert_eq!(with(body, &[("a", Some("[1.50]"))]), r#"{ "a" : [1.50] , "stream":true, "b":{"a":7}}"#);
    assert_eq!(with(body, &[("stream", None)]), r#"{ "a" : 1 , "b":{"a":7}}"#);
    assert_eq!(with(body, &[("b", None), ("n\"", Some("0"))]), r#"{ "a" : 1 , "stream":true,"n\"":0}"#);
    assert_eq!(with(body, &[("absent", None)]), body);
    assert_eq!(with(r#"{"a":1}"#, &[("a", None), ("b", Some("2")), ("c", Some("3"))]), r#"{"b":2,"c":3}"#);
    assert_eq!(with("{}", &[("a", Some("1"))]), r#"{"a":1}"#);
}

#[test]
fn a_repeated_key_becomes_the_same_everywhere() {
    let body = r#"{"a":1,"\u0061":2,"b":3}"#;
    assert_eq!(with(body, &[("a", Some("9"))]), r#"{"a":9,"\u0061":9,"b":3}"#);
    assert_eq!(with(body, &[("a", None)]), r#"{"b":3}"#);
    assert_eq!(with(r#"{"a":1}"#, &[("a", None), ("a", Some("2"))]), r#"{"a":2}"#, "the last word counts");
}

proptest! {
    #[test]
    fn other_members_are_untouched(
        members in prop::collection::vec(("[ab\"\\\\c]{1,2}", any::<i64>()), 0..6),
        wanted in prop::collection::vec(("[ab\"\\\\c]{1,2}", prop::option::of(any::<i64>())), 0..4),
        pretty: bool,
    ) {
        let tree: Map<String, Value> =
            members.into_iter().map(|(key, value)| (key, Value::from(value))).collect();
        let text = if pretty { serde_json::to_string_pretty(&tree) } else { serde_json::to_string(&tree) };
        let written: Vec<_> =
            wanted.iter().map(|(key, value)| (key.as_str(), value.map(|value| value.to_string()))).collect();
        let asked: Vec<_> = written.iter().map(|(key, value)| (*key, value.as_deref())).collect();
        let edited = with(&text.unwrap(), &asked);
        let mut expected = tree;
        for (key, value) in wanted {
            match value {
                Some(value) => drop(expected.insert(key, Value::from(value))),
                None => drop(expected.remove(&key)),
            }
        }
        prop_assert_eq!(serde_json::from_str::<Map<String, Value>>(&edited).unwrap(), expected);
    }
}
