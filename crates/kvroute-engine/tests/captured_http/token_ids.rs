//! Which engines give token ids when asked, and show where they would stand when not.

use kvroute_engine::EngineKind;
use kvroute_openai::Unasked;
use serde_json::Value;

use crate::captured_server::captured;

/// The choices of whole answers: those to a question for token ids, or all others.
fn choices(engine: &str, line: &str, asked: bool) -> Vec<Value> {
    let exchanges = captured(engine);
    let answers = exchanges.iter().filter_map(|exchange| exchange.body_to(line));
    let answers = answers.filter(|(request, _)| (request["return_token_ids"] == true) == asked);
    let parts = answers.filter_map(|(_, answer)| serde_json::from_str::<Value>(answer).ok());
    parts.flat_map(|part| part["choices"].as_array().cloned().unwrap_or_default()).collect()
}

#[test]
fn what_stands_in_the_place_of_token_ids_unasked_is_what_real_engines_write() {
    let engines =
        [("vllm", EngineKind::Vllm), ("sglang", EngineKind::Sglang), ("llamacpp", EngineKind::LlamaCpp)];
    for (name, kind) in engines {
        for line in ["POST /v1/chat/completions", "POST /v1/completions"] {
            let unasked = choices(name, line, false);
            assert!(unasked.len() >= 3, "{name}: {} choices", unasked.len());
            let expected = match kind.unasked_token_ids() {
                Unasked::Null => Some(&Value::Null),
                Unasked::Absent => None,
            };
            assert!(unasked.iter().all(|choice| choice.get("token_ids") == expected), "{name} {line}");
        }
    }
    let asked = choices("vllm", "POST /v1/chat/completions", true);
    assert!(EngineKind::Vllm.gives_token_ids() && !asked.is_empty());
    assert!(asked.iter().all(|choice| choice["token_ids"].is_array()));
}
