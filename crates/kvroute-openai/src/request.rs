//! A client's request: the fields that the router reads, and the body that goes upstream.
//!
//! The body is walked once. What the router needs is copied out, the chat stays where it is as a slice of the
//! body, and the place where usage would be injected is noted down, so that sending the request upstream (and
//! again, after a retry) costs no further look at it.

mod chat;
mod completion;
mod continuation;
mod fields;
mod foreign;
mod injection;
mod members;
mod pieces;
mod unread;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;

use self::chat::ChatFields;
pub use self::continuation::AnswerSoFar;
use self::continuation::Obstacles;
use self::foreign::ForeignFields;
use self::injection::{Edit, Injection};
pub use self::pieces::UpstreamBody;
use self::unread::UnreadFields;
use crate::{Endpoint, JsonKind, JsonReader, Obstacle, Prompt, RequestError};

/// A request that was read once. Everything that is not listed here passes upstream untouched.
#[derive(Clone, Debug)]
pub struct ClientRequest {
    /// Where it was sent.
    pub endpoint: Endpoint,
    /// The model asked for. Engines accept its absence, so the router decides.
    pub model: Option<String>,
    /// Whether the answer is a stream of events.
    pub stream: bool,
    /// Whether the client itself asked for usage in the stream.
    pub include_usage: bool,
    /// Whether the client itself asked for token ids. What an engine may take for a yes counts as one.
    pub return_token_ids: bool,
    /// Number of answers (`n`), at least 1.
    pub choices: u32,
    /// The bound of generated tokens (`max_completion_tokens`, else `max_tokens`; `max_output_tokens` of a response), where
    /// it is not negative.
    pub max_tokens: Option<u64>,
    /// Tenant salt that separates caches; empty counts as absent when hashing.
    pub cache_salt: Option<String>,
    /// SGLang's further key that separates caches, as it is written in JSON: a text or a list of texts.
    pub extra_key: Option<String>,
    /// The response that this one continues (`previous_response_id`). Only the worker that made it has it.
    pub previous_response: Option<String>,
    /// What is to be tokenized.
    pub prompt: Prompt,
    /// Whether `prompt` held two or more prompts, whose reuse some engines report only for the last.
    pub prompt_list: bool,
    /// Whether a message holds images, audio or anything else whose tokens cannot be told from the request.
    pub has_multimodal: bool,
    /// Whether the engine computes the whole prompt whatever it has cached: it is asked for the log probabilities of
    /// the prompt's tokens, or told to leave its cache alone. What it reports then says nothing about its cache.
    pub bypasses_cache: bool,
    /// Whether the answer begins with the prompt.
    echoes: bool,
    obstacles: Obstacles,
    body: Bytes,
    injection: Injection,
    token_ids: Edit,
    model_at: Option<Range<usize>>,
}

/// What changes in a body on its way to the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpstreamEdits<'a> {
    /// Sets `stream_options.include_usage` to true if the request [lacks it](ClientRequest::lacks_usage), and
    /// `continuous_usage_stats` beside it to false if it is there.
    pub inject_usage: bool,
    /// Leaves `continuous_usage_stats` as it is: the engine heeds it whether or not usage is included.
    pub keep_continuous: bool,
    /// Sets `return_token_ids` to true if the request [lacks it](ClientRequest::lacks_token_ids).
    pub return_token_ids: bool,
    /// Replaces the model's name: an alias is known to the router only.
    pub model: Option<&'a str>,
    /// Members of the body and the raw JSON that each becomes, whatever the client said there; without any it is taken
    /// out. They win over all of the above.
    pub members: &'a [(&'a str, Option<&'a str>)],
}

/// What was read so far; a repeated key overwrites what its first occurrence said.
#[derive(Debug, Default)]
struct Fields {
    model: Option<String>,
    model_at: Option<Range<usize>>,
    stream: bool,
    include_usage: bool,
    injection: Option<Injection>,
    return_token_ids: bool,
    token_ids_at: Option<Range<usize>>,
    choices: Option<u32>,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    cache_salt: Option<String>,
    extra_key: Option<String>,
    add_special_tokens: Option<bool>,
    bypass: CacheBypass,
    obstacles: Obstacles,
    chat: ChatFields,
    foreign: ForeignFields,
    unread: UnreadFields,
    prompt: Option<Prompt>,
}

