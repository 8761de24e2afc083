//! The tokenizer of simulated engines: the same library that the router uses, handed in from outside so that the
//! engine itself stays free of it, and a small built-in model so that nothing has to be downloaded.

use std::fs;
use std::io;
use std::path::Path;

use kvroute_core::TokenId;
use kvroute_openai::{ClientRequest, Prompt};
use kvroute_sim::PromptEncoder;
use kvroute_tokenize::{ChatRules, PromptTokenizer};
use tempfile::TempDir;

use crate::failure::Failure;

/// The demo model's files, by their names in a model folder.
const DEMO_FILES: [(&str, &[u8]); 2] = [
    ("tokenizer.json", include_bytes!("../../../assets/demo-tokenizer/tokenizer.json")),
    ("tokenizer_config.json", include_bytes!("../../../assets/demo-tokenizer/tokenizer_config.json")),
];

/// The demo model's training text, from which the demo writes its prompts.
pub(crate) const DEMO_CORPUS: &str = include_str!("../../../assets/demo-tokenizer/corpus.txt");

/// More words make no better answers, and a large vocabulary takes long to search.
const MOST_WORDS: usize = 4096;

/// A model's tokenizer as a simulated engine needs it.
#[derive(Debug)]
pub(crate) struct EngineTokenizer(PromptTokenizer);

/// Writes the demo model's folder; it is removed when the value is dropped.
pub(crate) fn demo_folder() -> Result<TempDir, Failure> {
    let unpack = || -> io::Result<TempDir> {
        let folder = tempfile::Builder::new().prefix("kvroute-demo-tokenizer-").tempdir()?;
        for (name, content) in DEMO_FILES {
            fs::write(folder.path().join(name), content)?;
        }
        Ok(folder)
    };
    unpack().map_err(|error| {
        Failure::while_doing("cannot write the built-in tokenizer to the temporary folder", error)
    })
}

/// The tokenizer of the built-in demo model.
pub(crate) fn demo_tokenizer() -> Result<EngineTokenizer, Failure> {
    let folder = demo_folder()?;
    EngineTokenizer::load(folder.path())
}

// === impl EngineTokenizer ===

impl EngineTokenizer {
    /// Loads a model folder or a `tokenizer.json`.
    pub(crate) fn load(path: &Path) -> Result<Self, Failure> {
        PromptTokenizer::load(path).map(Self).map_err(|error| Failure::Usage(error.to_string()))
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

impl PromptEncoder for EngineTokenizer {
    fn encode(&self, request: &ClientRequest) -> Result<Vec<Vec<TokenId>>, String> {
        self.0.encode(&request.prompt, ChatRules::Vllm).map_err(|error| error.to_string())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(tokenizer: &EngineTokenizer, text: String) -> Vec<TokenId> {
        let prompt = Prompt::Texts { texts: vec![text], add_special_tokens: false };
        tokenizer.0.encode(&prompt, ChatRules::Plain).unwrap().remove(0)
    }

    #[test]
    fn an_answer_of_plain_words_encodes_to_the_ids_it_was_made_of() {
        let tokenizer = demo_tokenizer().unwrap();
        let words = tokenizer.plain_ids();
        assert!(words.len() > 200, "only {} plain words", words.len());
        assert_eq!(encode(&tokenizer, tokenizer.decode(&words)), words);
    }

    #[test]
    fn the_built_in_model_renders_chats() {
        assert!(demo_tokenizer().unwrap().0.has_chat_template());
    }
}
