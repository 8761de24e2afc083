use bytes::Bytes;
use http::Response;

use super::*;

const BOTH: Injected = Injected { usage: true, token_ids: true };
const USAGE_ALONE: Injected = Injected { usage: true, token_ids: false };
const IDS_ALONE: Injected = Injected { usage: false, token_ids: true };
const NOTHING: Injected = Injected { usage: false, token_ids: false };

fn answer(status: u16, text: &'static str) -> Answer {
    let (head, ()) = Response::builder().status(status).body(()).unwrap().into_parts();
    Answer::Whole(head, Bytes::from(text))
}

#[test]
fn the_question_that_a_refusal_names_is_taken_back() {
    for (text, left) in [
        ("unknown field: Return_Token_Ids", USAGE_ALONE),
        ("stream_options is not supported", IDS_ALONE),
        ("no include_usage, please", IDS_ALONE),
        ("extra: stream_options, return_token_ids", NOTHING),
        ("extra inputs: return_token_ids", USAGE_ALONE),
    ] {
        for status in [400, 422] {
            assert_eq!(BOTH.without_refused(&answer(status, text)), Some(left), "{status} {text}");
        }
    }
}

#[test]
fn an_engine_that_names_nothing_is_asked_without_one_after_the_other() {
    let refusal = answer(422, "extra_forbidden");
    let steps = [BOTH, USAGE_ALONE, NOTHING].map(|injected| injected.without_refused(&refusal));
    assert_eq!(steps, [Some(USAGE_ALONE), Some(NOTHING), None]);
    assert_eq!(IDS_ALONE.without_refused(&answer(400, "unexpected keyword")), Some(NOTHING));
}

#[test]
fn what_the_client_itself_asked_is_its_own_affair() {
    assert_eq!(IDS_ALONE.without_refused(&answer(400, "stream_options is not supported")), None);
    assert_eq!(USAGE_ALONE.without_refused(&answer(400, "return_token_ids is not supported")), None);
    for (status, text) in
        [(400, "prompt is too long"), (404, "no return_token_ids here"), (200, "extra"), (500, "extra")]
    {
        assert_eq!(BOTH.without_refused(&answer(status, text)), None, "{status} {text}");
    }
}
