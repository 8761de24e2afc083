use super::*;

fn foreign(endpoint: Endpoint, body: &str) -> ClientRequest {
    ClientRequest::parse(endpoint, Bytes::copy_from_slice(body.as_bytes())).unwrap()
}

#[test]
fn a_response_tells_model_stream_bound_and_what_it_continues() {
    let body = r#"{"model":"m","input": [ {"role":"user","content":"h\u00e9"} ],"stream":true,"max_output_tokens":9,
        "previous_response_id":"resp_1","stream_options":{"include_obfuscation":false},"n":"x","tools":7}"#;
    let request = foreign(Endpoint::Responses, body);
    assert_eq!((request.model.as_deref(), request.stream, request.choices), (Some("m"), true, 1));
    assert_eq!((request.max_tokens, request.previous_response.as_deref()), (Some(9), Some("resp_1")));
    let Prompt::Foreign(input) = &request.prompt else { panic!("a prompt that was rendered") };
    assert_eq!(input.as_str(), r#"[ {"role":"user","content":"h\u00e9"} ]"#);
    assert!(!request.lacks_usage(), "its stream tells usage unasked");
    assert_eq!(request.upstream_body(INJECT).to_bytes(), request.body());
}

#[test]
fn a_message_tells_model_stream_and_bound() {
    let body = r#"{"system":"s","messages":[{"role":"user","content":"x"}],"max_tokens":7,"model":"al","stream":true}"#;
    let request = foreign(Endpoint::Messages, body);
    assert_eq!((request.stream, request.max_tokens, request.prompt.count()), (true, Some(7), 1));
    assert!(!request.lacks_usage() && !request.prompt_list && !request.bypasses_cache);
    let edits = UpstreamEdits { model: Some("own"), ..INJECT };
    assert_eq!(request.upstream_body(edits).to_bytes(), body.replace(r#""al""#, r#""own""#).as_bytes());
}

#[test]
fn what_the_engine_has_to_judge_is_left_to_it() {
    for endpoint in [Endpoint::Responses, Endpoint::Messages] {
        for body in ["{}", r#"{"input":5,"messages":{"a":1}}"#, r#"{"previous_response_id":""}"#] {
            let request = foreign(endpoint, body);
            assert_eq!((request.body().as_ref(), &request.previous_response), (body.as_bytes(), &None));
        }
        for (body, field) in [
            (r#"{"model":5}"#, "model"),
            (r#"{"stream":"x"}"#, "stream"),
            (r#"{"max_output_tokens":1.5}"#, "max_output_tokens"),
            (r#"{"previous_response_id":[]}"#, "previous_response_id"),
        ] {
            let parsed = ClientRequest::parse(endpoint, Bytes::from(body));
            assert_eq!(refusal(parsed).0.as_deref(), Some(field));
        }
    }
}

#[test]
fn a_chat_continues_no_response() {
    let request = chat(&format!(r#"{{{HELLO},"previous_response_id":"resp_1"}}"#)).unwrap();
    assert_eq!(request.previous_response, None);
}
