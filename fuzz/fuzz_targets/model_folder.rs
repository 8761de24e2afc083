//! The files of a model folder: `tokenizer_config.json`, and behind a byte `0xff` (which no text holds)
//! `chat_template.jinja`. The folder loads, or the error names the file. A template that compiles renders a chat or says
//! why not, and comes to an end.

#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use bytes::Bytes;
use kvroute_openai::{ClientRequest, Endpoint, Prompt};
use kvroute_tokenize::{ChatRules, PromptTokenizer};
use libfuzzer_sys::fuzz_target;

/// The least that is a tokenizer; loading it costs next to nothing.
const TOKENIZER: &str = r#"{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}"#;

/// A chat with everything that a template may ask for.
const BODY: &[u8] = br#"{"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"u"}]},
    {"role":"assistant","content":null,"reasoning_content":"r","tool_calls":[{"id":"1","type":"function","function":
    {"name":"f","arguments":"{\"a\":1.50}"}}]},{"role":"tool","tool_call_id":"1","content":"t"},{"role":"user","content":"v"}],
    "tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}}],
    "documents":[{"title":"d","text":"e"}]}"#;

static CHAT: LazyLock<Prompt> = LazyLock::new(|| {
    let request = ClientRequest::parse(Endpoint::ChatCompletions, Bytes::from_static(BODY));
    request.expect("the chat is one").prompt
});

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
        Ok(tokenizer) => {
            assert_ne!(tokenizer.has_chat_template(), tokenizer.template_problem().is_some());
            render(&tokenizer);
        }
        Err(error) => {
            let message = error.to_string();
            assert!(
                message.contains("tokenizer_config.json") || message.contains("chat_template.jinja"),
                "{message}"
            );
        }
    }
});

fn render(tokenizer: &PromptTokenizer) {
    for rules in [ChatRules::Plain, ChatRules::Vllm, ChatRules::Sglang] {
        if let Err(error) = tokenizer.encode(&CHAT, rules) {
            assert!(!error.message.is_empty());
        }
    }
}

/// Writes a file, or takes it away.
fn put(name: &str, text: Option<&[u8]>) {
    let file = FOLDER.join(name);
    match text {
        Some(bytes) => fs::write(file, bytes).expect("the folder can be written to"),
        None => drop(fs::remove_file(file)),
    }
}
