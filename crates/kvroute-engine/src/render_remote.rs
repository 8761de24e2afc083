//! A chat with images as a worker's engine computes it: token ids with a placeholder for each image, and what stands there.
//!
//! How many tokens an image takes, and by which name the engine knows it, follows from the model's own image processor. Only
//! the engine can tell; vLLM does at its render endpoint.

use std::collections::BTreeMap;

use kvroute_core::{ItemId, PromptItem, TokenId};
use kvroute_openai::{ClientRequest, Endpoint, UpstreamEdits};
use serde::Deserialize;

use crate::http::{Answer, CallError, post};
use crate::tokenize_remote::RemoteTokenizeError;
use crate::{EngineKind, HttpClient};

/// What a worker's engine makes of one chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedChat {
    /// Every token, placeholders included.
    pub ids: Vec<TokenId>,
    /// What the placeholders stand for, in their order; at least one.
    pub items: Vec<PromptItem>,
}

/// Asks one worker what it makes of chats.
#[derive(Clone, Copy, Debug)]
pub struct RemoteRenderer<'a> {
    client: &'a HttpClient,
    base: &'a str,
    engine: EngineKind,
}

#[derive(Deserialize)]
struct Rendered {
    token_ids: Vec<TokenId>,
    #[serde(default)]
    features: Option<Features>,
}

/// Both maps are by kind (image, audio, …) and run in parallel.
#[derive(Deserialize)]
struct Features {
    mm_hashes: BTreeMap<String, Vec<String>>,
    mm_placeholders: BTreeMap<String, Vec<Placeholder>>,
}

#[derive(Deserialize)]
struct Placeholder {
    offset: usize,
    length: usize,
}

/// A chat of one word, to find out whether the endpoint is there.
const TRIAL: &str = r#"{"messages":[{"role":"user","content":"a"}],"max_tokens":1,"mm_payload":"none"}"#;

// === impl RemoteRenderer ===

impl<'a> RemoteRenderer<'a> {
    /// For a worker at this base address.
    pub const fn new(client: &'a HttpClient, base: &'a str, engine: EngineKind) -> Self {
        Self { client, base, engine }
    }

    /// What the engine makes of a chat. `model` is what it calls the model.
    ///
    /// # Errors
    /// The engine cannot tell, does not answer, refuses the chat, or names no item in it.
    pub async fn render(
        &self,
        model: &str,
        request: &ClientRequest,
    ) -> Result<RenderedChat, RemoteTokenizeError> {
        const WHAT: &str = "a chat with images";
        let path = self.engine.spec().render.filter(|_| request.endpoint == Endpoint::ChatCompletions);
        let Some(path) = path else {
            return Err(RemoteTokenizeError::Unsupported { engine: self.engine, what: WHAT });
        };
        let answer = post(self.client, self.base, path, question(model, request)).await;
        let answer = answer.map_err(|source| RemoteTokenizeError::Call { path, source })?;
        if !answer.status.is_success() {
            return Err(RemoteTokenizeError::refused(path, &answer));
        }
        let rendered =
            read(&answer.body).map_err(|source| RemoteTokenizeError::Unreadable { path, source })?;
        rendered.ok_or(RemoteTokenizeError::Empty { path, what: WHAT })
    }

    /// Whether the worker has the endpoint; `None` where it did not say.
    pub(crate) async fn is_there(&self) -> Option<bool> {
        let Some(path) = self.engine.spec().render else { return Some(false) };
        let answer = post(self.client, self.base, path, TRIAL.as_bytes().to_vec()).await;
        says_there(&answer)
    }
}

/// What an answer tells; `None` where it names no items, or such that cannot be.
pub(crate) fn read(answer: &[u8]) -> Result<Option<RenderedChat>, serde_json::Error> {
    Ok(serde_json::from_slice::<Rendered>(answer)?.checked())
}

/// A server without the endpoint, or told not to serve it, says so with one of these.
fn says_there(answer: &Result<Answer, CallError>) -> Option<bool> {
    match answer.as_ref().ok()?.status.as_u16() {
        403 | 404 | 405 | 501 => Some(false),
        // A model without a chat template refuses the chat, not the question.
        200..=299 | 400 | 422 => Some(true),
        _ => None,
    }
}

/// The client's own words, so that whatever changes the prompt changes it here too; the images' data is not sent back.
fn question(model: &str, request: &ClientRequest) -> Vec<u8> {
    let members = [("mm_payload", Some("\"none\"")), ("stream", None), ("stream_options", None)];
    let edits = UpstreamEdits { model: Some(model), members: &members, ..UpstreamEdits::default() };
    request.upstream_body(edits).to_bytes().to_vec()
}

// === impl Rendered ===