/// What makes an engine compute a prompt that it has cached: `prompt_logprobs` (vLLM), `echo` with `logprobs`
/// (completions), `cache_prompt` set to false (llama.cpp).
#[derive(Clone, Copy, Debug, Default)]
struct CacheBypass {
    prompt_logprobs: bool,
    logprobs: bool,
    echo: bool,
    forbids_cache: bool,
}

// === impl ClientRequest ===

impl ClientRequest {
    /// Reads a body.
    ///
    /// # Errors
    /// Names the field, what is wrong with it and the remedy; always status 400. Whether the model exists is
    /// not judged here.
    pub fn parse(endpoint: Endpoint, body: Bytes) -> Result<Self, RequestError> {
        let text = simdutf8::compat::from_utf8(&body).map_err(|error| not_utf8(error.valid_up_to()))?;
        let mut reader = JsonReader::new(text);
        let kind = reader.kind()?;
        if kind != JsonKind::Object {
            let message = format!("body is {}; send a JSON object", kind.noun());
            return Err(RequestError::invalid_json(message));
        }
        let mut fields = Fields::default();
        reader.object(|member, key| fields.read(endpoint, member, key, &body))?;
        let end = reader.position() - 1;
        reader.finish()?;
        fields.into_request(endpoint, end, body)
    }

    /// The body as the client sent it.
    pub const fn body(&self) -> &Bytes {
        &self.body
    }

    /// Whether usage would have to be injected: a stream that tells its usage only when asked, and whose client did not.
    /// The same answer decides whether [`StreamScanner`](crate::StreamScanner) takes it out again.
    pub const fn lacks_usage(&self) -> bool {
        self.endpoint.has_stream_options() && self.stream && !self.include_usage
    }

    /// Whether token ids would have to be asked for. The same answer decides whether they are
    /// [taken out](crate::TokenIds::Withhold) again. An answer that begins with its prompt is left alone: vLLM leaves the
    /// prompt's text out of it where ids are asked for, and puts the prompt's ids among those of the answer.
    pub const fn lacks_token_ids(&self) -> bool {
        self.endpoint.has_stream_options() && !self.return_token_ids && !self.echoes
    }

    /// The body that goes to the engine: the client's own bytes, edited in place.
    pub fn upstream_body(&self, edits: UpstreamEdits<'_>) -> UpstreamBody {
        let is_injected = edits.inject_usage && self.lacks_usage();
        let [usage, continuous] = if is_injected { self.injection.edits() } else { [None, None] };
        let continuous = continuous.filter(|_| !edits.keep_continuous);
        let asks_for_ids = edits.return_token_ids && self.lacks_token_ids();
        let token_ids = asks_for_ids.then(|| self.token_ids.clone());
        let model = edits.model.zip(self.model_at.clone());
        let model = model.map(|(name, at)| (at, Cow::Owned(serde_json::Value::from(name).to_string())));
        let body = injection::splice(&self.body, [usage, continuous, token_ids, model]);
        if edits.members.is_empty() { body } else { members::set(&body.to_bytes(), edits.members).into() }
    }
}

fn not_utf8(place: usize) -> RequestError {
    RequestError::invalid_json(format!("body is not valid UTF-8 at byte {place}; send JSON in UTF-8"))
}

// === impl Fields ===

impl Fields {
    fn read(
        &mut self,
        endpoint: Endpoint,
        reader: &mut JsonReader<'_>,
        key: &str,
        body: &Bytes,
    ) -> Result<(), RequestError> {
        match key {
            "model" => {
                reader.kind()?;
                let start = reader.position();
                self.model = fields::string(reader, "model")?;
                self.model_at = Some(start..reader.position());
            }
            _ if !endpoint.generates() => self.unread.read(reader, key, body)?,
            "stream" => self.stream = fields::boolean(reader, "stream")?.unwrap_or(false),
            "cache_salt" => self.cache_salt = fields::string(reader, "cache_salt")?,
            "extra_key" => self.extra_key = fields::written(reader)?,
            _ if endpoint.has_stream_options() => self.read_generation(endpoint, reader, key, body)?,
            _ => self.foreign.read(reader, key, body)?,
        }
        Ok(())
    }

