//! The `prompt` of a completion: one text, texts, token ids, or lists of token ids.

use kvroute_core::TokenId;

use super::fields::wrong_type;
use crate::{JsonKind, JsonReader, Prompt, RequestError};

const FORMS: &str = "a text, a list of texts, token ids, or a list of token id lists";

/// What the elements of a prompt array turned out to be, by its first one.
enum Elements {
    None,
    Texts(Vec<String>),
    Ids(Vec<TokenId>),
    Lists(Vec<Vec<TokenId>>),
}

/// Reads the field; `None` for null.
pub(super) fn read_prompt(reader: &mut JsonReader<'_>) -> Result<Option<Prompt>, RequestError> {
    match reader.kind()? {
        JsonKind::Null => {
            reader.null()?;
            Ok(None)
        }
        JsonKind::String => Ok(Some(texts(vec![reader.string()?.into_owned()]))),
        JsonKind::Array => read_array(reader),
        other => Err(wrong_type("prompt", other, FORMS)),
    }
}

/// Judges the field once the whole body was read.
pub(super) fn finish_prompt(
    prompt: Option<Prompt>,
    add_special_tokens: Option<bool>,
) -> Result<Prompt, RequestError> {
    let Some(mut read) = prompt else {
        let message = format!("prompt is missing; send {FORMS}");
        return Err(RequestError::invalid_field("prompt", message));
    };
    let empty = match &read {
        Prompt::Chat(_) | Prompt::Foreign(_) => false,
        Prompt::Texts { texts, .. } => texts.is_empty() || texts.iter().any(String::is_empty),
        Prompt::TokenLists(lists) => lists.is_empty() || lists.iter().any(Vec::is_empty),
    };
    if empty {
        let message = "prompt is empty; send at least one character or token id for each prompt";
        return Err(RequestError::invalid_field("prompt", message));
    }
    if let (Prompt::Texts { add_special_tokens: add, .. }, Some(wanted)) = (&mut read, add_special_tokens) {
        *add = wanted;
    }
    Ok(read)
}

fn texts(texts: Vec<String>) -> Prompt {
    Prompt::Texts { texts, add_special_tokens: true }
}

fn read_array(reader: &mut JsonReader<'_>) -> Result<Option<Prompt>, RequestError> {
    let mut elements = Elements::None;
    let mut index = 0;
    reader.array(|element| {
        elements.push(element, index)?;
        index += 1;
        Ok::<(), RequestError>(())
    })?;
    Ok(Some(match elements {
        Elements::None => texts(Vec::new()),
        Elements::Texts(list) => texts(list),
        Elements::Ids(ids) => Prompt::TokenLists(vec![ids]),
        Elements::Lists(lists) => Prompt::TokenLists(lists),
    }))
}

fn read_ids(reader: &mut JsonReader<'_>, list: usize) -> Result<Vec<TokenId>, RequestError> {
    let mut ids = Vec::new();
    reader.array(|element| {
        let kind = element.kind()?;
        let place = format_args!("prompt[{list}][{}]", ids.len());
        if kind != JsonKind::Number {
            let message = format!("{place} is {}; send token ids", kind.noun());
            return Err(RequestError::invalid_field("prompt", message));
        }
        let id = parse_id(element.number()?, place)?;
        ids.push(id);
        Ok(())
    })?;
    Ok(ids)
}

fn parse_id(written: &str, place: std::fmt::Arguments<'_>) -> Result<TokenId, RequestError> {
    written.parse().map_err(|_| {
        let message = format!("{place} is {written}; token ids are whole numbers from 0 to {}", TokenId::MAX);
        RequestError::invalid_field("prompt", message)
    })
}

// === impl Elements ===

impl Elements {
    fn push(&mut self, reader: &mut JsonReader<'_>, index: usize) -> Result<(), RequestError> {
        let kind = reader.kind()?;
        if matches!(self, Self::None) {
            *self = Self::for_kind(kind, index)?;
        }
        match (self, kind) {
            (Self::Texts(texts), JsonKind::String) => texts.push(reader.string()?.into_owned()),
            (Self::Ids(ids), JsonKind::Number) => {
                ids.push(parse_id(reader.number()?, format_args!("prompt[{index}]"))?);
            }
            (Self::Lists(lists), JsonKind::Array) => lists.push(read_ids(reader, index)?),
            _ => {
                let noun = kind.noun();
                let message = format!(
                    "prompt[{index}] is {noun}, unlike the elements before; send one kind of elements"
                );
                return Err(RequestError::invalid_field("prompt", message));
            }
        }
        Ok(())
    }

    fn for_kind(kind: JsonKind, index: usize) -> Result<Self, RequestError> {
        match kind {
            JsonKind::String => Ok(Self::Texts(Vec::new())),
            JsonKind::Number => Ok(Self::Ids(Vec::new())),
            JsonKind::Array => Ok(Self::Lists(Vec::new())),
            other => {
                let message = format!("prompt[{index}] is {}; send {FORMS}", other.noun());
                Err(RequestError::invalid_field("prompt", message))
            }
        }
    }
}
