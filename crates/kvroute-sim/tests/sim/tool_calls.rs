//! Chats that are answered by a call of a tool.

use kvroute_sim::{Faults, Flavour, SimConfig};
use serde_json::{Value, json};

use crate::http::{CHAT, post, start};

fn body(stream: bool) -> Value {
    json!({
        "model": "sim", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4, "stream": stream, "n": 2,
        "tools": [{"type": "function", "function": {"name": "say", "parameters": {}}}],
    })
}

/// Name and arguments of each choice's call, and why it ended.
fn whole(answer: &Value) -> Vec<(String, String, String)> {
    let choices = answer["choices"].as_array().unwrap().iter();
    let told = |choice: &Value| {
        let function = &choice["message"]["tool_calls"][0]["function"];
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (text(&function["name"]), text(&function["arguments"]), text(&choice["finish_reason"]))
    };
    choices.map(told).collect()
}

fn streamed(events: &[String]) -> Vec<(String, String, String)> {
    let mut told = vec![(String::new(), String::new(), String::new()); 2];
    for event in events.iter().filter_map(|event| serde_json::from_str::<Value>(event).ok()) {
        let choice = &event["choices"][0];
        let (name, arguments, finish) = &mut told[choice["index"].as_u64().unwrap() as usize];
        let call = &choice["delta"]["tool_calls"][0];
        name.push_str(call["function"]["name"].as_str().unwrap_or_default());
        arguments.push_str(call["function"]["arguments"].as_str().unwrap_or_default());
        finish.push_str(choice["finish_reason"].as_str().unwrap_or_default());
    }
    told
}

#[tokio::test]
async fn a_call_is_the_same_whole_and_streamed_in_every_flavour() {
    for flavour in Flavour::ALL {
        let engine = start(SimConfig { flavour, ..SimConfig::default() }).await;
        assert!(
            post(&engine, CHAT, &body(false)).await.json()["choices"][0]["message"]["content"].is_string()
        );
        engine.set_faults(Faults { tool_calls: true, ..Faults::default() }).await.unwrap();
        let whole = whole(&post(&engine, CHAT, &body(false)).await.json());
        assert_eq!(streamed(&post(&engine, CHAT, &body(true)).await.events()), whole, "{flavour}");
        for (name, arguments, finish) in &whole {
            assert_eq!((name.as_str(), finish.as_str()), ("say", "tool_calls"), "{flavour}");
            let arguments: Value = serde_json::from_str(arguments).unwrap();
            assert_eq!(arguments["words"].as_str().unwrap().split_whitespace().count(), 4, "{flavour}");
        }
        assert_ne!(whole[0].1, whole[1].1);
        engine.stop().await;
    }
}
