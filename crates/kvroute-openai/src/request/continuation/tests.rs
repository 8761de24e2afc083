use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn request(endpoint: Endpoint, body: &Value) -> ClientRequest {
    ClientRequest::parse(endpoint, Bytes::from(body.to_string())).unwrap()
}

fn completion(members: Value) -> ClientRequest {
    let mut body = json!({"prompt": "hi", "stream": true, "max_tokens": 9});
    extend(&mut body, members);
    request(Endpoint::Completions, &body)
}

fn chat(members: Value) -> ClientRequest {
    let mut body = json!({"messages": [{"role": "user", "content": "hi"}], "stream": true});
    extend(&mut body, members);
    request(Endpoint::ChatCompletions, &body)
}

fn extend(body: &mut Value, members: Value) {
    let (Value::Object(body), Value::Object(members)) = (body, members) else { panic!("no objects") };
    body.extend(members);
}

fn so_far<'a>(generated: &'a [TokenId], text: &'a str) -> AnswerSoFar<'a> {
    AnswerSoFar { prompt: &[7, 8], generated, text }
}

fn tree(request: &ClientRequest) -> Value {
    serde_json::from_slice(request.body()).unwrap()
}

#[test]
fn a_plain_stream_may_be_continued() {
    for members in [
        json!({}),
        json!({"n": 1, "best_of": 1, "presence_penalty": 0, "frequency_penalty": 0.0, "suffix": null}),
        json!({"response_format": {"type": "text"}, "stop": "x", "seed": 7, "logit_bias": {"1": 2}}),
        json!({"guided_json": null, "tools": [], "echo": false, "logprobs": null, "grammar": ""}),
    ] {
        assert_eq!(completion(members.clone()).obstacle(), None, "{members}");
        assert_eq!(chat(members.clone()).obstacle(), None, "{members}");
    }
    assert_eq!(chat(json!({"logprobs": true, "top_logprobs": 2, "max_tokens": null})).obstacle(), None);
}

#[test]
fn what_the_tokens_do_not_decide_cannot_be_continued() {
    for (members, obstacle) in [
        (json!({"stream": false}), Obstacle::NotAStream),
        (json!({"n": 2}), Obstacle::Choices),
        (json!({"best_of": 2}), Obstacle::Choices),
        (json!({"use_beam_search": true}), Obstacle::Choices),
        (json!({"response_format": {"type": "json_object"}}), Obstacle::Guided),
        (json!({"response_format": 7}), Obstacle::Guided),
        (json!({"guided_regex": "a+"}), Obstacle::Guided),
        (json!({"structured_outputs": {"choice": ["a"]}}), Obstacle::Guided),
        (json!({"frequency_penalty": 0.5}), Obstacle::Penalties),
        (json!({"presence_penalty": -1}), Obstacle::Penalties),
        (json!({"echo": true}), Obstacle::Echo),
        (json!({"prompt_logprobs": 1}), Obstacle::PromptLogprobs),
        (json!({"kv_transfer_params": {"a": 1}}), Obstacle::EngineMember),
        (json!({"truncate_prompt_tokens": 3}), Obstacle::EngineMember),
    ] {
        assert_eq!(completion(members.clone()).obstacle(), Some(obstacle), "{members}");
        assert_eq!(chat(members.clone()).obstacle(), Some(obstacle), "{members}");
    }
    assert_eq!(completion(json!({"prompt": ["a", "b"]})).obstacle(), Some(Obstacle::Prompts));
    assert_eq!(completion(json!({"logprobs": 0})).obstacle(), Some(Obstacle::TextOffsets));
    assert_eq!(completion(json!({"max_tokens": null})).obstacle(), Some(Obstacle::Unbounded));
    assert_eq!(completion(json!({"max_tokens": -1})).obstacle(), Some(Obstacle::Unbounded));
    assert_eq!(chat(json!({"tools": [{"type": "function"}]})).obstacle(), Some(Obstacle::Tools));
    assert_eq!(chat(json!({"continue_final_message": true})).obstacle(), Some(Obstacle::ContinuesMessage));
    let image = json!([{"role": "user", "content": [{"type": "image_url"}]}]);
    assert_eq!(chat(json!({"messages": image})).obstacle(), Some(Obstacle::Multimodal));
    for endpoint in [Endpoint::Responses, Endpoint::Messages] {
        let foreign = request(endpoint, &json!({"input": "hi", "stream": true}));
        assert_eq!((foreign.obstacle(), foreign.may_start_over()), (Some(Obstacle::Endpoint), false));
    }
}

