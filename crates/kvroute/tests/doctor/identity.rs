//! Tokenizers and templates that are not the engine's.

use std::sync::Arc;

use kvroute_sim::{SimConfig, SimEngine, TokenizerEncoder};
use kvroute_testkit::engine;

use crate::command::{Examination, examine};
use crate::folders::{Folder, demo};

fn config() -> SimConfig {
    SimConfig { prefill_tps: 0, decode_tps: 0, ..SimConfig::default() }
}

/// An engine with the project's own model, and a router that would count by this folder.
async fn counted_by(folder: &str) -> Examination {
    let engine = engine(config()).await;
    examine(&[&engine.url(), "--tokenizer", folder]).await
}

#[tokio::test]
async fn another_vocabulary_is_another_tokenizer() {
    let folder = Folder::with_words_swapped();
    let found = counted_by(folder.argument()).await;
    assert_eq!((found.code, found.found(0)), (1, vec![("error", "other_tokenizer")]), "{}", found.report);
    let told = found.told("other_tokenizer");
    assert!(told.contains("at position") && told.contains("at the engine"), "{told}");
}

#[tokio::test]
async fn a_token_that_only_the_engine_begins_with_is_named() {
    let folder = Folder::with_begin_token();
    let encoder = TokenizerEncoder::load(folder.path()).unwrap();
    let engine = SimEngine::start(config(), Arc::new(encoder)).await.unwrap();
    let found = examine(&[&engine.url(), "--tokenizer", &demo()]).await;
    assert_eq!((found.code, found.found(0)), (1, vec![("error", "missing_bos")]), "{}", found.report);
    let told = found.told("missing_bos");
    assert!(
        told.contains("at position 0") && told.contains("2041 \"<|endoftext|>\" at the engine"),
        "{told}"
    );

    let found = counted_by(folder.argument()).await;
    assert_eq!((found.code, found.found(0)), (1, vec![("error", "extra_bos")]), "{}", found.report);
}

#[tokio::test]
async fn another_template_shows_in_chats_and_in_no_text() {
    let folder = Folder::with_config(|config| {
        let template = config["chat_template"].as_str().unwrap().replace("<|im_start|>", "<|im_start|> ");
        config["chat_template"] = template.into();
    });
    let found = counted_by(folder.argument()).await;
    let expected = vec![("error", "count_differs"), ("error", "wrong_template")];
    assert_eq!((found.code, found.found(0)), (1, expected), "{}", found.report);
    let told = found.told("wrong_template");
    assert!(!told.contains("plain text") && told.contains("system and turns"), "{told}");
}

#[tokio::test]
async fn a_folder_without_a_template_counts_no_chats() {
    let folder = Folder::with_config(|config| {
        config.as_object_mut().unwrap().remove("chat_template");
    });
    let found = counted_by(folder.argument()).await;
    assert_eq!((found.code, found.found(0)), (1, vec![("warning", "no_chat_template")]), "{}", found.report);
}

#[tokio::test]
async fn a_template_that_treats_only_tools_otherwise_is_no_other_template() {
    let folder = Folder::with_config(|config| {
        let template = config["chat_template"].as_str().unwrap().replace("# Tools", "# Functions");
        config["chat_template"] = template.into();
    });
    let found = counted_by(folder.argument()).await;
    assert_eq!((found.code, found.found(0)), (1, vec![("error", "prepared_otherwise")]), "{}", found.report);
    let told = found.told("prepared_otherwise");
    assert!(told.contains("tools, tool results") && !told.contains("developer"), "{told}");
}
