//! Conversations of `/v1/responses` and `/v1/messages`, made into the chat that the engine computes.
//!
//! vLLM serves both by its chat endpoint, so what they compute is what a chat of the same words computes. Only text is
//! taken: tools and images are refused by name.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use kvroute_openai::Endpoint;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::ApiError;

/// The messages of a chat.
pub(super) type Messages = Vec<Value>;

/// Conversations that responses can continue, as many as are kept.
#[derive(Debug, Default)]
pub(super) struct ResponseStore(Mutex<Stored>);

#[derive(Debug, Default)]
struct Stored {
    conversations: HashMap<String, Arc<Messages>>,
    /// The oldest first.
    order: VecDeque<String>,
}

/// A request of one of the two, as far as it is simulated.
#[derive(Debug, Default, Deserialize)]
struct Foreign {
    model: Option<Value>,
    input: Option<Value>,
    instructions: Option<String>,
    messages: Option<Messages>,
    system: Option<Value>,
    stream: Option<Value>,
    max_output_tokens: Option<Value>,
    max_tokens: Option<Value>,
    temperature: Option<Value>,
    cache_salt: Option<Value>,
    previous_response_id: Option<String>,
    store: Option<bool>,
}

/// A request made into a chat.
#[derive(Debug)]
pub(super) struct Converted {
    /// The body of the chat.
    pub(super) chat: Bytes,
    /// Its messages, where the answer is to be kept with them.
    pub(super) kept: Option<Messages>,
    /// The response that it continues.
    pub(super) previous: Option<String>,
}

/// Conversations that are kept.
const KEPT: usize = 1024;

// === impl ResponseStore ===

impl ResponseStore {
    /// Keeps a conversation with its answer.
    pub(super) fn keep(&self, id: &str, mut messages: Messages, answer: &str) {
        messages.push(json!({"role": "assistant", "content": answer}));
        let mut stored = self.0.lock();
        stored.order.push_back(id.to_owned());
        stored.conversations.insert(id.to_owned(), Arc::new(messages));
        if stored.order.len() > KEPT
            && let Some(oldest) = stored.order.pop_front()
        {
            stored.conversations.remove(&oldest);
        }
    }

    fn find(&self, id: &str) -> Result<Arc<Messages>, ApiError> {
        self.0.lock().conversations.get(id).cloned().ok_or_else(|| ApiError::unknown_response(id))
    }
}

// === impl Converted ===

impl Converted {
    /// Makes a chat of a request's body.
    pub(super) fn read(endpoint: Endpoint, body: &[u8], store: &ResponseStore) -> Result<Self, ApiError> {
        let foreign: Foreign = serde_json::from_slice(body)?;
        match endpoint {
            Endpoint::Messages => foreign.into_message(),
            _ => foreign.into_response(store),
        }
    }
}

// === impl Foreign ===

impl Foreign {
    fn into_message(self) -> Result<Converted, ApiError> {
        let required = |name: &str| ApiError::validation(format!("body.{name}"), "Field required");
        let Some(given) = &self.messages else { return Err(required("messages")) };
        let Some(max_tokens) = self.max_tokens.clone() else { return Err(required("max_tokens")) };
        let system = self.system.as_ref().map(|content| message("system", content)).transpose()?;
        let rest = given.iter().map(chat_message);
        let messages = system.map(Ok).into_iter().chain(rest).collect::<Result<Messages, ApiError>>()?;
        let chat = self.chat(&messages, Some(max_tokens));
        Ok(Converted { chat, kept: None, previous: None })
    }