#[test]
fn as_long_as_nothing_was_generated_only_the_shape_of_the_answer_matters() {
    let tools = json!({"tools": [{"type": "function"}], "response_format": {"type": "json_object"}});
    assert!(chat(tools).may_start_over());
    assert!(!chat(json!({"n": 2})).may_start_over());
    assert!(!chat(json!({"stream": false})).may_start_over());
    assert!(!completion(json!({"prompt": ["a", "b"]})).may_start_over());
}

#[test]
fn a_completion_goes_on_with_the_ids_of_all_that_there_is() {
    let request = completion(json!({"min_tokens": 2, "stop": ["\n\n"], "x": 1.5}));
    let next = request.continued(so_far(&[3, 4, 5], "abc\n ")).unwrap();
    let expected = json!({"prompt": [7, 8, 3, 4, 5], "stream": true, "max_tokens": 6, "min_tokens": 0,
        "stop": ["\n\n"], "x": 1.5});
    assert_eq!(tree(&next), expected);
    assert_eq!((next.max_tokens, next.obstacle()), (Some(6), None));
}

#[test]
fn a_chat_goes_on_with_the_text_as_its_last_message() {
    let request = chat(json!({"max_completion_tokens": 5, "max_tokens": 8, "add_generation_prompt": true}));
    let next = request.continued(so_far(&[3, 4], "so \"far\"\n")).unwrap();
    let expected = json!({
        "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "so \"far\"\n"}],
        "stream": true, "max_completion_tokens": 3, "max_tokens": 6,
        "add_generation_prompt": false, "continue_final_message": true,
    });
    assert_eq!(tree(&next), expected);
    assert_eq!(next.obstacle(), None, "it may be continued again");
    let unbounded = chat(json!({})).continued(so_far(&[3], "x")).unwrap();
    assert_eq!((unbounded.max_tokens, tree(&unbounded).get("max_tokens")), (None, None));
}

#[test]
fn nothing_is_asked_for_behind_the_last_token() {
    let request = completion(json!({"max_tokens": 2}));
    assert_eq!(request.continued(so_far(&[1, 2], "ab")).unwrap_err(), Obstacle::NothingLeft);
    assert_eq!(request.continued(so_far(&[1], "a")).unwrap().max_tokens, Some(1));
}

#[test]
fn a_stop_text_that_may_have_begun_would_not_be_seen_whole() {
    let ends =
        |stop: Value, text: &str| completion(json!({"stop": stop})).continued(so_far(&[1], text)).err();
    for (stop, text) in [
        (json!("END"), "the E"),
        (json!("END"), "the EN"),
        (json!(["x", "é!"]), "caf\u{e9}"),
        (json!("aab"), "aa"),
        (json!(7), ""),
        (json!([7]), ""),
    ] {
        assert_eq!(ends(stop.clone(), text), Some(Obstacle::StopBegun), "{stop} {text}");
    }
    for (stop, text) in [
        (json!("END"), "the e"),
        (json!("END"), "EN "),
        (json!(null), "x"),
        (json!([]), "x"),
        (json!("x"), "x"),
        (json!(""), "x"),
    ] {
        assert_eq!(ends(stop.clone(), text), None, "{stop} {text}");
    }
}

proptest! {
    /// An occurrence in the whole text that the next engine does not see begins before the seam and ends behind it.
    #[test]
    fn a_continued_text_never_hides_a_stop(stop in "[ab]{1,4}", before in "[ab]{0,6}", after in "[ab]{0,6}") {
        let request = completion(json!({"stop": stop}));
        if !before.contains(&stop) && request.continued(so_far(&[1], &before)).is_ok() {
            let found = format!("{before}{after}").find(&stop);
            prop_assert_eq!(found, after.find(&stop).map(|at| before.len() + at));
        }
    }
}
