//! A model folder's tokenizer as a simulated engine needs it.
//!
//! It is the library that the router uses too: what the simulated engine must not share with the router is the
//! cache. A tokenizer of its own would only make the two disagree about what a prompt is.

use std::path::Path;

use kvroute_core::TokenId;
use kvroute_openai::{ClientRequest, Prompt};
use kvroute_tokenize::{ChatRules, LoadError, PromptTokenizer};

use crate::{Flavour, PromptEncoder};

/// More words make no better answers, and a large vocabulary takes long to search.
const MOST_WORDS: usize = 4096;

/// Encodes as the engine of that model would.
#[derive(Debug)]
pub struct TokenizerEncoder(PromptTokenizer);

// === impl TokenizerEncoder ===

impl TokenizerEncoder {
    /// Loads a model folder or a `tokenizer.json`.
    ///
    /// # Errors
    /// Names the file, what is wrong with it and the remedy.
    pub fn load(path: &Path) -> Result<Self, LoadError> {
        PromptTokenizer::load(path).map(Self)
    }

    /// True if the id is a whole word behind a space and its text encodes to it alone, so that an answer that
    /// comes back in the next turn has the ids that it was made of.
    fn is_plain_word(&self, id: TokenId) -> bool {
        let text = self.0.decode(&[id]);
        let word = text.strip_prefix(' ').unwrap_or_default();
        if word.len() < 2 || !word.chars().all(char::is_alphabetic) {
            return false;
        }
        let prompt = Prompt::Texts { texts: vec![text], add_special_tokens: false };
        self.0.encode(&prompt, ChatRules::Plain).is_ok_and(|lists| lists == [[id]])
    }
}

impl PromptEncoder for TokenizerEncoder {
    fn encode(&self, request: &ClientRequest) -> Result<Vec<Vec<TokenId>>, String> {
        self.encode_for(Flavour::Vllm, request)
    }

    fn encode_for(&self, flavour: Flavour, request: &ClientRequest) -> Result<Vec<Vec<TokenId>>, String> {
        self.0.encode(&request.prompt, rules(flavour)).map_err(|error| error.to_string())
    }

    fn render(&self, flavour: Flavour, request: &ClientRequest) -> Result<String, String> {
        let Prompt::Chat(chat) = &request.prompt else { return Err(String::from("this is no chat")) };
        self.0.render(chat, rules(flavour)).map_err(|error| error.to_string())
    }

    fn decode(&self, tokens: &[TokenId]) -> String {
        self.0.decode(tokens)
    }

    fn plain_ids(&self) -> Vec<TokenId> {
        (0..self.0.vocabulary_size()).filter(|id| self.is_plain_word(*id)).take(MOST_WORDS).collect()
    }

    fn vocabulary_size(&self) -> u32 {
        self.0.vocabulary_size()
    }
}

/// How that engine prepares a chat for the template. llama.cpp's own way is near enough to vLLM's: what counts is that it is
/// asked for.
const fn rules(flavour: Flavour) -> ChatRules {
    match flavour {
        Flavour::Vllm | Flavour::LlamaCpp => ChatRules::Vllm,
        Flavour::Sglang => ChatRules::Sglang,
        Flavour::TrtLlm => ChatRules::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_plain_words_encodes_to_the_ids_it_was_made_of() {
        let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/demo-tokenizer");
        let encoder = TokenizerEncoder::load(&model).unwrap();
        let words = encoder.plain_ids();
        assert!(words.len() > 200, "only {} plain words", words.len());
        let prompt = Prompt::Texts { texts: vec![encoder.decode(&words)], add_special_tokens: false };
        assert_eq!(encoder.0.encode(&prompt, ChatRules::Plain).unwrap(), [words]);
    }
}
