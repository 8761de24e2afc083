//! White space as Python knows it: four control characters more than Rust.

use std::borrow::Cow;

use minijinja::{Error, State, Value};
use minijinja_contrib::pycompat;

use super::float;

/// Methods of values that are Python's and not Jinja's.
pub(super) fn method(state: &mut State, value: &Value, name: &str, given: &[Value]) -> Result<Value, Error> {
    let has_arguments = given.iter().any(|argument| !argument.is_none());
    match (value.as_str(), name) {
        (Some(text), "strip") if !has_arguments => Ok(Value::from(text.trim_matches(is_space))),
        (Some(text), "lstrip") if !has_arguments => Ok(Value::from(text.trim_start_matches(is_space))),
        (Some(text), "rstrip") if !has_arguments => Ok(Value::from(text.trim_end_matches(is_space))),
        (Some(text), "split") if !has_arguments => {
            Ok(text.split(is_space).filter(|word| !word.is_empty()).map(Value::from).collect())
        }
        (Some(text), "isspace") if !has_arguments => {
            Ok(Value::from(!text.is_empty() && text.chars().all(is_space)))
        }
        _ => pycompat::unknown_method_callback(state, value, name, given),
    }
}

/// The filter `trim`.
pub(super) fn trim(value: &Value, characters: Option<Cow<'_, str>>) -> String {
    let text = text_of(value);
    match characters {
        Some(set) => text.trim_matches(|character| set.contains(character)).to_owned(),
        None => text.trim_matches(is_space).to_owned(),
    }
}

/// The filter `string`.
pub(super) fn string(value: &Value) -> Value {
    if value.as_str().is_some() { value.clone() } else { Value::from(text_of(value)) }
}

/// `str(value)`.
fn text_of(value: &Value) -> String {
    match f64::try_from(value.clone()) {
        Ok(number) if value.is_number() && !value.is_integer() => float::repr(number),
        _ => value.to_string(),
    }
}

/// `character.isspace()`.
fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}
