use kvroute_core::TokenId;
use proptest::prelude::*;

use super::*;
use crate::{PromptSynthesizer, SessionRequest, TokenRange};

const OPEN: &str =
    r#"{"id":"a","block_size":4,"hash_id_scope":"local","tool_tokens":5,"system_tokens":4,"requests":["#;

fn line(requests: &str) -> String {
    format!("{OPEN}{requests}]}}\n")
}

fn request(t: f64, input: u64, runs: &str) -> String {
    format!(r#"{{"t":{t},"type":"n","in":{input},"out":7,"api_time":2.5,"hash_runs":{runs}}}"#)
}

fn read(text: &str, options: SessionOptions) -> Result<SessionTrace, TraceError> {
    read_sessions(text.as_bytes(), &options)
}

fn plain(text: &str) -> SessionTrace {
    read(text, SessionOptions::default()).unwrap()
}

fn message(text: &str) -> String {
    read(text, SessionOptions::default()).unwrap_err().to_string()
}

fn ids(request: &SessionRequest) -> Vec<u64> {
    request.to_trace_request().blocks
}

fn shared(left: &[u64], right: &[u64]) -> usize {
    left.iter().zip(right).take_while(|(a, b)| a == b).count()
}

#[test]
fn a_request_waits_for_its_think_time_or_for_what_is_left_of_the_recorded_gap() {
    let think = request(9.0, 4, "[[1,1]]").replace("\"type\"", "\"think_time\":1.5,\"type\"");
    let text = line(&[request(0.0, 9, "[[1,2]]"), think, request(20.0, 4, "[[1,1]]")].join(","));
    let trace = plain(&text);
    assert_eq!(trace.block_size.get(), 4);
    let [session] = &trace.sessions[..] else { panic!("{trace:?}") };
    let pauses: Vec<_> = session.requests.iter().map(|request| request.pause.as_millis()).collect();
    assert_eq!(pauses, [0, 1500, 8500]);
    assert_eq!(session.requests[0].api_time, Some(std::time::Duration::from_millis(2500)));
    assert_eq!((session.requests[0].input.get(), session.requests[0].output.get()), (9, 7));
}

#[test]
fn ids_mean_the_same_within_a_session_and_nothing_outside() {
    let text = line(&format!("{},{}", request(0.0, 12, "[[1,3]]"), request(5.0, 17, "[[1,2],[9,2]]")));
    let trace = plain(&format!("{text}{text}"));
    let [first, second] = [0, 1].map(|session| ids(&trace.sessions[session].requests[0]));
    let later = ids(&trace.sessions[0].requests[1]);
    assert_eq!((shared(&first, &later), later.len()), (2, 4));
    assert_eq!(shared(&first, &second), 0);
    assert!(first.iter().all(|id| !second.contains(id)));
}

#[test]
fn a_shared_preamble_is_the_same_for_all_sessions_as_far_as_it_reaches() {
    let options = SessionOptions { shared_preamble: true, ..SessionOptions::default() };
    let short = line(&request(0.0, 7, "[[8,1]]"));
    let long = line(&request(0.0, 20, "[[1,1],[30,4]]"));
    let longer = long.replace("\"tool_tokens\":5", "\"tool_tokens\":8");
    let trace = read(&format!("{short}{long}{longer}{longer}"), options).unwrap();
    let prompts: Vec<_> = trace.sessions.iter().map(|session| ids(&session.requests[0])).collect();
    assert_eq!(prompts.iter().map(Vec::len).collect::<Vec<_>>(), [1, 5, 5, 5]);
    let cut_otherwise = read(&long.replace("[30,4]", "[30,1],[31,3]"), options).unwrap();
    let local = |request: &SessionRequest| ids(request).iter().map(|id| id % (1 << 32)).collect::<Vec<_>>();
    assert_eq!(local(&cut_otherwise.sessions[0].requests[0]), local(&trace.sessions[1].requests[0]));
    let shared = |left: usize, right: usize| shared(&prompts[left], &prompts[right]);
    assert_eq!((shared(0, 1), shared(1, 2), shared(2, 3)), (1, 2, 3));
}

#[test]
fn sub_agents_begin_behind_a_request_and_the_next_one_waits_for_the_last_of_them() {
    let agent = |end: f64, took: u64| {
        let inner = request(0.0, 5, "[[50,1]]");
        format!(r#"{{"t":{end},"type":"subagent","agent_id":"x","duration_ms":{took},"requests":[{inner}]}}"#)
    };
    let after = request(21.0, 4, "[[1,1]]").replace("\"type\"", "\"think_time\":18.5,\"type\"");
    let requests = [request(0.0, 4, "[[1,1]]"), agent(20.0, 17_000), agent(10.0, 7000), after];
    let session = plain(&line(&requests.join(","))).sessions.remove(0);
    let agents: Vec<_> = session
        .sub_agents
        .iter()
        .map(|agent| (agent.after, agent.pause.as_millis(), agent.requests.len()))
        .collect();
    assert_eq!(agents, [(1, 500, 1), (1, 500, 1)]);
    assert_eq!(session.requests[1].pause.as_millis(), 1000, "not the 18.5 s that the sub-agents took");
    assert_eq!(session.all_requests().count(), 4);
}

#[test]
fn sessions_are_left_out_whole_and_no_prompt_is_cut() {
    let [short, long] = [4, 8].map(|input| line(&request(0.0, input, &format!("[[1,{}]]", input / 4))));
    let text = format!("{long}{short}{short}{long}");
    let of = |max_sessions, max_isl: Option<u64>| {
        let max_isl = max_isl.map(Tokens::new);
        read(&text, SessionOptions { max_sessions, max_isl, ..SessionOptions::default() })
    };
    let counts = |trace: SessionTrace| (trace.sessions.len(), trace.dropped, trace.input().get());
    assert_eq!(counts(of(None, Some(4)).unwrap()), (2, 2, 8));
    assert_eq!(counts(of(Some(1), Some(7)).unwrap()), (1, 1, 4));
    assert_eq!(counts(of(Some(3), None).unwrap()), (3, 0, 16));
    assert_eq!(
        of(None, Some(3)).unwrap_err().to_string(),
        "all 4 sessions have prompts of more than 3 tokens; allow longer ones"
    );
}

#[test]
fn each_fault_names_its_line_its_request_and_what_is_wrong() {
    let good = line(&request(0.0, 9, "[[1,2]]"));
    let second = |line: &str| message(&format!("{good}{line}"));
    let replaced = |from: &str, to: &str| second(&good.replace(from, to));
    assert!(second("{oops").starts_with("line 2: not a session: key must be a string"));
    assert_eq!(
        replaced("\"block_size\":4", "\"block_size\":8"),
        "line 2: block_size is 8; it must be 4, as on the lines before"
    );
    assert!(
        replaced("\"block_size\":4", "\"block_size\":0").contains("block_size is 0; it must be the tokens")
    );
    assert!(replaced("local", "global").starts_with("line 2: hash_id_scope is `global`; only `local`"));
    assert!(second(&line("")).starts_with("line 2: requests is empty"));
    assert_eq!(replaced("\"in\":9,", ""), "line 2: request 1: `in` is missing");
    assert_eq!(replaced("\"t\":0,", ""), "line 2: request 1: `t` is missing");
    assert_eq!(replaced("\"n\"", "\"m\""), "line 2: request 1: type is `m`; it must be n, s or subagent");
    assert_eq!(
        replaced("2.5", "-2.5"),
        "line 2: request 1: api_time is -2.5; it must be a number of seconds from 0 on"
    );
    assert_eq!(
        replaced("\"in\":9", "\"in\":99999999"),
        "line 2: request 1: in is 99999999; a prompt has 1 to 16777216 tokens"
    );
    assert_eq!(
        replaced("[1,2]", "[1,3]"),
        "line 2: request 1: hash_runs has 3 ids, but a prompt of 9 tokens has 2 full blocks of 4 tokens, \
         the partial last one not counted"
    );
    assert!(replaced("[1,2]", "[4294967295,2]").contains("has id 4294967296; ids of a session are below"));
    assert!(replaced("[1,2]", "[1,2],[5000000000,0]").contains("has id 4999999999;"));
    let inner = format!(r#"{{"t":1,"type":"subagent","requests":[{}]}}"#, request(0.0, 0, "[]"));
    assert!(second(&line(&inner)).starts_with("line 2: request 1, its request 1: in is 0;"));
    let nested = inner.replace("\"n\"", "\"subagent\"");
    assert!(second(&line(&nested)).contains("a sub-agent inside a sub-agent is not understood"));
    assert!(message(" \n").starts_with("the trace holds no request; a line is {\"id\":"));
}

#[test]
fn the_shipped_sample_has_its_known_shape() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/kv-cache-tester-sessions-65.jsonl.gz");
    let trace = read_sessions_file(&sample, &SessionOptions::default()).unwrap();
    assert_eq!((trace.sessions.len(), trace.block_size.get()), (65, 64));
    // Counted over the file by other means than this reader.
    assert_eq!((trace.requests(), trace.input().get()), SAMPLE);
    let agents: usize = trace.sessions.iter().map(|session| session.sub_agents.len()).sum();
    assert_eq!(agents, 4);
    let options = SessionOptions { max_isl: Some(Tokens::new(65_536)), ..SessionOptions::default() };
    assert_eq!(read_sessions_file(&sample, &options).unwrap().dropped, 1);
}

const SAMPLE: (usize, u64) = (1060, 38_678_156);

proptest! {
    #[test]
    fn any_bytes_are_refused_or_become_sessions_that_can_be_replayed(
        mut bytes in prop::collection::vec(any::<u8>(), 0..40),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..4),
        shared_preamble in any::<bool>(),
    ) {
        let good = line(&format!("{},{}", request(0.0, 12, "[[1,3]]"), request(5.0, 17, "[[1,2],[9,2]]")));
        let mut text = good.into_bytes();
        for (from, to) in cuts {
            let (from, to) = (from.index(text.len()), to.index(text.len()));
            text.splice(from.min(to)..from.max(to).min(from.min(to) + 3), bytes.split_off(bytes.len() / 2));
        }
        let options = SessionOptions { shared_preamble, ..SessionOptions::default() };
        match read_sessions(text.as_slice(), &options) {
            Err(error) => prop_assert!(!error.to_string().is_empty()),
            Ok(trace) => check(&trace),
        }
    }
}

fn check(trace: &SessionTrace) {
    let synthesizer = PromptSynthesizer::new(trace.block_size, TokenRange::new(10..1000).unwrap(), 1);
    for request in trace.sessions.iter().flat_map(Session::all_requests) {
        let recorded = request.to_trace_request();
        let full = trace.block_size.complete_blocks(request.input).get();
        assert_eq!(recorded.blocks.len() as u64, full);
        let prompt: Vec<TokenId> = synthesizer.prompt(0, &recorded);
        assert_eq!(prompt.len() as u64, request.input.get());
    }
}
