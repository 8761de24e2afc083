use kvroute_core::WorkerRole;
use proptest::prelude::*;

use super::*;
use crate::config::EventEndpoint;

fn urls(content: &str) -> Result<Vec<String>, String> {
    read_file(content.as_bytes()).map(|workers| workers.into_iter().map(|worker| worker.url).collect())
}

#[test]
fn a_worker_a_line_with_what_is_told_of_it() {
    let text = "# the fleet\nhttp://a:1\n\n  http://B   role=decode kv_events=none dp_ranks=2 # the second\n";
    let workers = read_file(text.as_bytes()).unwrap();
    let second = WorkerConfig {
        role: WorkerRole::Decode,
        kv_events: EventEndpoint::None,
        dp_ranks: Some(2),
        ..WorkerConfig::at("http://b:80")
    };
    assert_eq!(workers, [WorkerConfig::at("http://a:1"), second]);
}

#[test]
fn a_json_list_has_addresses_and_objects() {
    let text = r#" ["http://a:1", {"url": "http://b:1", "role": "prefill"}]"#;
    let workers = read_file(text.as_bytes()).unwrap();
    assert_eq!(workers[0], WorkerConfig::at("http://a:1"));
    assert_eq!(workers[1], WorkerConfig { role: WorkerRole::Prefill, ..WorkerConfig::at("http://b:1") });
    assert_eq!(urls("[]"), Ok(Vec::new()));
}

#[test]
fn a_list_that_is_not_whole_is_not_believed_at_all() {
    for (text, said) in [
        ("", "names no worker; write [] to say that there is none"),
        ("# nobody\n", "names no worker"),
        ("http://a:1\nhttp:/", "line 2: url is \"http:/\"; expected an address"),
        ("http://a:1 role", "line 1: \"role\" is no name=value"),
        ("http://a:1 weight=2", "line 1: \"weight\" is none of role"),
        ("http://a:1 role=decode role=decode", "line 1: role stands there twice"),
        ("http://a:1 dp_ranks=0", "line 1: dp_ranks is \"0\""),
        ("http://a:1\nhttp://A:01/", "names worker a:1 twice"),
        ("[\"http://a:1\", ", "is no JSON list"),
        ("[7]", "entry 0: expected an address, or an object"),
        ("[{\"url\": \"http://a:1\", \"wieght\": 1}]", "entry 0: expected an address, or an object"),
        ("[{\"url\": \"ftp://a:1\"}]", "entry 0: url is \"ftp://a:1\""),
    ] {
        let refusal = urls(text).unwrap_err();
        assert!(refusal.contains(said), "{text:?}: {refusal}");
    }
    assert_eq!(read_file(b"http://a\xff").unwrap_err(), "is not UTF-8");
}

#[test]
fn places_become_workers() {
    let places = ["a.svc:8000".to_owned(), "[::1]:1".to_owned()];
    let workers = at_places(&places, false).unwrap();
    assert_eq!(workers, [WorkerConfig::at("http://a.svc:8000"), WorkerConfig::at("http://[::1]:1")]);
    assert_eq!(at_places(&places[..1], true).unwrap(), [WorkerConfig::at("https://a.svc:8000")]);
}

proptest! {
    #[test]
    fn no_content_panics_and_no_name_comes_twice(content in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(workers) = read_file(&content) {
            let names: BTreeSet<_> = workers.iter().map(WorkerConfig::id).collect();
            prop_assert_eq!(names.len(), workers.len());
        }
    }

    #[test]
    fn what_lines_name_is_found(ports in prop::collection::btree_set(1_u16.., 1..20)) {
        let text: String = ports.iter().map(|port| format!("http://a:{port}\n")).collect();
        let expected: Vec<_> = ports.iter().map(|port| format!("http://a:{port}")).collect();
        prop_assert_eq!(urls(&text), Ok(expected));
    }
}
