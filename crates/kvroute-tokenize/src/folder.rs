//! A model folder: the tokenizer and what its configuration says about chats.

mod config;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use self::config::TokenizerConfig;
use crate::LoadError;
use crate::encoder::knows_words;
use crate::model::{Model, Tokenizer};
use crate::template::ChatTemplates;

const TOKENIZER: &str = "tokenizer.json";
const CONFIG: &str = "tokenizer_config.json";
const JSON_TEMPLATE: &str = "chat_template.json";
const TEMPLATE: &str = "chat_template.jinja";
const NAMED_TEMPLATES: &str = "additional_chat_templates";
const WHAT_TO_GIVE: &str = "give a model folder with a tokenizer.json, or the path of a tokenizer.json";

/// What a model folder holds.
pub(crate) struct ModelFolder {
    /// From `tokenizer.json`, without truncation and padding.
    pub(crate) tokenizer: Tokenizer,
    /// The templates, or why there are none.
    pub(crate) templates: Result<ChatTemplates, String>,
    /// Text of the token at the start of a text.
    pub(crate) bos_token: Option<String>,
}

/// Loads a folder, or the folder around a `tokenizer.json`.
pub(crate) fn load(path: &Path) -> Result<ModelFolder, LoadError> {
    let (folder, file) = locate(path)?;
    let tokenizer = load_tokenizer(&file)?;
    let config = match read_optional(&folder.join(CONFIG))? {
        Some(text) => TokenizerConfig::parse(&text).map_err(|problem| {
            LoadError::new(&folder.join(CONFIG), format!("{problem}; repair the file or remove it"))
        })?,
        None => TokenizerConfig::default(),
    };
    let bos_token = config.bos_token();
    let templates = load_templates(&folder, config)?;
    Ok(ModelFolder { tokenizer, templates, bos_token })
}

fn locate(path: &Path) -> Result<(PathBuf, PathBuf), LoadError> {
    let metadata = fs::metadata(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            LoadError::new(path, format!("there is no such file or folder; {WHAT_TO_GIVE}"))
        }
        _ => LoadError::new(path, format!("cannot be read: {error}; check its permissions")),
    })?;
    if !metadata.is_dir() {
        let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        return Ok((folder.unwrap_or_else(|| Path::new(".")).to_owned(), path.to_owned()));
    }
    let file = path.join(TOKENIZER);
    if file.exists() {
        return Ok((path.to_owned(), file));
    }
    Err(LoadError::new(path, format!("the folder has no {TOKENIZER}; {WHAT_TO_GIVE}")))
}

fn load_tokenizer(file: &Path) -> Result<Tokenizer, LoadError> {
    let bytes = fs::read(file)
        .map_err(|error| LoadError::new(file, format!("cannot be read: {error}; check its permissions")))?;
    let malformed =
        |error: &dyn Display| LoadError::new(file, format!("is no tokenizer: {error}; {WHAT_TO_GIVE}"));
    let text = std::str::from_utf8(&bytes).map_err(|error| malformed(&error))?;
    let mut tokenizer: Tokenizer = serde_json::from_str(text).map_err(|error| malformed(&error))?;
    if matches!(tokenizer.get_model(), Model::Pairs(_)) && !knows_words(&tokenizer) {
        // All of its texts are the library's work, whose own model knows the words that it had last.
        tokenizer.with_model(Model::of_the_library(text).map_err(|error| malformed(&error))?);
    }
    // Both are choices of a training run; an engine counts every token of a prompt and no padding.
    tokenizer.with_truncation(None).map_err(|error| LoadError::new(file, error))?;
    tokenizer.with_padding(None);
    Ok(tokenizer)
}

fn load_templates(
    folder: &Path,
    config: TokenizerConfig,
) -> Result<Result<ChatTemplates, String>, LoadError> {
    let mut sources = config.templates;
    if let Some(text) = read_optional(&folder.join(JSON_TEMPLATE))? {
        let file = TokenizerConfig::parse(&text).map_err(|problem| {
            LoadError::new(&folder.join(JSON_TEMPLATE), format!("{problem}; repair the file or remove it"))
        })?;
        sources.extend(file.templates);
    }
    if let Some(text) = read_optional(&folder.join(TEMPLATE))? {
        sources.insert("default".to_owned(), text);
    }
    sources.extend(named_templates(&folder.join(NAMED_TEMPLATES))?);
    if sources.is_empty() {
        return Ok(Err(format!(
            "no chat template in {}: neither {TEMPLATE} nor {JSON_TEMPLATE} nor chat_template in {CONFIG}; add one of them to have \
             chats routed by prefix",
            folder.display()
        )));
    }
    let compiled = ChatTemplates::compile(sources, config.special_tokens);
    Ok(compiled.map_err(|problem| format!("{problem}; in {}", folder.display())))
}

fn named_templates(folder: &Path) -> Result<BTreeMap<String, String>, LoadError> {
    let mut named = BTreeMap::new();
    let Ok(entries) = fs::read_dir(folder) else { return Ok(named) };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.extension().is_some_and(|extension| extension == "jinja")
            && let Some(name) = path.file_stem().and_then(|stem| stem.to_str())
            && let Some(text) = read_optional(&path)?
        {
            named.insert(name.to_owned(), text);
        }
    }
    Ok(named)
}

fn read_optional(file: &Path) -> Result<Option<String>, LoadError> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => {
            Err(LoadError::new(file, format!("cannot be read: {error}; repair the file or remove it")))
        }
    }
}
