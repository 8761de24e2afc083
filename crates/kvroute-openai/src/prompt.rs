//! The part of a request that decides its token ids.
//!
//! A chat is kept as raw JSON: whoever renders it (a template here, or an engine's tokenize endpoint) needs
//! number forms and key order as the client wrote them, and a router that does not tokenize needs none of it.

use std::fmt;

use bytes::Bytes;
use kvroute_core::TokenId;

/// Text of one valid JSON value: a part of the request's own bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct RawJson(Bytes);

/// What the engine will compute, before it is tokenized.
#[expect(clippy::large_enum_variant, reason = "a request has one prompt, and most are chats")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// A chat to be rendered by the model's template.
    Chat(ChatPrompt),
    /// Plain texts, at least one, none of them empty.
    Texts {
        /// One or more prompts.
        texts: Vec<String>,
        /// Whether the tokenizer adds its own special tokens, as engines do unless told otherwise.
        add_special_tokens: bool,
    },
    /// Token ids, at least one list, none of them empty.
    TokenLists(Vec<Vec<TokenId>>),
    /// The conversation of `/v1/responses` or `/v1/messages`, as the client wrote it: nobody here can render it.
    Foreign(RawJson),
}

/// The fields of a chat request that a template can see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatPrompt {
    /// A non-empty array of objects, each with a `role`.
    pub messages: RawJson,
    /// An array; absent when null or empty.
    pub tools: Option<RawJson>,
    /// An array; absent when null or empty.
    pub documents: Option<RawJson>,
    /// An object of further template variables; absent when null.
    pub chat_template_kwargs: Option<RawJson>,
    /// A template sent by the client itself.
    pub chat_template: Option<String>,
    /// `reasoning_effort`, which engines hand to the template.
    pub reasoning_effort: Option<String>,
    /// `tool_choice`: some engines show the template only the tools that may be called. Absent when null.
    pub tool_choice: Option<RawJson>,
    /// `reasoning`, another dialect's object for the effort. Absent when null.
    pub reasoning: Option<RawJson>,
    /// Whether the prompt ends with the start of an assistant turn. Default true.
    pub add_generation_prompt: bool,
    /// Whether the last message is left open to be continued. Default false.
    pub continue_final_message: bool,
    /// Whether the tokenizer adds special tokens to what the template made. Default false.
    pub add_special_tokens: bool,
}

// === impl RawJson ===

impl RawJson {
    /// Wraps text that is known to be one valid JSON value in UTF-8.
    pub(crate) fn trusted(text: Bytes) -> Self {
        debug_assert!(std::str::from_utf8(&text).is_ok(), "raw JSON must be UTF-8");
        Self(text)
    }

    /// The JSON text exactly as the client wrote it.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// The same as bytes, which takes no look at all of them.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl Prompt ===

impl Prompt {
    /// Number of prompts in the request.
    pub const fn count(&self) -> usize {
        match self {
            Self::Chat(_) | Self::Foreign(_) => 1,
            Self::Texts { texts, .. } => texts.len(),
            Self::TokenLists(lists) => lists.len(),
        }
    }
}
