//! Generated chats, rendered and encoded as the reference libraries do it, byte for byte.

use std::fs;
use std::path::PathBuf;

use bytes::Bytes;
use kvroute_core::TokenId;
use kvroute_openai::{ClientRequest, Endpoint, Prompt};
use kvroute_tokenize::{ChatRules, PromptTokenizer};
use serde_json::{Value, json};

use crate::chats::chat;
use crate::random::Dice;
use crate::{peers, reference};

/// Chats a model.
const CHATS: usize = 300;
/// Chats a template of the large collection.
const CHATS_A_TEMPLATE: usize = 20;

/// Templates that cannot be rendered here as Python's Jinja does it, and say so.
const LEFT_TO_THE_ENGINE: [&str; 1] = ["meetkai-functionary-medium-v3.1"];

fn prompt(body: &Value) -> Prompt {
    let request = ClientRequest::parse(Endpoint::ChatCompletions, Bytes::from(body.to_string()));
    request.unwrap_or_else(|error| panic!("{body}: {error}")).prompt
}

fn render(tokenizer: &PromptTokenizer, body: &Value) -> Result<String, String> {
    let Prompt::Chat(chat) = prompt(body) else { panic!("no chat: {body}") };
    tokenizer.render(&chat, ChatRules::Plain).map_err(|error| error.message)
}

/// What came of one chat.
enum Outcome {
    Equal,
    /// The reference does not render it, so an engine answers with an error and nothing is counted.
    Refused,
    /// What differs, where.
    Different(String),
}

fn compare(tokenizer: &PromptTokenizer, body: &Value, expected: &Value) -> Outcome {
    let (text, ours) = match (expected["text"].as_str(), render(tokenizer, body)) {
        (None, _) => return Outcome::Refused,
        (Some(_), Err(problem)) => return Outcome::Different(problem),
        (Some(text), Ok(ours)) => (text, ours),
    };
    if ours != text {
        return Outcome::Different(first_difference(&ours, text));
    }
    if let Some(ids) = expected["ids"].as_array() {
        let expected_ids: Vec<TokenId> = ids.iter().map(|id| id.as_u64().unwrap() as TokenId).collect();
        let our_ids = tokenizer.encode(&prompt(body), ChatRules::Plain).unwrap().remove(0);
        if our_ids != expected_ids {
            return Outcome::Different(format!("ids of {text:?}"));
        }
    }
    Outcome::Equal
}

fn first_difference(ours: &str, expected: &str) -> String {
    let place = ours.char_indices().zip(expected.chars()).find(|((_, our), other)| our != other);
    let at = place.map_or_else(|| ours.len().min(expected.len()), |((at, _), _)| at);
    let show = |text: &str| text[at..].chars().take(60).collect::<String>();
    let before: String = ours[..at].chars().rev().take(60).collect::<Vec<_>>().into_iter().rev().collect();
    format!("behind {before:?}\n  ours     {:?}\n  expected {:?}", show(ours), show(expected))
}

/// The number of chats that are equal on both sides.
fn compare_all(
    name: &str,
    tokenizer: &PromptTokenizer,
    bodies: &[Value],
    answers: &[Value],
) -> Result<usize, String> {
    let mut equal = 0;
    for (index, (body, expected)) in bodies.iter().zip(answers).enumerate() {
        match compare(tokenizer, body, expected) {
            Outcome::Equal => equal += 1,
            Outcome::Refused => {}
            Outcome::Different(how) => return Err(format!("{name}, chat {index}: {how}")),
        }
    }
    eprintln!("{name}: {equal} of {} chats equal, the others refused", bodies.len());
    Ok(equal)
}

fn compare_model(model: &str) {
    let Some(folder) = peers::folder(model) else { return };
    let mut dice = Dice::new(7);
    let mut work = vec![json!({"folder": folder})];
    work.extend((0..CHATS).map(|_| chat(&mut dice)));
    let Some(answers) = reference::answers(&work) else { return };
    let tokenizer = peers::load_from(&folder);
    assert_eq!(answers.len(), CHATS);
    let equal =
        compare_all(model, &tokenizer, &work[1..], &answers).unwrap_or_else(|problem| panic!("{problem}"));
    assert!(equal > CHATS / 4, "{equal}");
}

#[test]
fn chats_of_qwen3_are_rendered_and_encoded_as_by_the_reference() {
    compare_model("qwen3");
}

#[test]
fn chats_of_deepseek_v3_are_rendered_and_encoded_as_by_the_reference() {
    compare_model("deepseek_v3");
}

#[test]
fn chats_of_llama3_are_rendered_and_encoded_as_by_the_reference() {
    compare_model("llama3");
}

#[test]
fn chats_of_llama3_1_are_rendered_and_encoded_as_by_the_reference() {
    compare_model("llama3_1");
}

/// A folder with the demo tokenizer and a template.
fn model_of(template: &str) -> PromptTokenizer {
    let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/demo-tokenizer/tokenizer.json");
    let folder = tempfile::TempDir::new().unwrap();
    fs::copy(demo, folder.path().join("tokenizer.json")).unwrap();
    let config = json!({"chat_template": template, "bos_token": "<s>", "eos_token": "</s>"});
    fs::write(folder.path().join("tokenizer_config.json"), config.to_string()).unwrap();
    peers::load_from(folder.path())
}

fn template_files() -> Option<Vec<PathBuf>> {
    let folder = PathBuf::from(peers::peer("KVROUTE_CHAT_TEMPLATES")?);
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|end| end == "jinja")).collect();
    files.sort();
    Some(files)
}

#[test]
fn chats_are_rendered_as_by_the_reference_for_each_of_seventy_templates() {
    let Some(files) = template_files() else { return };
    assert!(files.len() > 70, "{}", files.len());
    let templates: Vec<String> = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    let mut work = Vec::new();
    let mut bodies = Vec::new();
    for (index, template) in templates.iter().enumerate() {
        let mut dice = Dice::new(index as u64);
        work.push(json!({"template": template, "special_tokens": {"bos_token": "<s>", "eos_token": "</s>"}}));
        bodies.push((0..CHATS_A_TEMPLATE).map(|_| chat(&mut dice)).collect::<Vec<_>>());
        work.extend(bodies[index].iter().cloned());
    }
    let Some(answers) = reference::answers(&work) else { return };
    assert_eq!(answers.len(), files.len() * CHATS_A_TEMPLATE);
    let mut problems = Vec::new();
    let mut left_to_the_engine = Vec::new();
    for (index, file) in files.iter().enumerate() {
        let name = file.file_stem().unwrap().to_string_lossy();
        let tokenizer = model_of(&templates[index]);
        if let Some(problem) = tokenizer.template_problem() {
            eprintln!("{name} is left to the engine: {problem}");
            left_to_the_engine.push(name.into_owned());
            continue;
        }
        let expected = &answers[index * CHATS_A_TEMPLATE..][..CHATS_A_TEMPLATE];
        problems.extend(compare_all(&name, &tokenizer, &bodies[index], expected).err());
    }
    assert_eq!(left_to_the_engine, LEFT_TO_THE_ENGINE);
    assert!(problems.is_empty(), "{} templates differ:\n{}", problems.len(), problems.join("\n"));
}
