//! The files of a model folder: `tokenizer_config.json`, and behind a byte `0xff` (which no text holds)
//! `chat_template.jinja`. The folder loads, or the error names the file.

#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use kvroute_tokenize::PromptTokenizer;
use libfuzzer_sys::fuzz_target;

/// The least that is a tokenizer; loading it costs next to nothing.
const TOKENIZER: &str = r#"{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}"#;

/// A folder of this process.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("kvroute-fuzz-model-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("tokenizer.json"), TOKENIZER).expect("the folder can be written to");
    folder
});

fuzz_target!(|input: &[u8]| {
    let mut files = input.splitn(2, |byte| *byte == 0xff);
    put("tokenizer_config.json", files.next());
    put("chat_template.jinja", files.next());
    match PromptTokenizer::load(&FOLDER) {
        Ok(tokenizer) => assert_ne!(tokenizer.has_chat_template(), tokenizer.template_problem().is_some()),
        Err(error) => {
            let message = error.to_string();
            assert!(
                message.contains("tokenizer_config.json") || message.contains("chat_template.jinja"),
                "{message}"
            );
        }
    }
});

/// Writes a file, or takes it away.
fn put(name: &str, text: Option<&[u8]>) {
    let file = FOLDER.join(name);
    match text {
        Some(bytes) => fs::write(file, bytes).expect("the folder can be written to"),
        None => drop(fs::remove_file(file)),
    }
}
