//! Asking for token ids.

use super::*;

const ASK: UpstreamEdits<'_> = UpstreamEdits {
    inject_usage: false,
    keep_continuous: false,
    return_token_ids: true,
    model: None,
    members: &[],
};

fn asked(body: &str) -> String {
    let sent = chat(body).unwrap().upstream_body(ASK).to_bytes();
    String::from_utf8(sent.to_vec()).unwrap()
}

#[test]
fn token_ids_are_asked_for_in_place() {
    for (said, expected) in [
        ("", r#" , "x" : 1.50 ,"return_token_ids":true}"#),
        (r#", "return_token_ids" : null "#, r#", "return_token_ids" : true  , "x" : 1.50 }"#),
        (r#","return_token_ids":false"#, r#","return_token_ids":true , "x" : 1.50 }"#),
        (
            r#","return_token_ids":true,"return_token_ids":false"#,
            r#","return_token_ids":true,"return_token_ids":true , "x" : 1.50 }"#,
        ),
        (r#","return_token_id\u0073":false"#, r#","return_token_id\u0073":true , "x" : 1.50 }"#),
    ] {
        let body = format!("{{{HELLO}{said} , \"x\" : 1.50 }}");
        assert_eq!(asked(&body), format!("{{{HELLO}{expected}"), "{said}");
        assert!(!chat(&body).unwrap().return_token_ids);
    }
}

#[test]
fn a_client_that_asks_itself_sends_its_own_bytes() {
    for wish in ["true", "1", "\"yes\"", "[]"] {
        let request = chat(&format!("{{{HELLO},\"return_token_ids\":{wish}}}")).unwrap();
        assert!(request.return_token_ids && !request.lacks_token_ids(), "{wish}");
        assert_eq!(request.upstream_body(ASK).to_bytes(), request.body());
    }
}

#[test]
fn an_echoed_prompt_vanished_from_the_answer() {
    let echo = completion(r#"{"prompt":"a","echo":true}"#).unwrap();
    assert!(!echo.lacks_token_ids());
    assert_eq!(echo.upstream_body(ASK).to_bytes(), echo.body());
    let plain = completion(r#"{"prompt":"a","echo":false}"#).unwrap();
    assert_eq!(plain.upstream_body(ASK).to_bytes(), r#"{"prompt":"a","echo":false,"return_token_ids":true}"#);
}

#[test]
fn other_apis_are_not_asked() {
    for endpoint in [Endpoint::Responses, Endpoint::Messages] {
        let body = Bytes::from_static(br#"{"input":"a","messages":[],"return_token_ids":true}"#);
        let request = ClientRequest::parse(endpoint, body).unwrap();
        assert!(!request.lacks_token_ids() && !request.return_token_ids);
        assert_eq!(request.upstream_body(ASK).to_bytes(), request.body());
    }
}

#[test]
fn usage_and_ids_are_asked_for_side_by_side() {
    let body = format!("{{{HELLO},\"stream\":true,\"model\":\"a\"}}");
    let edits = UpstreamEdits { return_token_ids: true, model: Some("b"), ..INJECT };
    let sent = chat(&body).unwrap().upstream_body(edits).to_bytes();
    let expected = format!(
        r#"{{{HELLO},"stream":true,"model":"b","stream_options":{{"include_usage":true}},"return_token_ids":true}}"#
    );
    assert_eq!(sent, expected.as_bytes());
}

proptest! {
    /// Whatever else is in a body: as a tree it is the same with the switch set.
    #[test]
    fn only_the_switch_differs(
        (text, mut expected) in any_body(),
        said in prop::option::of(prop::sample::select(vec!["null", "false"])),
    ) {
        let said = said.map_or_else(String::new, |said| format!("\"return_token_ids\": {said} ,"));
        let text = text.replacen('{', &format!("{{{said}"), 1);
        let request = chat(&text).unwrap();
        prop_assert!(request.lacks_token_ids());
        let upstream = request.upstream_body(ASK).to_bytes();
        expected["return_token_ids"] = json!(true);
        prop_assert_eq!(serde_json::from_slice::<Value>(&upstream).unwrap(), expected);
    }
}
