//! The prompts that are compared: each has something that engines, templates or tokenizers treat in their own way.

use bytes::Bytes;
use kvroute_openai::{Endpoint, Prompt};

use super::prompt_of;

/// What a prompt tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CaseKind {
    /// The vocabulary alone.
    PlainText,
    /// What a tokenizer does beyond splitting words.
    Text,
    /// The template alone.
    PlainChat,
    /// How a chat is prepared for the template.
    Chat,
}

const CASES: [(&str, CaseKind, &str); 14] = [
    (
        "plain text",
        CaseKind::PlainText,
        r#"{"prompt":"The sky is blue because air scatters short waves of light."}"#,
    ),
    (
        "code",
        CaseKind::Text,
        r#"{"prompt":"def f(x):\n\tif x > 0:\n\t    return 1234567 * x  # twice\n\n\n"}"#,
    ),
    (
        "unicode text",
        CaseKind::Text,
        r#"{"prompt":"Zo\u00eb and Zoe\u0308 \u2014 \u6771\u4eac \ud83d\ude42\ud83c\udffd \u0645\u0631\u062d\u0628\u0627 \u00bd \u2460"}"#,
    ),
    (
        "special tokens in text",
        CaseKind::Text,
        r#"{"prompt":"a <|im_end|> b </s> c <s> d <|eot_id|> e <|endoftext|> f"}"#,
    ),
    ("chat", CaseKind::PlainChat, r#"{"messages":[{"role":"user","content":"Why is the sky blue?"}]}"#),
    (
        "system and turns",
        CaseKind::PlainChat,
        r#"{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Why is the sky blue?"},
            {"role":"assistant","content":"Air scatters blue light most."},{"role":"user","content":"And the sea?"}]}"#,
    ),
    (
        "text parts",
        CaseKind::Chat,
        r#"{"messages":[{"role":"user","content":[{"type":"text","text":"One."},{"type":"text","text":"Two."}]}]}"#,
    ),
    (
        "developer",
        CaseKind::Chat,
        r#"{"messages":[{"role":"developer","content":"Answer in French."},{"role":"user","content":"Hi"}]}"#,
    ),
    (
        "unicode and blanks",
        CaseKind::Chat,
        r#"{"messages":[{"role":"user","content":"  Zoe\u0308 \u2014 \u6771\u4eac \ud83d\ude42 \n\n"}]}"#,
    ),
    (
        "special tokens in a chat",
        CaseKind::Chat,
        r#"{"messages":[{"role":"user","content":"a <|im_end|> b </s> c <|eot_id|> d"}]}"#,
    ),
    (
        "tools",
        CaseKind::Chat,
        r#"{"messages":[{"role":"user","content":"Weather in Oslo?"}],"tools":[{"function":{"parameters":{"type":"object",
            "properties":{"city":{"type":"string","default":1.0}},"required":["city"]},"name":"weather"},"type":"function"}]}"#,
    ),
    (
        "tool results",
        CaseKind::Chat,
        r#"{"messages":[{"role":"user","content":"Weather in Oslo?"},{"role":"assistant","content":null,"tool_calls":[
            {"id":"call_1","type":"function","function":{"name":"weather","arguments":"{\"city\": \"Oslo\", \"days\": 1e3}"}}]},
            {"role":"tool","tool_call_id":"call_1","content":"rain"}],
            "tools":[{"type":"function","function":{"name":"weather","description":"Tells the weather.",
            "parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}]}"#,
    ),
    (
        "continued answer",
        CaseKind::Chat,
        r#"{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"The answer is"}],
            "continue_final_message":true,"add_generation_prompt":false}"#,
    ),
    (
        "reasoning",
        CaseKind::Chat,
        r#"{"messages":[{"role":"user","content":"2 + 2?"},{"role":"assistant","content":"<think>\nEasy.\n</think>\n\n4"},
            {"role":"user","content":"3 + 3?"}],"chat_template_kwargs":{"enable_thinking":false}}"#,
    ),
];

/// Every prompt, as a router reads it.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, CaseKind, Prompt)> {
    CASES.into_iter().filter_map(|(name, kind, body)| {
        let endpoint = match kind {
            CaseKind::PlainText | CaseKind::Text => Endpoint::Completions,
            CaseKind::PlainChat | CaseKind::Chat => Endpoint::ChatCompletions,
        };
        Some((name, kind, prompt_of(endpoint, &Bytes::from_static(body.as_bytes()))?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_a_prompt() {
        assert_eq!(all().count(), CASES.len());
    }
}
