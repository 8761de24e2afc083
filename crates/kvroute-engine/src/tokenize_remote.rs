//! Token ids from a worker's own tokenize endpoint: exact by definition, at the price of a call.

use kvroute_core::{ModelName, TokenId};
use kvroute_openai::{ChatPrompt, Prompt, RawJson};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::http::{Answer, post};
use crate::spec::{Brings, StepResult, TokenizeStep};
use crate::{CallError, EngineKind, HttpClient};

/// Asks one worker for the ids of prompts.
#[derive(Clone, Copy, Debug)]
pub struct RemoteTokenizer<'a> {
    client: &'a HttpClient,
    base: &'a str,
    engine: EngineKind,
}

/// A prompt without ids.
#[derive(Debug, thiserror::Error)]
pub enum RemoteTokenizeError {
    /// The engine has no endpoint for this.
    #[error("{engine} cannot tokenize {what}: give the pool a tokenizer folder")]
    Unsupported {
        /// The kind of engine.
        engine: EngineKind,
        /// A chat or text.
        what: &'static str,
    },
    /// No answer.
    #[error("{path}: {source}")]
    Call {
        /// The endpoint.
        path: &'static str,
        /// Why.
        source: CallError,
    },
    /// Another status than 200.
    #[error("{path} answers {status}: {message}")]
    Refused {
        /// The endpoint.
        path: &'static str,
        /// The HTTP status.
        status: u16,
        /// The beginning of the body.
        message: String,
    },
    /// An answer without tokens.
    #[error("{path} answers something else than was asked: {source}")]
    Unreadable {
        /// The endpoint.
        path: &'static str,
        /// What is missing.
        source: serde_json::Error,
    },
    /// No ids for a prompt that has some: an endpoint that passed over the question.
    #[error("{path} answers no tokens for {what}")]
    Empty {
        /// The endpoint.
        path: &'static str,
        /// A chat or text.
        what: &'static str,
    },
    /// The request could not be written as JSON.
    #[error("chat cannot be passed on: {0}")]
    Unwritable(#[from] serde_json::Error),
}

#[derive(Deserialize)]
struct Tokens {
    tokens: Vec<TokenId>,
}

#[derive(Deserialize)]
struct Rendered {
    prompt: String,
}

// === impl RemoteTokenizer ===

impl<'a> RemoteTokenizer<'a> {
    /// A tokenizer at a worker's base address.
    pub const fn new(client: &'a HttpClient, base: &'a str, engine: EngineKind) -> Self {
        Self { client, base, engine }
    }

    /// Ids of a prompt as the engine computes them: one list a prompt, in order.
    ///
    /// # Errors
    /// The engine cannot, does not answer, or refuses.
    pub async fn encode(
        &self,
        model: &ModelName,
        prompt: &Prompt,
    ) -> Result<Vec<Vec<TokenId>>, RemoteTokenizeError> {
        match prompt {
            Prompt::TokenLists(lists) => Ok(lists.clone()),
            Prompt::Chat(chat) => Ok(vec![self.encode_chat(model.as_str(), chat).await?]),
            Prompt::Texts { texts, add_special_tokens } => {
                let mut lists = Vec::with_capacity(texts.len());
                for text in texts {
                    lists.push(self.encode_text(model.as_str(), text, *add_special_tokens).await?);
                }
                Ok(lists)
            }
            Prompt::Foreign(_) => Err(self.unsupported("a conversation of another api than chat")),
        }
    }

    pub(crate) async fn encode_text(
        &self,
        model: &str,
        text: &str,
        add_special_tokens: bool,
    ) -> Result<Vec<TokenId>, RemoteTokenizeError> {
        let Some(step) = self.engine.spec().tokenize_text else { return Err(self.unsupported("text")) };
        let step = step(model, text, add_special_tokens)?;
        let path = step.path;
        let ids = read::<Tokens>(path, &self.take(step).await?)?.tokens;
        if ids.is_empty() && !text.is_empty() {
            return Err(RemoteTokenizeError::Empty { path, what: "text" });
        }
        Ok(ids)
    }

    async fn encode_chat(&self, model: &str, chat: &ChatPrompt) -> Result<Vec<TokenId>, RemoteTokenizeError> {
        let Some(step) = self.engine.spec().tokenize_chat else { return Err(self.unsupported("a chat")) };
        let step = step(model, chat)?;
        let (path, brings) = (step.path, step.brings);
        let answer = self.take(step).await?;
        match brings {
            Brings::Tokens => match read::<Tokens>(path, &answer)?.tokens {
                ids if ids.is_empty() => Err(RemoteTokenizeError::Empty { path, what: "a chat" }),
                ids => Ok(ids),
            },
            Brings::Text => {
                let rendered: Rendered = read(path, &answer)?;
                self.encode_text(model, &rendered.prompt, chat.add_special_tokens).await
            }
        }
    }

