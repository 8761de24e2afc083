//! A client's request body, at every endpoint: it is refused, or it goes upstream with nothing changed but what the
//! router owns.

#![no_main]

use bytes::Bytes;
use kvroute_fuzz::json_tree;
use kvroute_openai::{AnswerSoFar, ClientRequest, Endpoint, Obstacle, Prompt, UpstreamEdits};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

const ALIAS: &str = "al\"ias\\é\n";

fuzz_target!(|body: &[u8]| {
    let body = Bytes::copy_from_slice(body);
    for endpoint in Endpoint::ALL {
        match ClientRequest::parse(endpoint, body.clone()) {
            Ok(request) => check(endpoint, &request),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let as_tree =
        if seed.is_multiple_of(2) { None } else { json_tree::mutate_in_place(data, size, max_size, seed) };
    as_tree.unwrap_or_else(|| fuzzer_mutate(data, size, max_size))
});

fn check(endpoint: Endpoint, request: &ClientRequest) {
    serde_json::from_slice::<IgnoredAny>(request.body()).expect("what is taken as JSON is JSON");
    assert!(request.choices > 0 && request.prompt.count() > 0);
    for (inject_usage, return_token_ids) in [(false, false), (true, false), (false, true), (true, true)] {
        for (keep_continuous, model) in [(false, None), (false, Some(ALIAS)), (true, Some(ALIAS))] {
            let edits =
                UpstreamEdits { inject_usage, keep_continuous, return_token_ids, model, members: &[] };
            check_edits(endpoint, request, edits);
        }
    }
    check_members(request);
    if request.obstacle().is_none() {
        check_continued(request);
    }
}

/// Members are set, removed and added, and the others are as they were.
fn check_members(request: &ClientRequest) {
    let members = [("stream", Some("false")), ("model", None), ("n\"ew", Some("[1.50]")), ("prompt", None)];
    let edits = UpstreamEdits { members: &members, ..UpstreamEdits::default() };
    let edited = request.upstream_body(edits).to_bytes();
    let Ok(mut expected) = serde_json::from_slice::<Map<String, Value>>(request.body()) else { return };
    for (name, json) in members {
        match json {
            Some(json) => drop(expected.insert(name.to_owned(), serde_json::from_str(json).expect("JSON"))),
            None => drop(expected.shift_remove(name)),
        }
    }
    let edited = serde_json::from_slice::<Map<String, Value>>(&edited).expect("an edited body is JSON");
    assert_eq!(edited, expected);
}

/// What another engine goes on with is the same request with a longer prompt, and less to do.
fn check_continued(request: &ClientRequest) {
    let so_far = AnswerSoFar { prompt: &[1, 2], generated: &[3], text: "\"so far" };
    let next = match request.continued(so_far) {
        Ok(next) => next,
        Err(obstacle) => {
            assert!(matches!(obstacle, Obstacle::StopBegun | Obstacle::NothingLeft), "{obstacle:?}");
            return;
        }
    };
    assert_eq!(next.max_tokens, request.max_tokens.map(|most| most - 1));
    assert_eq!((&next.cache_salt, &next.model), (&request.cache_salt, &request.model));
    match &next.prompt {
        Prompt::TokenLists(lists) => assert_eq!(*lists, [[1, 2, 3]]),
        Prompt::Chat(chat) => {
            assert!(chat.continue_final_message && !chat.add_generation_prompt);
            assert!(
                chat.messages.as_str().ends_with(",{\"role\":\"assistant\",\"content\":\"\\\"so far\"}]")
            );
        }
        other => panic!("{other:?} cannot be continued"),
    }
}

fn check_edits(endpoint: Endpoint, request: &ClientRequest, edits: UpstreamEdits<'_>) {
    let upstream = request.upstream_body(edits).to_bytes();
    let injected = edits.inject_usage && request.lacks_usage();
    let asked_for_ids = edits.return_token_ids && request.lacks_token_ids();
    let again = ClientRequest::parse(endpoint, upstream.clone()).expect("an edited body is still a request");
    assert_eq!(again.prompt, request.prompt);
    assert_eq!(again.cache_salt, request.cache_salt);
    assert_eq!(again.previous_response, request.previous_response);
    assert_eq!((again.choices, again.max_tokens), (request.choices, request.max_tokens));
    assert_eq!((again.stream, again.include_usage), (request.stream, request.include_usage || injected));
    assert_eq!(again.return_token_ids, request.return_token_ids || asked_for_ids);

    // Numbers beyond a double and lone surrogates are JSON, but nothing that this tree can hold.
    let Ok(mut expected) = serde_json::from_slice::<Value>(request.body()) else { return };
    if let (Some(alias), Some(model)) = (edits.model, expected.get_mut("model")) {
        *model = json!(alias);
    }
    if injected {
        ask_for_usage(&mut expected["stream_options"], edits.keep_continuous);
    }
    if asked_for_ids {
        expected["return_token_ids"] = json!(true);
    }
    assert_eq!(serde_json::from_slice::<Value>(&upstream).expect("an edited body is JSON"), expected);
}

/// What the router makes of the client's options where it wants usage itself.
fn ask_for_usage(options: &mut Value, keep_continuous: bool) {
    if options.is_null() {
        *options = json!({});
    }
    options["include_usage"] = json!(true);
    match options.get_mut("continuous_usage_stats") {
        _ if keep_continuous => {}
        Some(stats) if stats.is_boolean() || stats.is_number() || stats.is_string() => *stats = json!(false),
        _ => {}
    }
}