    fn into_response(mut self, store: &ResponseStore) -> Result<Converted, ApiError> {
        let Some(input) = self.input.take() else {
            return Err(ApiError::validation(String::from("body.input"), "Field required"));
        };
        let mut messages = Messages::new();
        let instructions = self.instructions.take();
        messages.extend(instructions.map(|text| json!({"role": "system", "content": text})));
        if let Some(previous) = &self.previous_response_id {
            let earlier = store.find(previous)?;
            // The instructions of an earlier response do not carry over.
            messages.extend(earlier.iter().filter(|message| message["role"] != "system").cloned());
        }
        match input {
            Value::Array(items) => {
                messages.extend(items.iter().map(chat_message).collect::<Result<Messages, ApiError>>()?);
            }
            text => messages.push(message("user", &text)?),
        }
        let chat = self.chat(&messages, self.max_output_tokens.clone());
        let kept = self.store.unwrap_or(true).then_some(messages);
        Ok(Converted { chat, kept, previous: self.previous_response_id })
    }

    /// The chat with the fields that both APIs share.
    fn chat(&self, messages: &Messages, max_tokens: Option<Value>) -> Bytes {
        let mut chat = json!({ "messages": messages });
        let fields = [
            ("model", self.model.clone()),
            ("stream", self.stream.clone()),
            ("max_tokens", max_tokens),
            ("temperature", self.temperature.clone()),
            ("cache_salt", self.cache_salt.clone()),
        ];
        for (name, value) in fields {
            if let Some(value) = value {
                chat[name] = value;
            }
        }
        Bytes::from(chat.to_string())
    }
}

fn chat_message(item: &Value) -> Result<Value, ApiError> {
    match item["role"].as_str() {
        Some(role) => message(role, &item["content"]),
        None => Err(ApiError::bad_request(format!("an item without a role is not simulated: {item}"))),
    }
}

/// A message of text.
fn message(role: &str, content: &Value) -> Result<Value, ApiError> {
    let parts = match content {
        Value::String(text) => return Ok(json!({"role": role, "content": text})),
        Value::Array(parts) => parts,
        other => return Err(ApiError::bad_request(format!("content is neither text nor parts: {other}"))),
    };
    let texts = parts.iter().map(|part| {
        part["text"]
            .as_str()
            .ok_or_else(|| ApiError::bad_request(format!("only text is simulated, not {part}")))
    });
    let text = texts.collect::<Result<Vec<_>, _>>()?.join("\n");
    Ok(json!({"role": role, "content": text}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(endpoint: Endpoint, body: &Value, store: &ResponseStore) -> Value {
        let converted = Converted::read(endpoint, body.to_string().as_bytes(), store).unwrap();
        serde_json::from_slice(&converted.chat).unwrap()
    }

    #[test]
    fn a_message_becomes_the_chat_of_the_same_words() {
        let body = json!({
            "model": "m", "system": [{"type": "text", "text": "be"}, {"type": "text", "text": "kind"}],
            "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": [{"type": "text", "text": "ho"}]}],
            "max_tokens": 5, "stream": true,
        });
        let chat = converted(Endpoint::Messages, &body, &ResponseStore::default());
        let messages = json!([
            {"role": "system", "content": "be\nkind"}, {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "ho"},
        ]);
        let expected = json!({"messages": messages, "model": "m", "stream": true, "max_tokens": 5});
        assert_eq!(chat, expected);
    }

    #[test]
    fn a_response_continues_an_earlier_one() {
        let store = ResponseStore::default();
        let earlier = json!({"input": "hi", "instructions": "be kind"});
        let first = Converted::read(Endpoint::Responses, earlier.to_string().as_bytes(), &store).unwrap();
        store.keep("resp_1", first.kept.unwrap(), " ho");
        let body = json!({
            "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "more"}]}],
            "previous_response_id": "resp_1", "max_output_tokens": 3,
        });
        let chat = converted(Endpoint::Responses, &body, &store);
        let messages = json!([
            {"role": "user", "content": "hi"}, {"role": "assistant", "content": " ho"},
            {"role": "user", "content": "more"},
        ]);
        assert_eq!(chat, json!({"messages": messages, "max_tokens": 3}));
        assert!(store.find("resp_2").is_err());
    }

    #[test]
    fn the_oldest_conversation_is_forgotten() {
        let store = ResponseStore::default();
        (0..KEPT + 1).for_each(|number| store.keep(&number.to_string(), Messages::new(), ""));
        assert!(store.find("0").is_err() && store.find("1").is_ok());
    }
}
