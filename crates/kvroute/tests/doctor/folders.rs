//! Model folders that are wrong in one way each, made from the project's own.

use std::fs;
use std::path::{Path, PathBuf};

use kvroute_testkit::demo_tokenizer_folder;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A folder with both files of a model, removed when dropped.
pub(crate) struct Folder(TempDir);

// === impl Folder ===

impl Folder {
    /// The project's own model with its tokenizer changed.
    pub(crate) fn with_tokenizer(change: impl FnOnce(&mut Value)) -> Self {
        Self::changed(change, |_| {})
    }

    /// The project's own model with its configuration, where the template is, changed.
    pub(crate) fn with_config(change: impl FnOnce(&mut Value)) -> Self {
        Self::changed(|_| {}, change)
    }

    /// One that has two common words the other way round.
    pub(crate) fn with_words_swapped() -> Self {
        Self::with_tokenizer(|tokenizer| {
            let vocabulary = tokenizer["model"]["vocab"].as_object_mut().unwrap();
            let [the, is] = ["\u{120}the", "\u{120}is"].map(|word| vocabulary[word].clone());
            vocabulary.insert("\u{120}the".to_owned(), is);
            vocabulary.insert("\u{120}is".to_owned(), the);
        })
    }

    /// One that writes a token before every text.
    pub(crate) fn with_begin_token() -> Self {
        Self::with_tokenizer(|tokenizer| {
            let begin = json!({"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}});
            let text = json!({"Sequence": {"id": "A", "type_id": 0}});
            let special = json!({"id": "<|endoftext|>", "ids": [2041], "tokens": ["<|endoftext|>"]});
            tokenizer["post_processor"] = json!({
                "type": "TemplateProcessing",
                "single": [begin, text],
                "pair": [begin, text, {"Sequence": {"id": "B", "type_id": 0}}],
                "special_tokens": {"<|endoftext|>": special},
            });
        })
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn argument(&self) -> &str {
        self.path().to_str().unwrap()
    }

    fn changed(tokenizer: impl FnOnce(&mut Value), config: impl FnOnce(&mut Value)) -> Self {
        let folder = TempDir::new().unwrap();
        rewrite("tokenizer.json", folder.path(), tokenizer);
        rewrite("tokenizer_config.json", folder.path(), config);
        Self(folder)
    }
}

fn rewrite(name: &str, folder: &Path, change: impl FnOnce(&mut Value)) {
    let mut content = serde_json::from_slice(&fs::read(demo_tokenizer_folder().join(name)).unwrap()).unwrap();
    change(&mut content);
    fs::write(folder.join(name), content.to_string()).unwrap();
}

/// The project's own model, as an argument.
pub(crate) fn demo() -> String {
    let folder: PathBuf = demo_tokenizer_folder();
    folder.to_str().unwrap().to_owned()
}
