//! What the two workers of a request are told beyond what the client says, in each engine's own words.

use kvroute_engine::Handoff;
use kvroute_openai::{member_of, member_of_first_choice};
use serde_json::{Map, Value};

use crate::route::Member;

/// vLLM: keep the KV of this prompt for somebody else.
const KEEP_FOR_ANOTHER: &str = r#"{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null}"#;

/// TensorRT-LLM: only the context.
const CONTEXT_ONLY: &str = r#"{"request_type":"context_only"}"#;

const KV_TRANSFER: &str = "kv_transfer_params";
const DISAGGREGATED: &str = "disaggregated_params";

/// Where two workers of SGLang meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Meeting<'a> {
    /// Host of the prefill worker.
    pub(super) host: &'a str,
    /// Its bootstrap port.
    pub(super) port: u16,
    /// One for each request.
    pub(super) room: u64,
    /// The prefill worker's rank, where it has several.
    pub(super) dp_rank: Option<u32>,
}

/// What a prefill worker is told whose answer tells the rest: to compute the prompt, answer at once, and keep the KV.
/// What belongs to streams and to more than one token would be refused beside that.
pub(super) fn prefill(handoff: Option<Handoff>) -> Vec<Member> {
    let mut members = whole_answer();
    let said = match handoff {
        Some(Handoff::KvTransferParams) => (KV_TRANSFER, KEEP_FOR_ANOTHER),
        Some(Handoff::DisaggregatedParams) => (DISAGGREGATED, CONTEXT_ONLY),
        Some(Handoff::Bootstrap) | None => return members,
    };
    members.extend([
        ("max_tokens", Some("1".to_owned())),
        ("max_completion_tokens", None),
        ("min_tokens", None),
    ]);
    members.push((said.0, Some(said.1.to_owned())));
    members
}

/// What a decode worker is told after such an answer; `None` where the answer says nothing that could be passed on.
pub(super) fn decode(handoff: Option<Handoff>, answer: &[u8]) -> Option<Vec<Member>> {
    match handoff? {
        Handoff::KvTransferParams => {
            let said = member_of(answer, KV_TRANSFER).filter(|json| json.starts_with('{'))?;
            Some(vec![(KV_TRANSFER, Some(said.to_owned()))])
        }
        Handoff::DisaggregatedParams => {
            let said =
                member_of(answer, DISAGGREGATED).or_else(|| member_of_first_choice(answer, DISAGGREGATED))?;
            let mut params: Map<String, Value> = serde_json::from_str(said).ok()?;
            params.insert("request_type".to_owned(), Value::from("generation_only"));
            Some(vec![(DISAGGREGATED, Some(Value::Object(params).to_string()))])
        }
        Handoff::Bootstrap => Some(Vec::new()),
    }
}

/// What a prefill worker is told that meets the decode worker: the id makes it possible to call it off.
pub(super) fn meeting_prefill(meeting: &Meeting<'_>, id: &str) -> Vec<Member> {
    let mut members = whole_answer();
    members.extend(meeting_place(meeting));
    members.push(("rid", Some(Value::from(id).to_string())));
    members
}

/// What the decode worker is told that meets it.
pub(super) fn meeting_decode(meeting: &Meeting<'_>) -> Vec<Member> {
    let mut members = meeting_place(meeting);
    members.extend(meeting.dp_rank.map(|rank| ("disagg_prefill_dp_rank", Some(rank.to_string()))));
    members
}

fn meeting_place(meeting: &Meeting<'_>) -> Vec<Member> {
    vec![
        ("bootstrap_host", Some(Value::from(meeting.host).to_string())),
        ("bootstrap_port", Some(meeting.port.to_string())),
        ("bootstrap_room", Some(meeting.room.to_string())),
    ]
}

fn whole_answer() -> Vec<Member> {
    vec![("stream", Some("false".to_owned())), ("stream_options", None)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(members: &[Member], name: &str) -> Option<String> {
        members.iter().find(|(known, _)| *known == name).and_then(|(_, json)| json.clone())
    }

    #[test]
    fn what_vllm_says_of_its_kv_is_passed_on_as_it_came() {
        let said = r#"{"do_remote_prefill":true, "remote_block_ids":[[1,2]],"remote_port":5600,"x":1.50}"#;
        let answer = format!(r#"{{"id":"a","kv_transfer_params":{said}}}"#);
        let members = decode(Some(Handoff::KvTransferParams), answer.as_bytes()).unwrap();
        assert_eq!(members, [(KV_TRANSFER, Some(said.to_owned()))]);
        for nothing in [r#"{"kv_transfer_params":null}"#, r#"{"id":"a"}"#, "no json"] {
            assert_eq!(decode(Some(Handoff::KvTransferParams), nothing.as_bytes()), None, "{nothing}");
        }
    }

    #[test]
    fn what_tensorrt_llm_says_stands_in_its_first_choice_and_asks_for_the_generation() {
        let answer = r#"{"choices":[{"disaggregated_params":{"request_type":"context_only","ctx_request_id":18446744073709551615}}]}"#;
        let members = decode(Some(Handoff::DisaggregatedParams), answer.as_bytes()).unwrap();
        let said = json(&members, DISAGGREGATED).unwrap();
        assert_eq!(said, r#"{"request_type":"generation_only","ctx_request_id":18446744073709551615}"#);
        assert_eq!(decode(Some(Handoff::DisaggregatedParams), br#"{"choices":[]}"#), None);
    }

    #[test]
    fn a_prefill_is_asked_for_one_token_and_no_stream() {
        for handoff in [Handoff::KvTransferParams, Handoff::DisaggregatedParams] {
            let members = prefill(Some(handoff));
            assert_eq!(json(&members, "stream").as_deref(), Some("false"));
            assert_eq!(json(&members, "max_tokens").as_deref(), Some("1"));
            for absent in ["stream_options", "max_completion_tokens", "min_tokens"] {
                assert!(members.contains(&(absent, None)), "{absent}");
            }
        }
    }

    #[test]
    fn both_are_told_the_same_place() {
        let meeting = Meeting { host: "::1", port: 8998, room: 6, dp_rank: Some(2) };
        let [prefill, decode] = [meeting_prefill(&meeting, "a-\"b"), meeting_decode(&meeting)];
        for name in ["bootstrap_host", "bootstrap_port", "bootstrap_room"] {
            assert!(json(&prefill, name).is_some() && json(&prefill, name) == json(&decode, name), "{name}");
        }
        assert_eq!(json(&prefill, "rid").as_deref(), Some(r#""a-\"b""#));
        assert_eq!(json(&decode, "disagg_prefill_dp_rank").as_deref(), Some("2"));
        assert_eq!(json(&decode, "rid"), None, "the client knows the answer by its own id");
    }
}
