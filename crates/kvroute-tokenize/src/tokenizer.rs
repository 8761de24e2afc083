//! Prompt to ids.

mod chat;

#[cfg(test)]
mod tests;

use std::path::Path;

use kvroute_core::TokenId;
use kvroute_openai::{ChatPrompt, Prompt};

pub(crate) use self::chat::Rendered;
use crate::encoder::{CacheCounts, Encoder};
use crate::folder::{self, ModelFolder};
use crate::template::ChatTemplates;
use crate::{ChatRules, EncodeError, LoadError};

/// Tokenizer and chat template of one model. Safe to use from many threads.
#[derive(Debug)]
pub struct PromptTokenizer {
    encoder: Encoder,
    /// The compiled templates, or why there are none.
    templates: Result<ChatTemplates, String>,
    vocabulary_size: u32,
    /// Id of the token at the start of a text, where the configuration names one.
    bos: Option<TokenId>,
}

// === impl PromptTokenizer ===

impl PromptTokenizer {
    /// Loads a model folder (`tokenizer.json`, `tokenizer_config.json`, `chat_template.jinja`) or a
    /// `tokenizer.json` (whose neighbours are used too). A missing or broken template is no error, because plain
    /// prompts work without one: see [`template_problem`](Self::template_problem).
    ///
    /// # Errors
    /// Names the file that is missing, unreadable or malformed, and the remedy.
    pub fn load(path: &Path) -> Result<Self, LoadError> {
        let ModelFolder { tokenizer, templates, bos_token } = folder::load(path)?;
        let added = tokenizer.get_added_vocabulary().get_vocab().values().copied().max();
        let largest = added.max(tokenizer.get_model().largest_id());
        let vocabulary_size = largest.map_or(0, |id| id.saturating_add(1));
        let bos = bos_token.and_then(|token| tokenizer.token_to_id(&token));
        Ok(Self { encoder: Encoder::new(tokenizer), templates, vocabulary_size, bos })
    }

    /// Ids of a prompt: one list a prompt, in order. Blocking work that grows with the text: some milliseconds
    /// for long chats.
    ///
    /// # Errors
    /// The template refused or failed, or the tokenizer did.
    pub fn encode(&self, prompt: &Prompt, rules: ChatRules) -> Result<Vec<Vec<TokenId>>, EncodeError> {
        match prompt {
            Prompt::Chat(chat) => Ok(vec![self.encode_chat(chat, rules)?]),
            Prompt::Texts { texts, add_special_tokens } => {
                let adds = *add_special_tokens || !rules.heeds_add_special_tokens();
                texts.iter().map(|text| self.encoder.encode(text, adds)).collect()
            }
            Prompt::TokenLists(lists) => Ok(lists.clone()),
            Prompt::Foreign(_) => {
                Err(EncodeError::template("no template is known for this api's conversations"))
            }
        }
    }

    /// The text that the template makes of a chat.
    ///
    /// # Errors
    /// There is no template, or it refused or failed.
    pub fn render(&self, chat: &ChatPrompt, rules: ChatRules) -> Result<String, EncodeError> {
        let Rendered { text, continued } = self.render_parts(chat, rules)?;
        Ok(text + &continued.unwrap_or_default())
    }

    /// Whether chats can be rendered.
    pub const fn has_chat_template(&self) -> bool {
        self.templates.is_ok()
    }

    /// Why chats cannot be rendered: what was looked for or what is wrong, and the remedy.
    pub fn template_problem(&self) -> Option<&str> {
        self.templates.as_ref().err().map(String::as_str)
    }

    /// One more than the largest id that the tokenizer can make.
    pub const fn vocabulary_size(&self) -> u32 {
        self.vocabulary_size
    }

    /// Whether texts are encoded in the fast way. A tokenizer with a step that this crate does not know is left to the
    /// library: its ids are the same, and take many times as long.
    pub const fn is_fast(&self) -> bool {
        self.encoder.is_fast()
    }

    /// How many tokens of the texts so far were known from texts before, and how many had to be made.
    pub fn cache_counts(&self) -> CacheCounts {
        self.encoder.cache_counts()
    }

    /// Whether an id is one of the tokens with a meaning of their own, such as the one that begins a text.
    pub fn is_special(&self, id: TokenId) -> bool {
        let tokenizer = self.encoder.tokenizer();
        let token = tokenizer.id_to_token(id);
        token.is_some_and(|token| tokenizer.get_added_vocabulary().is_special_token(&token))
    }

    /// Text of ids; unknown ids are left out, special tokens are kept.
    pub fn decode(&self, ids: &[TokenId]) -> String {
        self.encoder.tokenizer().decode(ids, false).unwrap_or_default()
    }

    fn render_parts(&self, chat: &ChatPrompt, rules: ChatRules) -> Result<Rendered, EncodeError> {
        let templates = self.templates.as_ref().map_err(|problem| EncodeError::template(problem.clone()))?;
        chat::render(templates, chat, rules).map_err(EncodeError::template)
    }

    fn encode_chat(&self, chat: &ChatPrompt, rules: ChatRules) -> Result<Vec<TokenId>, EncodeError> {
        let Rendered { text, continued } = self.render_parts(chat, rules)?;
        let adds = chat.add_special_tokens && rules.heeds_add_special_tokens();
        let mut ids = self.encoder.encode(&text, adds)?;
        if let Some(open_turn) = continued.filter(|turn| !turn.is_empty()) {
            ids.extend(self.encode_open_turn(&open_turn)?);
        }
        Ok(ids)
    }

    /// A turn that is tokenized on its own gets the tokenizer's special tokens, of which one at the start is dropped.
    fn encode_open_turn(&self, text: &str) -> Result<Vec<TokenId>, EncodeError> {
        let mut ids = self.encoder.encode(text, true)?;
        if self.bos.is_some() && ids.first() == self.bos.as_ref() {
            ids.remove(0);
        }
        Ok(ids)
    }
}
