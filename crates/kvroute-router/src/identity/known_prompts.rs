//! Prompts that a worker's engine is asked about when it joins: ordinary ones, so that a difference is no corner case.

use bytes::Bytes;
use kvroute_openai::{ClientRequest, Endpoint, Prompt};

/// Text with words, numbers, spaces and letters beyond ASCII.
const TEXTS: [&str; 2] = [
    r#"{"prompt":"The quick brown fox jumps over 13 lazy dogs,  twice: 3.14 and 2,718.\n\tEnd."}"#,
    r#"{"prompt":"Grüße aus Köln – привет, 世界! def f(x):\n    return x ** 2"}"#,
];

/// A system message, and a conversation of some turns.
const CHATS: [&str; 2] = [
    r#"{"messages":[{"role":"system","content":"You answer briefly."},{"role":"user","content":"What is 2 + 2?"}]}"#,
    r#"{"messages":[{"role":"user","content":"Name a colour."},{"role":"assistant","content":"Blue."},{"role":"user","content":"Another one, please."}]}"#,
];

/// A tool as most clients write it.
const TOOLS: [&str; 1] = [
    r#"{"messages":[{"role":"user","content":"Weather in Paris?"}],"tools":[{"type":"function","function":{"name":"get_weather","description":"Current weather of a city","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}]}"#,
];

/// Every prompt, the plainest first.
pub(super) fn all() -> impl Iterator<Item = Prompt> {
    let texts = TEXTS.iter().map(|body| (Endpoint::Completions, *body));
    let chats = CHATS.iter().chain(&TOOLS).map(|body| (Endpoint::ChatCompletions, *body));
    let parsed = texts
        .chain(chats)
        .map(|(endpoint, body)| ClientRequest::parse(endpoint, Bytes::from_static(body.as_bytes())));
    parsed.filter_map(|request| request.ok().map(|request| request.prompt))
}

#[cfg(test)]
mod tests {
    use super::super::evidence::PromptKind;
    use super::*;

    #[test]
    fn every_kind_of_prompt_is_among_them() {
        let kinds: Vec<_> = all().filter_map(|prompt| PromptKind::of(&prompt)).collect();
        let times = |kind| kinds.iter().filter(|known| **known == kind).count();
        assert_eq!(PromptKind::ALL.map(times), [TEXTS.len(), CHATS.len(), TOOLS.len()]);
    }
}
