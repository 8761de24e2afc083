use std::collections::HashMap;

use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::*;

mod foreign;
mod nesting;
mod token_ids;
mod unread;

fn chat(body: &str) -> Result<ClientRequest, RequestError> {
    ClientRequest::parse(Endpoint::ChatCompletions, Bytes::copy_from_slice(body.as_bytes()))
}

fn completion(body: &str) -> Result<ClientRequest, RequestError> {
    ClientRequest::parse(Endpoint::Completions, Bytes::copy_from_slice(body.as_bytes()))
}

/// Field at fault and message.
fn refusal(request: Result<ClientRequest, RequestError>) -> (Option<String>, String) {
    let error = request.unwrap_err();
    assert_eq!(error.status, 400);
    assert_eq!(error.error.kind, "invalid_request_error");
    (error.error.param.map(String::from), error.error.message)
}

fn assert_refused(request: Result<ClientRequest, RequestError>, param: &str, message: &str) {
    assert_eq!(refusal(request), (Some(param.to_owned()), message.to_owned()));
}

const INJECT: UpstreamEdits<'_> = UpstreamEdits {
    inject_usage: true,
    keep_continuous: false,
    return_token_ids: false,
    model: None,
    members: &[],
};

const HELLO: &str = r#""messages":[{"role":"user","content":"hi"}]"#;