impl Rendered {
    /// `None` where it holds no items, or such that cannot be.
    fn checked(self) -> Option<RenderedChat> {
        let Features { mm_hashes, mm_placeholders } = self.features?;
        let mut items = Vec::new();
        for (kind, hashes) in &mm_hashes {
            let places = mm_placeholders.get(kind).filter(|places| places.len() == hashes.len())?;
            let pairs = hashes.iter().zip(places);
            items.extend(pairs.map(|(hash, place)| {
                let Placeholder { offset, length } = *place;
                PromptItem { id: ItemId::new(hash), offset, length }
            }));
        }
        items.sort_by_key(|item| item.offset);
        let is_inside = |item: &PromptItem| {
            item.length > 0
                && item.offset.checked_add(item.length).is_some_and(|end| end <= self.token_ids.len())
        };
        let is_sound = !items.is_empty()
            && mm_hashes.len() == mm_placeholders.len()
            && mm_hashes.values().flatten().all(|hash| !hash.is_empty())
            && items.iter().all(is_inside);
        is_sound.then_some(RenderedChat { ids: self.token_ids, items })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::StatusCode;
    use serde_json::{Value, json};

    use super::*;

    fn read(answer: &Value) -> Option<RenderedChat> {
        super::read(answer.to_string().as_bytes()).unwrap()
    }

    fn features(hashes: &Value, places: &Value) -> Value {
        json!({"token_ids": [1, 9, 9, 2, 8, 3], "features": {
            "mm_hashes": hashes, "mm_placeholders": places, "kwargs_data": null, "mm_metadata": null,
        }})
    }

    #[test]
    fn items_of_all_kinds_come_in_the_order_of_their_places() {
        let answer = features(
            &json!({"audio": ["b"], "image": ["c", "a"]}),
            &json!({"audio": [{"offset": 3, "length": 1}],
                "image": [{"offset": 4, "length": 1}, {"offset": 1, "length": 2}]}),
        );
        let item = |name, offset, length| PromptItem { id: ItemId::new(name), offset, length };
        let items = vec![item("a", 1, 2), item("b", 3, 1), item("c", 4, 1)];
        assert_eq!(read(&answer), Some(RenderedChat { ids: vec![1, 9, 9, 2, 8, 3], items }));
    }

    #[test]
    fn what_the_engines_own_response_model_writes_is_read() {
        let answer: Value =
            serde_json::from_str(include_str!("../../../fixtures/vllm/render_answer.json")).unwrap();
        let items = vec![PromptItem { id: ItemId::new("ab"), offset: 1, length: 2 }];
        assert_eq!(read(&answer), Some(RenderedChat { ids: vec![1, 9, 9, 2], items }));
    }

    #[test]
    fn an_answer_that_leaves_an_item_without_name_or_place_is_none() {
        let place = json!({"image": [{"offset": 1, "length": 2}]});
        let bad = [
            json!({"token_ids": [1, 9, 9]}),
            json!({"token_ids": [1, 9, 9], "features": null}),
            features(&json!({}), &json!({})),
            features(&json!({"image": ["a", "b"]}), &place),
            features(&json!({"image": ["a"]}), &json!({"audio": [{"offset": 1, "length": 2}]})),
            features(&json!({}), &place),
            features(&json!({"image": [""]}), &place),
            features(&json!({"image": ["a"]}), &json!({"image": [{"offset": 5, "length": 2}]})),
            features(&json!({"image": ["a"]}), &json!({"image": [{"offset": 1, "length": 0}]})),
        ];
        for answer in bad {
            assert_eq!(read(&answer), None, "{answer}");
        }
    }

    #[test]
    fn whether_the_endpoint_is_there_follows_from_the_status_alone() {
        let says = |status: u16| {
            says_there(&Ok(Answer { status: StatusCode::from_u16(status).unwrap(), body: Bytes::new() }))
        };
        assert_eq!([200, 400, 422].map(says), [Some(true); 3]);
        assert_eq!([403, 404, 405, 501].map(says), [Some(false); 4]);
        assert_eq!([401, 500, 503].map(says), [None; 3]);
        assert_eq!(says_there(&Err(CallError::Broken(String::new()))), None);
    }

    #[test]
    fn a_question_is_the_clients_request_without_stream_and_tensors() {
        let body = r#"{"model":"alias","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:,a"}}]}],"stream":true,"stream_options":{"include_usage":true},"mm_processor_kwargs":{"a":1}}"#;
        let request = ClientRequest::parse(Endpoint::ChatCompletions, Bytes::from(body)).unwrap();
        let asked: Value = serde_json::from_slice(&question("m", &request)).unwrap();
        assert_eq!(asked["mm_payload"], "none");
        assert_eq!((&asked["model"], &asked["mm_processor_kwargs"]["a"]), (&json!("m"), &json!(1)));
        assert!(asked.get("stream").is_none() && asked.get("stream_options").is_none());
        assert_eq!(asked["messages"][0]["content"][0]["image_url"]["url"], "data:,a");
    }
}
