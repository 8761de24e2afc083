//! The built-in model of the demo and of `kvroute engine`: a tokenizer with a chat template, so that nothing has to
//! be downloaded.

use std::fs;
use std::io;

use kvroute_sim::TokenizerEncoder;
use tempfile::TempDir;

use crate::failure::Failure;

/// The demo model's files, by their names in a model folder.
const DEMO_FILES: [(&str, &[u8]); 2] = [
    ("tokenizer.json", include_bytes!("../../../assets/demo-tokenizer/tokenizer.json")),
    ("tokenizer_config.json", include_bytes!("../../../assets/demo-tokenizer/tokenizer_config.json")),
];

/// The demo model's training text, from which the demo writes its prompts.
pub(crate) const DEMO_CORPUS: &str = include_str!("../../../assets/demo-tokenizer/corpus.txt");

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

/// The demo model's tokenizer as an engine needs it.
pub(crate) fn demo_tokenizer() -> Result<TokenizerEncoder, Failure> {
    let folder = demo_folder()?;
    Ok(TokenizerEncoder::load(folder.path())?)
}

#[cfg(test)]
mod tests {
    use kvroute_tokenize::PromptTokenizer;

    use super::*;

    #[test]
    fn the_built_in_model_renders_chats() {
        let folder = demo_folder().unwrap();
        assert!(PromptTokenizer::load(folder.path()).unwrap().has_chat_template());
    }
}