    /// A field of chats or completions.
    fn read_generation(
        &mut self,
        endpoint: Endpoint,
        reader: &mut JsonReader<'_>,
        key: &str,
        body: &Bytes,
    ) -> Result<(), RequestError> {
        match key {
            "stream_options" => {
                let (include_usage, injection) = injection::read_options(reader)?;
                self.include_usage = include_usage;
                self.injection = Some(injection);
            }
            "return_token_ids" => {
                reader.kind()?;
                let start = reader.position();
                self.return_token_ids = fields::leniently(reader)? == Some(true);
                self.token_ids_at = Some(start..reader.position());
            }
            "n" => self.choices = fields::choices(reader)?,
            "max_tokens" => self.max_tokens = fields::token_bound(reader, "max_tokens")?,
            "max_completion_tokens" => {
                self.max_completion_tokens = fields::token_bound(reader, "max_completion_tokens")?;
            }
            "add_special_tokens" => self.add_special_tokens = fields::boolean(reader, "add_special_tokens")?,
            "prompt_logprobs" => self.bypass.prompt_logprobs = fields::leniently(reader)? == Some(true),
            "logprobs" => self.bypass.logprobs = fields::leniently(reader)? == Some(true),
            "echo" => self.bypass.echo = fields::leniently(reader)? == Some(true),
            "cache_prompt" => self.bypass.forbids_cache = fields::leniently(reader)? == Some(false),
            _ if Obstacles::concern(key) => self.obstacles.read(reader, key)?,
            "prompt" if endpoint == Endpoint::Completions => self.prompt = completion::read_prompt(reader)?,
            _ if endpoint == Endpoint::ChatCompletions => self.chat.read(reader, key, body)?,
            _ => drop(reader.skip()?),
        }
        Ok(())
    }

    /// What stands against a continuation of the answer.
    fn obstacles(&self, endpoint: Endpoint) -> Obstacles {
        let is_completion = endpoint == Endpoint::Completions;
        let max_tokens = self.max_completion_tokens.or(self.max_tokens);
        self.obstacles
            .or(self.chat.has_multimodal, Obstacle::Multimodal)
            .or(self.chat.has_tools(), Obstacle::Tools)
            .or(self.chat.continues_message(), Obstacle::ContinuesMessage)
            .or(self.bypass.echo, Obstacle::Echo)
            .or(self.bypass.prompt_logprobs, Obstacle::PromptLogprobs)
            .or(is_completion && self.bypass.logprobs, Obstacle::TextOffsets)
            .or(is_completion && max_tokens.is_none(), Obstacle::Unbounded)
    }

    fn into_request(
        mut self,
        endpoint: Endpoint,
        end: usize,
        body: Bytes,
    ) -> Result<ClientRequest, RequestError> {
        let (has_multimodal, obstacles) = (self.chat.has_multimodal, self.obstacles(endpoint));
        let prompt = match endpoint {
            Endpoint::ChatCompletions => Prompt::Chat(self.chat.into_prompt(self.add_special_tokens)?),
            Endpoint::Completions => completion::finish_prompt(self.prompt, self.add_special_tokens)?,
            Endpoint::Responses | Endpoint::Messages => self.foreign.prompt(),
            _ => self.unread.prompt(),
        };
        Ok(ClientRequest {
            endpoint,
            model: self.model,
            stream: self.stream,
            include_usage: self.include_usage,
            return_token_ids: self.return_token_ids,
            choices: self.choices.unwrap_or(1),
            max_tokens: self.max_completion_tokens.or(self.max_tokens).or(self.foreign.max_tokens),
            cache_salt: self.cache_salt,
            extra_key: self.extra_key,
            previous_response: self.foreign.previous_response,
            prompt_list: prompt.count() > 1,
            prompt,
            has_multimodal,
            bypasses_cache: self.bypass.holds(endpoint),
            echoes: self.bypass.echo,
            obstacles,
            body,
            injection: self.injection.unwrap_or_else(|| Injection::new_options(end)),
            token_ids: injection::ask_for_token_ids(self.token_ids_at, end),
            model_at: self.model_at,
        })
    }
}

// === impl CacheBypass ===

impl CacheBypass {
    fn holds(self, endpoint: Endpoint) -> bool {
        let echoes = endpoint == Endpoint::Completions && self.echo && self.logprobs;
        self.prompt_logprobs || echoes || self.forbids_cache
    }
}