    async fn take(&self, step: TokenizeStep) -> Result<Answer, RemoteTokenizeError> {
        let path = step.path;
        let answer = post(self.client, self.base, path, step.body).await;
        let answer = answer.map_err(|source| RemoteTokenizeError::Call { path, source })?;
        if answer.status.is_success() {
            return Ok(answer);
        }
        Err(RemoteTokenizeError::refused(path, &answer))
    }

    const fn unsupported(&self, what: &'static str) -> RemoteTokenizeError {
        RemoteTokenizeError::Unsupported { engine: self.engine, what }
    }
}

// === impl RemoteTokenizeError ===

impl RemoteTokenizeError {
    pub(crate) fn refused(path: &'static str, answer: &Answer) -> Self {
        let message = String::from_utf8_lossy(&answer.body).chars().take(200).collect();
        Self::Refused { path, status: answer.status.as_u16(), message }
    }

    /// Whether the worker has no such endpoint, or was told not to serve it.
    pub const fn is_unable(&self) -> bool {
        matches!(self, Self::Unsupported { .. } | Self::Refused { status: 403 | 404 | 405 | 501, .. })
    }
}

fn read<'a, T: Deserialize<'a>>(path: &'static str, answer: &'a Answer) -> Result<T, RemoteTokenizeError> {
    serde_json::from_slice(&answer.body).map_err(|source| RemoteTokenizeError::Unreadable { path, source })
}

/// `/tokenize` of vLLM and SGLang with a chat.
pub(crate) fn ids_of_chat(model: &str, chat: &ChatPrompt) -> StepResult {
    Ok(TokenizeStep { path: "/tokenize", body: chat_body(model, chat)?, brings: Brings::Tokens })
}

/// `/tokenize` of vLLM and SGLang with text.
pub(crate) fn ids_of_prompt(model: &str, text: &str, add_special_tokens: bool) -> StepResult {
    let body =
        serde_json::json!({ "model": model, "prompt": text, "add_special_tokens": add_special_tokens });
    Ok(TokenizeStep { path: "/tokenize", body: serde_json::to_vec(&body)?, brings: Brings::Tokens })
}

/// A chat as a tokenize endpoint takes it, with the client's own JSON for what the template sees.
pub(crate) fn chat_body(model: &str, chat: &ChatPrompt) -> Result<Vec<u8>, serde_json::Error> {
    #[derive(Serialize)]
    struct Body<'a> {
        model: &'a str,
        messages: &'a RawValue,
        #[serde(skip_serializing_if = "Option::is_none")]
        tools: Option<&'a RawValue>,
        add_generation_prompt: bool,
        continue_final_message: bool,
        add_special_tokens: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        chat_template: Option<&'a str>,
        #[serde(skip_serializing_if = "Map::is_empty")]
        chat_template_kwargs: Map<String, Value>,
    }
    serde_json::to_vec(&Body {
        model,
        messages: raw(&chat.messages)?,
        tools: chat.tools.as_ref().map(raw).transpose()?,
        add_generation_prompt: chat.add_generation_prompt,
        continue_final_message: chat.continue_final_message,
        add_special_tokens: chat.add_special_tokens,
        chat_template: chat.chat_template.as_deref(),
        chat_template_kwargs: template_variables(chat)?,
    })
}

/// Tokenize endpoints know documents and reasoning effort only as template variables; what the client set by name
/// there wins, as in the engines.
fn template_variables(chat: &ChatPrompt) -> Result<Map<String, Value>, serde_json::Error> {
    let mut variables = Map::new();
    if let Some(documents) = &chat.documents {
        variables.insert("documents".to_owned(), serde_json::from_str(documents.as_str())?);
    }
    if let Some(effort) = &chat.reasoning_effort {
        variables.insert("reasoning_effort".to_owned(), Value::from(effort.as_str()));
    }
    if let Some(kwargs) = &chat.chat_template_kwargs {
        variables.extend(serde_json::from_str::<Map<String, Value>>(kwargs.as_str())?);
    }
    Ok(variables)
}

fn raw(json: &RawJson) -> Result<&RawValue, serde_json::Error> {
    serde_json::from_str(json.as_str())
}
