//! The tokenizers, or the word that there are none.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use kvroute_tokenize::PromptTokenizer;

/// The folder of a model, named as `cargo xtask peers` names it.
pub(crate) fn folder(model: &str) -> Option<PathBuf> {
    let folder = PathBuf::from(peer("KVROUTE_TOKENIZERS")?).join(model);
    assert!(folder.is_dir(), "{} is missing; set the peers up again", folder.display());
    Some(folder)
}

/// The tokenizer of a model.
pub(crate) fn load(model: &str) -> Option<PromptTokenizer> {
    folder(model).map(|folder| load_from(&folder))
}

/// The tokenizer in a folder.
pub(crate) fn load_from(folder: &Path) -> PromptTokenizer {
    PromptTokenizer::load(folder).unwrap_or_else(|error| panic!("{error}"))
}

/// A peer's variable. Unset, the test is skipped with a word, or fails where peers are required.
pub(crate) fn peer(variable: &str) -> Option<OsString> {
    let found = std::env::var_os(variable);
    if found.is_none() {
        let is_required = std::env::var("KVROUTE_REQUIRE_PEERS").is_ok_and(|value| value == "1");
        assert!(!is_required, "{variable} is not set; run the tests by cargo xtask test");
        eprintln!("skipped: {variable} is not set");
    }
    found
}
