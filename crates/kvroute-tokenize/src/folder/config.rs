//! `tokenizer_config.json`, as far as chats need it.

use std::collections::BTreeMap;

use minijinja::Value;

use crate::tree::{Members, Tree};

/// The special tokens that Hugging Face hands to templates by these names.
const SPECIAL_TOKENS: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// What the file says.
#[derive(Debug, Default)]
pub(super) struct TokenizerConfig {
    /// Chat templates by name.
    pub(super) templates: BTreeMap<String, String>,
    /// Template variables of special tokens.
    pub(super) special_tokens: Vec<(String, Value)>,
}

// === impl TokenizerConfig ===

impl TokenizerConfig {
    /// Reads the file's text.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let tree = Tree::parse(text).map_err(|error| format!("is no JSON: {error}"))?;
        let Tree::Map(mut members) = tree else { return Err("is no JSON object".to_owned()) };
        let templates = match members.take("chat_template") {
            Some(tree) => read_templates(tree)?,
            None => BTreeMap::new(),
        };
        Ok(Self { templates, special_tokens: read_special_tokens(members) })
    }

    /// Text of the token at the start of a text.
    pub(super) fn bos_token(&self) -> Option<String> {
        let found = self.special_tokens.iter().find(|(name, _)| name == "bos_token");
        found.and_then(|(_, token)| token.as_str()).map(str::to_owned)
    }
}

/// One template, or a list of named ones.
fn read_templates(tree: Tree) -> Result<BTreeMap<String, String>, String> {
    match tree {
        Tree::Text(template) if template.is_empty() => Ok(BTreeMap::new()),
        Tree::Text(template) => Ok(BTreeMap::from([("default".to_owned(), template)])),
        Tree::List(list) => {
            list.into_iter().map(read_named).collect::<Option<_>>().ok_or_else(|| {
                "has a chat_template list whose elements are not all {name, template}".to_owned()
            })
        }
        _ => Err("has a chat_template that is neither text nor a list".to_owned()),
    }
}

fn read_named(tree: Tree) -> Option<(String, String)> {
    let Tree::Map(mut members) = tree else { return None };
    match (members.take("name"), members.take("template")) {
        (Some(Tree::Text(name)), Some(Tree::Text(template))) => Some((name, template)),
        _ => None,
    }
}

fn read_special_tokens(mut members: Members) -> Vec<(String, Value)> {
    let mut variables = Vec::new();
    for name in SPECIAL_TOKENS {
        let token = members.take(name).and_then(token_text);
        variables.extend(token.map(|text| (name.to_owned(), Value::from(text))));
    }
    if let Some(Tree::List(additional)) = members.take("additional_special_tokens") {
        let texts: Vec<Value> = additional.into_iter().filter_map(token_text).map(Value::from).collect();
        variables.push(("additional_special_tokens".to_owned(), Value::from(texts)));
    }
    if let Some(Tree::Map(extra)) = members.take("extra_special_tokens") {
        let named = extra.into_iter().filter_map(|(name, tree)| Some((name, Value::from(token_text(tree)?))));
        variables.extend(named);
    }
    variables
}

/// A token is a text, or an object with its text as `content`.
fn token_text(tree: Tree) -> Option<String> {
    match tree {
        Tree::Text(text) => Some(text),
        Tree::Map(mut members) => members.take("content").and_then(token_text),
        _ => None,
    }
}
