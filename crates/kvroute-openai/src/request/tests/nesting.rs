use super::*;

/// Arrays, or objects, inside of each other.
fn nested(levels: usize, is_object: bool) -> String {
    let (open, close) = if is_object { ("{\"a\":", "}") } else { ("[", "]") };
    format!("{}0{}", open.repeat(levels), close.repeat(levels))
}

/// Bodies of an endpoint that hold this value wherever a value is read or passed over.
fn bodies(endpoint: Endpoint, value: &str) -> Vec<String> {
    let places = [
        "x",
        "model",
        "stream",
        "n",
        "max_tokens",
        "stream_options",
        "return_token_ids",
        "extra_key",
        "messages",
        "input",
        "prompt",
        "tools",
        "documents",
        "chat_template_kwargs",
        "tool_choice",
        "stop",
        "response_format",
        "query",
    ];
    let whole = places.iter().map(|name| format!("{{{HELLO},\"prompt\":\"p\",\"{name}\":{value}}}"));
    let inside = [
        format!(
            r#"{{"prompt":"p","messages":[{{"role":"user","content":[{{"type":"text","x":{value}}}]}}]}}"#
        ),
        format!(r#"{{"prompt":"p","messages":[{{"role":"assistant","content":"","tool_calls":{value}}}]}}"#),
        format!(r#"{{"prompt":[{value}],{HELLO}}}"#),
        format!(r#"{{"stream_options":{{"x":{value}}},"prompt":"p",{HELLO}}}"#),
    ];
    let as_member = whole.chain(inside);
    as_member.chain([value.to_owned()]).filter(|body| endpoint.generates() || body.starts_with('{')).collect()
}

#[test]
fn no_nesting_is_too_deep_to_be_refused() {
    for endpoint in Endpoint::ALL {
        for (levels, is_object) in [(100_000, false), (100_000, true), (129, false), (129, true)] {
            for body in bodies(endpoint, &nested(levels, is_object)) {
                let (_, message) = refusal(ClientRequest::parse(endpoint, Bytes::from(body)));
                let start: String = message.chars().take(200).collect();
                assert!(!start.contains("is not valid JSON"), "{endpoint:?}: {start}");
            }
            let open_only = format!("{{{HELLO},\"prompt\":\"p\",\"x\":{}", "[".repeat(levels));
            let (param, message) = refusal(ClientRequest::parse(endpoint, Bytes::from(open_only)));
            assert_eq!(param, None);
            assert!(
                message.starts_with("body cannot be read: arrays and objects nested deeper than 128 levels"),
                "{message}"
            );
            assert!(message.ends_with("; nest less"), "{message}");
        }
    }
}

#[test]
fn what_is_nested_less_passes() {
    for endpoint in Endpoint::ALL {
        let body = format!("{{{HELLO},\"prompt\":\"p\",\"x\":{}}}", nested(127, false));
        let request = ClientRequest::parse(endpoint, Bytes::from(body.clone())).unwrap();
        let members = [("y", Some("1"))];
        let edited =
            request.upstream_body(UpstreamEdits { members: &members, ..UpstreamEdits::default() }).to_bytes();
        assert_eq!(
            edited.len(),
            body.len() + r#","y":1"#.len(),
            "the members of a body of any depth are set"
        );
    }
    assert_eq!(JsonReader::MAX_DEPTH, 128, "as the message says");
}