#[test]
fn a_chat_is_read_and_its_parts_stay_as_they_were_written() {
    let request = chat(
        r#"{"model":"m","messages": [ {"role":"user","content":"h\u00e9"} ],"tools":[{"x":1.50}],"stream":true,
            "n":2,"max_tokens":9,"cache_salt":"s","chat_template_kwargs":{"a":1e3},"documents":[],
            "add_generation_prompt":false,"continue_final_message":true,"unknown":{"deep":[1]}}"#,
    )
    .unwrap();
    assert_eq!(request.model.as_deref(), Some("m"));
    assert!(request.stream && !request.include_usage && request.lacks_usage());
    assert_eq!((request.choices, request.max_tokens), (2, Some(9)));
    assert_eq!(request.cache_salt.as_deref(), Some("s"));
    assert!(!request.prompt_list && !request.has_multimodal);
    let Prompt::Chat(prompt) = request.prompt else { panic!("not a chat") };
    assert_eq!(prompt.messages.as_str(), r#"[ {"role":"user","content":"h\u00e9"} ]"#);
    assert_eq!(prompt.tools.unwrap().as_str(), r#"[{"x":1.50}]"#);
    assert_eq!(prompt.chat_template_kwargs.unwrap().as_str(), r#"{"a":1e3}"#);
    assert_eq!(prompt.documents, None);
    assert!(!prompt.add_generation_prompt && prompt.continue_final_message && !prompt.add_special_tokens);
}

#[test]
fn defaults_are_those_of_the_engines() {
    let request = chat(&format!("{{{HELLO}}}")).unwrap();
    assert_eq!((request.model, request.max_tokens, request.cache_salt), (None, None, None));
    assert!(!request.stream && !request.include_usage);
    assert_eq!(request.choices, 1);
    let Prompt::Chat(prompt) = request.prompt else { panic!("not a chat") };
    assert!(prompt.add_generation_prompt && !prompt.continue_final_message && !prompt.add_special_tokens);
}

#[test]
fn null_counts_as_absent() {
    let nulls =
        ["model", "stream", "stream_options", "n", "max_tokens", "cache_salt", "tools", "chat_template"]
            .map(|field| format!("\"{field}\":null"))
            .join(",");
    let request = chat(&format!("{{{HELLO},{nulls}}}")).unwrap();
    assert_eq!((request.model, request.choices, request.max_tokens), (None, 1, None));
    assert_eq!(completion("{\"prompt\":null}").unwrap_err().error.param.as_deref(), Some("prompt"));
}

#[test]
fn every_form_of_a_prompt_is_read() {
    let prompt = |body: &str| completion(body).unwrap();
    let text = |texts: &[&str], add_special_tokens| Prompt::Texts {
        texts: texts.iter().map(|&text| text.to_owned()).collect(),
        add_special_tokens,
    };
    assert_eq!(prompt(r#"{"prompt":"a\nb"}"#).prompt, text(&["a\nb"], true));
    assert_eq!(prompt(r#"{"add_special_tokens":false,"prompt":["a"]}"#).prompt, text(&["a"], false));
    assert_eq!(prompt(r#"{"prompt":["a","b"]}"#).prompt, text(&["a", "b"], true));
    assert_eq!(prompt(r#"{"prompt":[1,4294967295]}"#).prompt, Prompt::TokenLists(vec![vec![1, u32::MAX]]));
    assert_eq!(prompt(r#"{"prompt":[[1],[2,3]]}"#).prompt, Prompt::TokenLists(vec![vec![1], vec![2, 3]]));
    assert!(!prompt(r#"{"prompt":["a"]}"#).prompt_list);
    assert!(prompt(r#"{"prompt":["a","b"]}"#).prompt_list);
    assert!(!prompt(r#"{"prompt":[1,2]}"#).prompt_list);
}

#[test]
fn bad_prompts_name_the_element() {
    let empty = "prompt is empty; send at least one character or token id for each prompt";
    for body in [r#"{"prompt":""}"#, r#"{"prompt":[]}"#, r#"{"prompt":["a",""]}"#, r#"{"prompt":[[1],[]]}"#] {
        assert_refused(completion(body), "prompt", empty);
    }
    let forms = "send a text, a list of texts, token ids, or a list of token id lists";
    assert_refused(completion("{}"), "prompt", &format!("prompt is missing; {forms}"));
    assert_refused(completion(r#"{"prompt":7}"#), "prompt", &format!("prompt is a number; {forms}"));
    assert_refused(completion(r#"{"prompt":[null]}"#), "prompt", &format!("prompt[0] is null; {forms}"));
    let range = "token ids are whole numbers from 0 to 4294967295";
    assert_refused(completion(r#"{"prompt":[1,-1]}"#), "prompt", &format!("prompt[1] is -1; {range}"));
    assert_refused(completion(r#"{"prompt":[1.0]}"#), "prompt", &format!("prompt[0] is 1.0; {range}"));
    let too_large = format!("prompt[1][0] is 4294967296; {range}");
    assert_refused(completion(r#"{"prompt":[[1],[4294967296]]}"#), "prompt", &too_large);
    let mixed = "prompt[1] is a number, unlike the elements before; send one kind of elements";
    assert_refused(completion(r#"{"prompt":["a",1]}"#), "prompt", mixed);
    assert_refused(completion(r#"{"prompt":[["a"]]}"#), "prompt", "prompt[0][0] is a string; send token ids");
}

#[test]
fn bad_chats_name_the_message() {
    let missing = "messages is missing; send a non-empty array of messages";
    assert_refused(chat("{}"), "messages", missing);
    assert_refused(chat(r#"{"messages":[]}"#), "messages", "messages is empty; send at least one message");
    let wrong = "messages is a string; send a non-empty array of messages";
    assert_refused(chat(r#"{"messages":"hi"}"#), "messages", wrong);
    let element = "messages[1] is a string; send an object with role and content";
    assert_refused(chat(r#"{"messages":[{"role":"user"},"x"]}"#), "messages[1]", element);
    let role = "messages[0].role is missing; send who speaks, such as \"user\"";
    assert_refused(chat(r#"{"messages":[{"content":"x"}]}"#), "messages[0].role", role);
    let content = "messages[0].content is a number; send a string or an array of parts";
    assert_refused(chat(r#"{"messages":[{"role":"a","content":1}]}"#), "messages[0].content", content);
    let part = "messages[0].content has a part that is a number; send objects with a type";
    assert_refused(chat(r#"{"messages":[{"role":"a","content":[1]}]}"#), "messages[0].content", part);
}

#[test]
fn bad_fields_name_themselves_and_the_remedy() {
    let with = |field: &str| chat(&format!("{{{HELLO},{field}}}"));
    assert_refused(with(r#""model":7"#), "model", "model is a number; send a string");
    assert_refused(with(r#""stream":"yes""#), "stream", "stream is a string; send true or false");
    assert_refused(with(r#""n":-1"#), "n", "n is -1; send a whole number from 1 to 4294967295");
    assert_refused(with(r#""n":0"#), "n", "n is 0; send a whole number from 1 to 4294967295");
    assert_refused(with(r#""n":1.5"#), "n", "n is 1.5; send a whole number");
    assert_refused(with(r#""max_tokens":"9""#), "max_tokens", "max_tokens is a string; send a whole number");
    assert_refused(
        with(r#""stream_options":[]"#),
        "stream_options",
        "stream_options is an array; send an object",
    );
    assert_refused(
        with(r#""stream_options":{"include_usage":1}"#),
        "stream_options.include_usage",
        "stream_options.include_usage is a number; send true or false",
    );
    assert_refused(with(r#""tools":{}"#), "tools", "tools is an object; send an array of objects");
    let arguments = "chat_template_kwargs is an array; send an object";
    assert_refused(with(r#""chat_template_kwargs":[]"#), "chat_template_kwargs", arguments);
}

#[test]
fn number_forms_of_other_languages_and_unbounded_lengths_are_taken() {
    let with = |field: &str| chat(&format!("{{{HELLO},{field}}}")).unwrap();
    assert_eq!(with(r#""max_tokens":16.0"#).max_tokens, Some(16));
    assert_eq!(with(r#""max_tokens":2e3"#).max_tokens, Some(2000));
    assert_eq!(with(r#""max_tokens":-1"#).max_tokens, None);
    assert_eq!(with(r#""max_tokens":5,"max_completion_tokens":3"#).max_tokens, Some(3));
}

#[test]
fn broken_json_is_an_error_of_its_own() {
    let (param, message) = refusal(chat(r#"{"model": "m", "messages": ["#));
    assert_eq!(param, None);
    assert_eq!(
        message,
        "body is not valid JSON: unexpected end, expected a value at line 1 column 29; send one JSON object"
    );
    assert_eq!(chat("").unwrap_err().error.code.as_deref(), Some("invalid_json"));
    assert_eq!(refusal(chat("[1]")).1, "body is an array; send a JSON object");
    assert!(refusal(chat(&format!("{{{HELLO}}} x"))).1.contains("unexpected text after the value"));
    let latin = ClientRequest::parse(Endpoint::Completions, Bytes::from_static(b"{\"prompt\":\"\xff\"}"));
    assert_eq!(refusal(latin).1, "body is not valid UTF-8 at byte 11; send JSON in UTF-8");
}

#[test]
fn the_last_of_repeated_keys_wins() {
    let request =
        completion(r#"{"prompt":"a","prompt":"b","stream":true,"stream":false,"n":2,"n":null}"#).unwrap();
    assert_eq!(request.prompt, Prompt::Texts { texts: vec!["b".to_owned()], add_special_tokens: true });
    assert!(!request.stream);
    assert_eq!(request.choices, 1);
}

#[test]
fn a_part_that_is_no_text_is_multimodal() {
    let with = |part: &str| {
        chat(&format!(
            r#"{{"messages":[{{"role":"user","content":[{{"type":"text","text":"a"}},{part}]}}]}}"#
        ))
        .unwrap()
        .has_multimodal
    };
    assert!(!with(r#"{"type":"text","text":"image_url"}"#));
    assert!(!with(r#""plain""#));
    assert!(with(r#"{"type":"image_url","image_url":{"url":"data:,"}}"#));
    assert!(with(r#"{"image_url":"http://x"}"#));
    assert!(with(r#"{"type":"made_up"}"#));
    assert!(with(r#"{"type":"input_audio"},{"type":"text","text":"behind it"}"#));
}

#[test]
fn usage_is_injected_in_place() {
    let injected = |options: &str| {
        let body = format!("{{ {HELLO} , \"stream\":true{options}, \"x\" : 1.50 }}");
        let request = chat(&body).unwrap();
        let upstream = request.upstream_body(INJECT).to_bytes();
        (request.lacks_usage(), String::from_utf8(upstream.to_vec()).unwrap())
    };
    let body = |tail: &str| format!("{{ {HELLO} , \"stream\":true{tail}");
    for (options, expected) in [
        ("", r#", "x" : 1.50 ,"stream_options":{"include_usage":true}}"#),
        (r#","stream_options":null"#, r#","stream_options":{"include_usage":true}, "x" : 1.50 }"#),
        (r#","stream_options":{}"#, r#","stream_options":{"include_usage":true}, "x" : 1.50 }"#),
        (r#","stream_options":{"a":1}"#, r#","stream_options":{"a":1,"include_usage":true}, "x" : 1.50 }"#),
        (
            r#","stream_options":{"include_usage": false ,"a":1}"#,
            r#","stream_options":{"include_usage": true ,"a":1}, "x" : 1.50 }"#,
        ),
        (
            r#","stream_options":{"include_usage":null}"#,
            r#","stream_options":{"include_usage":true}, "x" : 1.50 }"#,
        ),
        (
            r#","stream_options":{"continuous_usage_stats" : true }"#,
            r#","stream_options":{"continuous_usage_stats" : false ,"include_usage":true}, "x" : 1.50 }"#,
        ),
        (
            r#","stream_options":{"include_usage":false,"continuous_usage_stats":"yes"}"#,
            r#","stream_options":{"include_usage":true,"continuous_usage_stats":false}, "x" : 1.50 }"#,
        ),
        (
            r#","stream_options":{"continuous_usage_stats":[]}"#,
            r#","stream_options":{"continuous_usage_stats":[],"include_usage":true}, "x" : 1.50 }"#,
        ),
    ] {
        assert_eq!(injected(options), (true, body(expected)), "{options}");
    }
    let asked = r#","stream_options":{"continuous_usage_stats":true,"include_usage":true}"#;
    assert_eq!(injected(asked), (false, body(&format!("{asked}, \"x\" : 1.50 }}"))));
}

#[test]
fn a_whole_answer_and_a_refusing_worker_get_the_clients_own_bytes() {
    let whole = chat(&format!("{{{HELLO}}}")).unwrap();
    assert!(!whole.lacks_usage());
    assert_eq!(whole.upstream_body(INJECT).to_bytes(), whole.body());
    let stream = chat(&format!("{{{HELLO},\"stream\":true}}")).unwrap();
    assert_eq!(stream.upstream_body(UpstreamEdits::default()).to_bytes(), stream.body());
}

#[test]
fn an_engine_that_heeds_continuous_usage_alone_keeps_it() {
    let body = format!(r#"{{{HELLO},"stream":true,"stream_options":{{"continuous_usage_stats":true}}}}"#);
    let sent =
        chat(&body).unwrap().upstream_body(UpstreamEdits { keep_continuous: true, ..INJECT }).to_bytes();
    assert_eq!(sent, body.replace("true}}", r#"true,"include_usage":true}}"#).as_bytes());
}

#[test]
fn an_alias_becomes_the_models_own_name_beside_the_injected_usage() {
    let body = format!(r#"{{"stream_options":{{}},"model": "qwen" ,{HELLO},"stream":true}}"#);
    let edits = UpstreamEdits { model: Some("qwen3-\"8b\""), ..INJECT };
    let sent = chat(&body).unwrap().upstream_body(edits).to_bytes();
    let expected = body.replace("{}", r#"{"include_usage":true}"#).replace(r#""qwen""#, r#""qwen3-\"8b\"""#);
    assert_eq!(sent, expected.as_bytes());
    let unnamed = chat(&format!("{{{HELLO}}}")).unwrap();
    assert_eq!(unnamed.upstream_body(edits).to_bytes(), unnamed.body());
}

/// Bodies in any order, spacing and with strange neighbours.
fn any_body() -> impl Strategy<Value = (String, Value)> {
    let options = prop_oneof![
        Just(None),
        Just(Some(Value::Null)),
        Just(Some(json!({}))),
        Just(Some(json!({"include_usage": false}))),
        Just(Some(json!({"include_usage": null, "continuous_usage_stats": true}))),
        Just(Some(json!({"continuous_usage_stats": true, "include_usage": false}))),
        Just(Some(json!({"continuous_usage_stats": 1, "other": [true]}))),
        Just(Some(json!({"continuous_usage_stats": false}))),
        Just(Some(json!({"continuous_usage_stats": null}))),
    ];
    let extra = prop::collection::vec((".{0,8}", any::<f64>()), 0..4);
    (options, extra, any::<bool>(), any::<prop::sample::Index>()).prop_map(|(options, extra, pretty, at)| {
        let mut members: Vec<(String, Value)> =
            extra.into_iter().map(|(key, number)| (format!("x{key}"), json!(number))).collect();
        members.push(("stream".to_owned(), json!(true)));
        members.push(("messages".to_owned(), json!([{"role": "user", "content": "}\",{"}])));
        members.extend(options.map(|value| ("stream_options".to_owned(), value)));
        let turn = at.index(members.len());
        members.rotate_left(turn);
        let value = Value::Object(members.into_iter().collect());
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
        let written = text.unwrap();
        let read_back = serde_json::from_str(&written).unwrap();
        (written, read_back)
    })
}

proptest! {
    #[test]
    fn only_the_injected_paths_differ((text, mut expected) in any_body()) {
        let request = chat(&text).unwrap();
        prop_assert!(request.lacks_usage());
        let upstream = request.upstream_body(INJECT).to_bytes();
        let options = &mut expected["stream_options"];
        if options.is_null() {
            *options = json!({});
        }
        options["include_usage"] = json!(true);
        if let Some(value) = options.get_mut("continuous_usage_stats").filter(|value| !value.is_null()) {
            *value = json!(false);
        }
        prop_assert_eq!(serde_json::from_slice::<Value>(&upstream).unwrap(), expected);
        // Every byte of the client's outside the options is still there.
        let (sent, written) = (upstream.as_ref(), text.as_bytes());
        let head = sent.iter().zip(written).take_while(|(a, b)| a == b).count();
        let room = written.len() - head;
        let tail = sent.iter().rev().zip(written.iter().rev()).take(room).take_while(|(a, b)| a == b).count();
        let members: HashMap<String, &RawValue> = serde_json::from_str(&text).unwrap();
        let options = members.get("stream_options").map_or(0, |options| options.get().len());
        prop_assert!(written.len() - head - tail <= options);
    }

    #[test]
    fn no_body_panics(body in prop::collection::vec(any::<u8>(), 0..200)) {
        for endpoint in Endpoint::ALL {
            let _ = ClientRequest::parse(endpoint, Bytes::from(body.clone()));
        }
    }
}

#[test]
fn what_makes_an_engine_compute_a_cached_prompt_is_seen() {
    let chat_with = |field: &str| chat(&format!("{{{HELLO},{field}}}")).unwrap().bypasses_cache;
    let completion_with =
        |field: &str| completion(&format!(r#"{{"prompt":"hi",{field}}}"#)).unwrap().bypasses_cache;
    for field in [r#""prompt_logprobs":0"#, r#""prompt_logprobs":5"#, r#""cache_prompt":false"#] {
        assert!(chat_with(field) && completion_with(field), "{field}");
    }
    assert!(completion_with(r#""echo":true,"logprobs":1"#));
    for field in [
        r#""prompt_logprobs":null"#,
        r#""prompt_logprobs":false"#,
        r#""cache_prompt":true"#,
        r#""cache_prompt":null"#,
        r#""echo":true"#,
        r#""logprobs":true"#,
        r#""echo":false,"logprobs":2"#,
    ] {
        assert!(!chat_with(field) && !completion_with(field), "{field}");
    }
    assert!(!chat_with(r#""echo":true,"logprobs":true"#));
}

#[test]
fn a_further_key_is_kept_as_it_is_written() {
    let key = |written: &str| chat(&format!(r#"{{{HELLO},"extra_key":{written}}}"#)).unwrap().extra_key;
    assert_eq!(key("\"lane\"").as_deref(), Some("\"lane\""));
    assert_eq!(key("[\"a\",\"b\"]").as_deref(), Some("[\"a\",\"b\"]"));
    assert_eq!((key("null"), key("\"\"")), (None, None));
}

#[test]
fn members_that_are_set_win_over_what_is_injected() {
    let request = chat(&format!(r#"{{{HELLO},"stream":true,"max_tokens":5,"model":"al"}}"#)).unwrap();
    let members = [("stream", Some("false")), ("stream_options", None), ("max_tokens", Some("1"))];
    let sent =
        request.upstream_body(UpstreamEdits { model: Some("own"), members: &members, ..INJECT }).to_bytes();
    assert_eq!(sent, format!(r#"{{{HELLO},"stream":false,"max_tokens":1,"model":"own"}}"#).as_bytes());
}
