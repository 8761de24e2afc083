//! Chats of every form that clients send, as bodies of requests.

use serde_json::{Map, Value, json};

use crate::random::Dice;
use crate::texts::{known_text, text};

/// A body of `/v1/chat/completions`.
pub(crate) fn chat(dice: &mut Dice) -> Value {
    let mut body = json!({"model": "m", "messages": messages(dice)});
    let ends_with_assistant = body["messages"].as_array().unwrap().last().unwrap()["role"] == "assistant";
    if dice.chance(40) {
        body["tools"] = (0..=dice.below(3)).map(|_| tool(dice)).collect();
    }
    if dice.chance(10) {
        body["documents"] = json!([{"title": known_text(dice, 2), "text": known_text(dice, 6)}]);
    }
    if dice.chance(30) {
        body["chat_template_kwargs"] = arguments(dice);
    }
    if ends_with_assistant && dice.chance(50) {
        body["continue_final_message"] = json!(true);
        body["add_generation_prompt"] = json!(false);
    } else if dice.chance(20) {
        body["add_generation_prompt"] = json!(false);
    }
    body
}

fn messages(dice: &mut Dice) -> Vec<Value> {
    let mut messages = Vec::new();
    if dice.chance(40) {
        messages.push(json!({"role": "system", "content": content(dice)}));
    }
    for _ in 0..=dice.below(4) {
        messages.push(json!({"role": "user", "content": content(dice)}));
        if dice.chance(80) {
            assistant_turn(dice, &mut messages);
        }
    }
    if dice.chance(60) {
        messages.push(json!({"role": "user", "content": content(dice)}));
    }
    messages
}

fn assistant_turn(dice: &mut Dice, messages: &mut Vec<Value>) {
    let mut message = json!({"role": "assistant", "content": content(dice)});
    if dice.chance(20) {
        message["content"] = json!(format!("<think>\n{}\n</think>\n\n{}", text(dice, 4), text(dice, 6)));
    }
    if dice.chance(25) {
        message["reasoning_content"] = json!(text(dice, 8));
    }
    let calls = if dice.chance(30) { dice.below(3) + 1 } else { 0 };
    if calls > 0 {
        message["tool_calls"] = (0..calls).map(|index| call(dice, index)).collect();
        if dice.chance(40) {
            message["content"] = Value::Null;
        }
    }
    messages.push(message);
    for index in 0..calls {
        messages.push(
            json!({"role": "tool", "tool_call_id": format!("call{index:05}"), "content": content(dice)}),
        );
    }
}

fn call(dice: &mut Dice, index: usize) -> Value {
    let arguments = object(dice, 2);
    let written = if dice.chance(70) { Value::String(arguments.to_string()) } else { arguments };
    json!({
        "id": format!("call{index:05}"), "type": "function",
        "function": {"name": name(dice), "arguments": written}
    })
}

fn content(dice: &mut Dice) -> Value {
    if dice.chance(85) {
        return Value::String(text(dice, 14));
    }
    (0..=dice.below(3)).map(|_| json!({"type": "text", "text": known_text(dice, 8)})).collect()
}

fn tool(dice: &mut Dice) -> Value {
    let mut function = Map::new();
    let mut members = vec![
        ("name", Value::String(name(dice))),
        ("description", Value::String(known_text(dice, 6))),
        ("parameters", json!({"type": "object", "properties": properties(dice), "required": [name(dice)]})),
    ];
    if dice.chance(20) {
        members.push(("strict", json!(dice.chance(50))));
    }
    while !members.is_empty() {
        let place = if dice.chance(70) { 0 } else { dice.below(members.len()) };
        let (key, value) = members.remove(place);
        function.insert(key.to_owned(), value);
    }
    if dice.chance(50) {
        json!({"type": "function", "function": function})
    } else {
        json!({"function": function, "type": "function"})
    }
}

fn properties(dice: &mut Dice) -> Value {
    let kinds = ["string", "integer", "number", "boolean", "array", "object"];
    let properties = (0..dice.below(4)).map(|_| {
        let mut schema = json!({"type": *dice.pick(&kinds.each_ref())});
        if dice.chance(50) {
            schema["description"] = Value::String(known_text(dice, 4));
        }
        if dice.chance(30) {
            schema["enum"] = json!([known_text(dice, 1), known_text(dice, 1)]);
        }
        if dice.chance(30) {
            schema["default"] = [json!(1.5), json!(7), json!(true), Value::String(known_text(dice, 3))]
                [dice.below(4)]
            .clone();
        }
        (name(dice), schema)
    });
    Value::Object(properties.collect())
}

fn arguments(dice: &mut Dice) -> Value {
    let mut arguments = json!({});
    for name in ["enable_thinking", "thinking", "keep_past_thinking"] {
        if dice.chance(40) {
            arguments[name] = json!(dice.chance(50));
        }
    }
    arguments
}

fn object(dice: &mut Dice, depth: usize) -> Value {
    Value::Object((0..dice.below(4)).map(|_| (name(dice), value(dice, depth))).collect())
}

fn value(dice: &mut Dice, depth: usize) -> Value {
    match dice.below(if depth == 0 { 3 } else { 5 }) {
        3 => object(dice, depth - 1),
        4 => (0..dice.below(3)).map(|_| value(dice, depth - 1)).collect(),
        _ => leaf(dice),
    }
}

fn leaf(dice: &mut Dice) -> Value {
    match dice.below(8) {
        0 => Value::Null,
        1 => json!(dice.chance(50)),
        2 => json!(dice.below(1000)),
        3 => json!(-1.5e-7),
        4 => json!([1.0, 1e16, 0.1, 123_456_789_012_345_680.0][dice.below(4)]),
        5 => json!(u64::MAX),
        _ => Value::String(known_text(dice, 3)),
    }
}

fn name(dice: &mut Dice) -> String {
    let names = ["get_weather", "city", "days", "zz", "a", "é", "count", "list-files", "Größe", "x_1"];
    names[dice.below(names.len())].to_owned()
}
