//! The rows: what is sent, and what comes of it.

use kvroute_sim::{Faults, Incident};
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";

/// More than a few blocks of 16 tokens.
const QUESTION: &str = "Why is the sky blue, and why is the sea blue? Tell it in simple words, with an example for \
    each, and say how sure you are of it. Then tell me what color the sky has in the evening, and why the light of \
    the sun is yellow when it stands high and red when it stands low above the water.";

/// One row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) path: &'static str,
    /// The request.
    pub(crate) body: fn() -> Value,
    /// What goes wrong meanwhile.
    pub(crate) faults: fn() -> Faults,
    /// What happens to the engine before.
    pub(crate) before: Option<Incident>,
    pub(crate) end: End,
}

/// How a request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Answered to the end.
    Answered,
    /// The client leaves after the first piece.
    Left,
    /// Refused with this status.
    Refused(u16),
}

const QUIET: fn() -> Faults = Faults::default;

// === impl Scenario ===

impl Scenario {
    /// Every row. Most are played twice, so that there is something to reuse.
    pub(crate) const ALL: [Self; 15] = [
        Self::answered("chat", CHAT, || chat(&json!({}))),
        Self::answered("chat, streamed", CHAT, || chat(&json!({ "stream": true }))),
        Self::answered("chat, streamed, with usage", CHAT, || {
            chat(&json!({ "stream": true, "stream_options": { "include_usage": true } }))
        }),
        Self::answered("chat, two answers", CHAT, || chat(&json!({ "n": 2 }))),
        Self::answered("chat, two answers, streamed", CHAT, || chat(&json!({ "n": 2, "stream": true }))),
        Self { faults: tool_calls, ..Self::answered("tools", CHAT, || chat(&tools(false))) },
        Self { faults: tool_calls, ..Self::answered("tools, streamed", CHAT, || chat(&tools(true))) },
        Self::answered("completion", COMPLETIONS, || completion(&json!({}))),
        Self::answered("completion, streamed", COMPLETIONS, || completion(&json!({ "stream": true }))),
        Self {
            end: End::Left,
            ..Self::answered("client leaves in mid stream", COMPLETIONS, || {
                completion(&json!({ "stream": true, "max_tokens": 1500, "prompt": ids(7) }))
            })
        },
        Self::refused("client's fault", 400, || chat(&json!({ "temperature": -1 })), QUIET),
        Self::refused("engine's fault", 503, || chat(&json!({})), || refusing(503)),
        Self::refused("engine's fault, streamed", 500, || chat(&json!({ "stream": true })), || refusing(500)),
        Self::refused("prompt too long", 400, || chat(&json!({ "messages": endless() })), QUIET),
        Self {
            before: Some(Incident::Restart),
            ..Self::answered("engine restarts", CHAT, || chat(&json!({ "stream": true })))
        },
    ];

    const fn answered(name: &'static str, path: &'static str, body: fn() -> Value) -> Self {
        Self { name, path, body, faults: QUIET, before: None, end: End::Answered }
    }

    const fn refused(name: &'static str, status: u16, body: fn() -> Value, faults: fn() -> Faults) -> Self {
        Self { name, path: CHAT, body, faults, before: None, end: End::Refused(status) }
    }
}

fn tool_calls() -> Faults {
    Faults { tool_calls: true, ..Faults::default() }
}

fn refusing(status: u16) -> Faults {
    Faults { refuse_status: Some(status), ..Faults::default() }
}

fn chat(more: &Value) -> Value {
    let messages = json!([{ "role": "user", "content": QUESTION }]);
    with(json!({ "model": "sim", "messages": messages, "max_tokens": 20 }), more)
}

fn completion(more: &Value) -> Value {
    with(json!({ "model": "sim", "prompt": ids(1), "max_tokens": 20 }), more)
}

fn tools(stream: bool) -> Value {
    let parameters = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    let function = json!({ "name": "weather", "description": "Tells the weather", "parameters": parameters });
    json!({ "stream": stream, "tools": [{ "type": "function", "function": function }] })
}

fn endless() -> Value {
    json!([{ "role": "user", "content": QUESTION.repeat(100) }])
}

/// Token ids that share no block with those of another number.
fn ids(number: u32) -> Vec<u32> {
    (0..100).map(|position| 300 + (number * 7919 + position * (2 * number + 1)) % 1_500).collect()
}

fn with(mut body: Value, more: &Value) -> Value {
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}
