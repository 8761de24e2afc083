//! Prompt to ids.

mod chat;

#[cfg(test)]
mod tests;

use std::path::Path;

use kvroute_core::TokenId;
use kvroute_openai::{ChatPrompt, Prompt};
use tokenizers::Tokenizer;

use crate::folder::{self, ModelFolder};
use crate::template::ChatTemplates;
use crate::{ChatRules, EncodeError, LoadError};

/// Tokenizer and chat template of one model. Safe to use from many threads.
#[derive(Debug)]
pub struct PromptTokenizer {
    tokenizer: Tokenizer,
    /// The compiled templates, or why there are none.
    templates: Result<ChatTemplates, String>,
    vocabulary_size: u32,
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
        let ModelFolder { tokenizer, templates } = folder::load(path)?;
        let largest = tokenizer.get_vocab(true).into_values().max();
        let vocabulary_size = largest.map_or(0, |id| id.saturating_add(1));
        Ok(Self { tokenizer, templates, vocabulary_size })
    }

    /// Ids of a prompt: one list a prompt, in order. Blocking work that grows with the text: some milliseconds
    /// for long chats.
    ///
    /// # Errors
    /// The template refused or failed, or the tokenizer did.
    pub fn encode(&self, prompt: &Prompt, rules: ChatRules) -> Result<Vec<Vec<TokenId>>, EncodeError> {
        match prompt {
            Prompt::Chat(chat) => {
                let text = self.render(chat, rules)?;
                Ok(vec![self.encode_segment(&text, chat.add_special_tokens)?])
            }
            Prompt::Texts { texts, add_special_tokens } => {
                texts.iter().map(|text| self.encode_segment(text, *add_special_tokens)).collect()
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
        let templates = self.templates.as_ref().map_err(|problem| EncodeError::template(problem.clone()))?;
        chat::render(templates, chat, rules).map_err(EncodeError::template)
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

    /// Text of ids; unknown ids are left out, special tokens are kept.
    pub fn decode(&self, ids: &[TokenId]) -> String {
        self.tokenizer.decode(ids, false).unwrap_or_default()
    }

    /// Encodes one piece of text on its own. The only place that calls the tokenizer: what is known to split
    /// (texts of a list today) comes here piece by piece.
    fn encode_segment(&self, text: &str, add_special_tokens: bool) -> Result<Vec<TokenId>, EncodeError> {
        let encoding =
            self.tokenizer.encode_fast(text, add_special_tokens).map_err(EncodeError::tokenizer)?;
        Ok(encoding.get_ids().to_vec())
    }
}
