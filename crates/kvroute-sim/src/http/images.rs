//! Chats with images: each image becomes the same number of placeholder tokens, and what it is shows in its name only.

use std::sync::Arc;

use bytes::Bytes;
use kvroute_core::TokenId;
use kvroute_openai::{ClientRequest, Endpoint};
use serde_json::{Value, json};

use super::App;
use super::error::ApiError;
use super::request::encode;
use crate::cache::ImageSpan;
use crate::mix::fold;

/// A prompt as the engine computes it.
#[derive(Debug)]
pub(super) struct SeenPrompt {
    pub(super) ids: Vec<TokenId>,
    pub(super) images: Vec<ImageSpan>,
}

/// Stands for an image until its tokens do; of an area of Unicode that no text uses.
const MARK: &str = "\u{e000}image\u{e000}";

/// Tokenizes a chat with images, where the engine takes such.
pub(super) fn see(app: &App, client: &ClientRequest) -> Result<SeenPrompt, ApiError> {
    let (text_only, names) = take_images(client.body())?;
    let most = if app.config.image_tokens == 0 { 0 } else { usize::MAX };
    if names.len() > most {
        return Err(ApiError::bad_request("At most 0 image(s) may be provided in one prompt."));
    }
    let chat = ClientRequest::parse(Endpoint::ChatCompletions, text_only)?;
    let text = app.encoder.render(app.config.flavour, &chat).map_err(ApiError::bad_request)?;
    let mut seen = SeenPrompt { ids: Vec::new(), images: Vec::new() };
    let mut pieces = text.split(MARK);
    seen.push_text(app, pieces.next().unwrap_or_default())?;
    for (piece, name) in pieces.zip(names) {
        seen.push_image(app, name);
        seen.push_text(app, piece)?;
    }
    Ok(seen)
}

/// The body with a mark in the place of each image, and the images' names.
fn take_images(body: &Bytes) -> Result<(Bytes, Vec<Arc<str>>), ApiError> {
    let mut body: Value = serde_json::from_slice(body)?;
    let mut names = Vec::new();
    let messages = body["messages"].as_array_mut().map(Vec::as_mut_slice).unwrap_or_default();
    let parts = messages.iter_mut().filter_map(|message| message["content"].as_array_mut()).flatten();
    for part in parts.filter(|part| part["type"] == "image_url") {
        let Some(url) = part["image_url"]["url"].as_str() else {
            return Err(ApiError::bad_request("An image_url part needs a url."));
        };
        names.push(name_of(url));
        *part = json!({ "type": "text", "text": MARK });
    }
    Ok((Bytes::from(body.to_string()), names))
}

/// Equal images have equal names. Nothing is fetched: an address stands for what it shows.
fn name_of(url: &str) -> Arc<str> {
    let half = |seed: u64| {
        url.bytes().fold(fold(seed, url.len() as u64), |state, byte| fold(state, u64::from(byte)))
    };
    Arc::from(format!("{:016x}{:016x}", half(1), half(2)))
}

// === impl SeenPrompt ===

impl SeenPrompt {
    fn push_image(&mut self, app: &App, name: Arc<str>) {
        let length = app.config.image_tokens as usize;
        self.images.push(ImageSpan { name, offset: self.ids.len(), length });
        let placeholder = app.encoder.vocabulary_size().saturating_sub(1);
        self.ids.resize(self.ids.len() + length, placeholder);
    }

    fn push_text(&mut self, app: &App, text: &str) -> Result<(), ApiError> {
        if text.is_empty() {
            return Ok(());
        }
        let body = json!({ "prompt": text, "add_special_tokens": false }).to_string();
        let request = ClientRequest::parse(Endpoint::Completions, Bytes::from(body))?;
        self.ids.extend(encode(app, &request)?.into_iter().flatten());
        Ok(())
    }
}
