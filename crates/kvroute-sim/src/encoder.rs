//! The tokenizer as the engine needs it.
//!
//! A trait, because the engine must not choose a tokenizer: whoever starts it passes the one whose ids the router
//! is expected to reproduce.

use kvroute_core::TokenId;
use kvroute_openai::ClientRequest;

use crate::config::Flavour;

/// Turns requests into token ids and ids into text.
pub trait PromptEncoder: Send + Sync {
    /// The ids of every prompt of a request, in order: chats rendered by the template, texts encoded, id lists
    /// passed through.
    ///
    /// # Errors
    /// A message for the client: what cannot be encoded and why.
    fn encode(&self, request: &ClientRequest) -> Result<Vec<Vec<TokenId>>, String>;

    /// The same as that engine would have it, where engines prepare a chat in different ways.
    ///
    /// # Errors
    /// As [`PromptEncoder::encode`].
    fn encode_for(&self, _: Flavour, request: &ClientRequest) -> Result<Vec<Vec<TokenId>>, String> {
        self.encode(request)
    }

    /// The text of a chat for the model, where there is a template.
    ///
    /// # Errors
    /// A message for the client: what cannot be rendered and why.
    fn render(&self, _: Flavour, _: &ClientRequest) -> Result<String, String> {
        Err(String::from("this engine has no chat template"))
    }

    /// The text of some ids.
    fn decode(&self, tokens: &[TokenId]) -> String;

    /// Ids from which answers are composed; must not be empty. Best are whole words with their leading space
    /// that encode to themselves, so that an answer sent back in the next turn has the ids it was made of.
    fn plain_ids(&self) -> Vec<TokenId>;

    /// Ids below this number exist; others in a prompt are refused.
    fn vocabulary_size(&self) -> u32;
}
