use super::*;
use crate::EngineKind;
use crate::fuzz::probe_answers;

fn probe_of(engine: EngineKind, answers: &[&str]) -> Probe {
    probe_answers(engine, answers.iter().map(|answer| answer.as_bytes())).unwrap()
}

fn vllm(model: &str) -> Probe {
    probe_of(EngineKind::Vllm, &[&format!(r#"{{"data":[{model}]}}"#)])
}

fn sglang(info: &str, loads: &str) -> Probe {
    probe_of(EngineKind::Sglang, &[r#"{"data":[{"id":"m","owned_by":"sglang"}]}"#, info, "", loads])
}

fn size(tokens: u32) -> Option<BlockSize> {
    Some(BlockSize::new(tokens).unwrap())
}

fn found(workers: &[(&str, &Probe, WorkerClaims)]) -> Vec<String> {
    let workers: Vec<_> =
        workers.iter().map(|(name, probe, told)| ComparedWorker { name, probe, told: *told }).collect();
    contradictions(&workers).iter().map(Contradiction::to_string).collect()
}

fn of_one(probe: &Probe, told: WorkerClaims) -> Vec<String> {
    found(&[("a", probe, told)])
}

fn between(left: &Probe, right: &Probe) -> Vec<String> {
    found(&[("a", left, WorkerClaims::default()), ("b", right, WorkerClaims::default())])
}

#[test]
fn everybody_who_tells_a_block_size_is_named() {
    let probe = sglang(r#"{"page_size":16,"kv_events":{"endpoint_port_base":1,"block_size":8}}"#, "");
    let told =
        WorkerClaims { block_size: size(32), block_size_in_events: size(16), ..WorkerClaims::default() };
    let expected = "block size: the configuration says 32 tokens, the engine says 16 tokens, \
                    the announcement of its events says 8 tokens, the event stream says 16 tokens";
    assert_eq!(of_one(&probe, told), [expected]);
    let probe = sglang(r#"{"page_size":16}"#, "");
    assert_eq!(of_one(&probe, WorkerClaims { block_size: size(16), ..told }), [""; 0]);
}

#[test]
fn a_block_size_that_is_only_assumed_contradicts_nobody() {
    let probe = probe_of(EngineKind::LlamaCpp, &[r#"{"data":[{"id":"m","owned_by":"llamacpp"}]}"#]);
    let told = WorkerClaims { block_size: size(64), ..WorkerClaims::default() };
    assert_eq!(of_one(&probe, told), [""; 0]);
}

#[test]
fn ranks_that_two_answers_tell_differently_are_named_with_their_paths() {
    let probe = sglang(r#"{"dp_size":2}"#, r#"{"loads":[{},{},{},{}]}"#);
    assert_eq!(
        of_one(&probe, WorkerClaims::default()),
        ["data-parallel ranks: /v1/loads says 4, /server_info says 2"]
    );
    let probe = sglang(r#"{"dp_size":2}"#, "");
    let told = WorkerClaims { dp_ranks: Some(4), ..WorkerClaims::default() };
    assert_eq!(of_one(&probe, told), ["data-parallel ranks: the configuration says 4, /server_info says 2"]);
    let told = WorkerClaims { dp_ranks: Some(2), ..WorkerClaims::default() };
    assert_eq!(of_one(&probe, told), [""; 0]);
}

#[test]
fn a_role_is_compared_with_what_the_engine_was_started_for() {
    let probe = sglang(r#"{"disaggregation_mode":"decode"}"#, "");
    let as_role = |role| WorkerClaims { role: Some(role), ..WorkerClaims::default() };
    let expected = "role: the configuration says aggregated, the engine says decode";
    assert_eq!(of_one(&probe, as_role(WorkerRole::Aggregated)), [expected]);
    assert_eq!(of_one(&probe, as_role(WorkerRole::Decode)), [""; 0]);
    assert_eq!(of_one(&vllm(r#"{"id":"m"}"#), as_role(WorkerRole::Decode)), [""; 0]);
}

#[test]
fn one_name_listed_twice_is_two_models() {
    let probe = vllm(r#"{"id":"m","root":"/m/large"},{"id":"m","root":"/m/sql","parent":"m"},{"id":"n"}"#);
    assert_eq!(
        of_one(&probe, WorkerClaims::default()),
        ["two models under one name of m: entry 1 says a model from \
         /m/large, entry 2 says an adapter of m from /m/sql"]
    );
}

#[test]
fn the_same_name_with_another_root_is_another_model() {
    let (left, right) =
        (vllm(r#"{"id":"m","root":"/a/qwen-4b"}"#), vllm(r#"{"id":"m","root":"/b/qwen-8b/"}"#));
    assert_eq!(
        between(&left, &right),
        ["two models under one name at two workers of m: a says /a/qwen-4b, b says /b/qwen-8b/"]
    );
    let elsewhere = vllm(r#"{"id":"m","root":"org/Qwen-4B"}"#);
    assert_eq!(between(&left, &elsewhere), [""; 0]);
    let nameless = vllm(r#"{"id":"m"}"#);
    assert_eq!(between(&left, &nameless), [""; 0]);
    let other_engine =
        probe_of(EngineKind::Sglang, &[r#"{"data":[{"id":"m","owned_by":"sglang","root":"m"}]}"#]);
    assert_eq!(between(&left, &other_engine), [""; 0]);
}

#[test]
fn contexts_and_vocabularies_are_compared_where_both_tell() {
    let (left, right) =
        (vllm(r#"{"id":"m","max_model_len":4096}"#), vllm(r#"{"id":"m","max_model_len":2048}"#));
    assert_eq!(between(&left, &right), ["context length of m: a says 4096 tokens, b says 2048 tokens"]);
    assert_eq!(between(&left, &vllm(r#"{"id":"m"}"#)), [""; 0]);
    assert_eq!(between(&left, &vllm(r#"{"id":"n","max_model_len":2048}"#)), [""; 0]);
    let llama = |ids: u32| vllm(&format!(r#"{{"id":"m","meta":{{"n_vocab":{ids}}}}}"#));
    assert_eq!(
        between(&llama(32_000), &llama(151_936)),
        ["size of the vocabulary of m: a says 32000 ids, b says 151936 ids"]
    );
}

#[test]
fn workers_are_named_once_each_with_what_is_wrong() {
    let (left, right) =
        (vllm(r#"{"id":"m","max_model_len":4096}"#), vllm(r#"{"id":"m","max_model_len":2048}"#));
    let workers = [("a", &left), ("b", &right), ("c", &left)].map(|(name, probe)| ComparedWorker {
        name,
        probe,
        told: WorkerClaims::default(),
    });
    let [contradiction] = &contradictions(&workers)[..] else { panic!() };
    assert_eq!(contradiction.workers, ["a", "b", "c"]);
    assert_eq!(contradiction.kind, ContradictionKind::ContextLength);
    assert!(contradiction.kind.remedy().contains("same context length"));
}
