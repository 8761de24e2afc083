//! Single fields of a request. `null` counts as absent, as engines have it.

use crate::{JsonError, JsonKind, JsonReader, RequestError};

impl From<JsonError> for RequestError {
    fn from(error: JsonError) -> Self {
        match error.is_too_deep() {
            true => Self::invalid_json(format!("body cannot be read: {error}; nest less")),
            false => Self::invalid_json(format!("body is not valid JSON: {error}; send one JSON object")),
        }
    }
}

/// The error for a field of the wrong type.
pub(super) fn wrong_type(field: &str, kind: JsonKind, wanted: &str) -> RequestError {
    let message = format!("{field} is {}; send {wanted}", kind.noun());
    RequestError::invalid_field(field.to_owned(), message)
}

pub(super) fn string(reader: &mut JsonReader<'_>, field: &str) -> Result<Option<String>, RequestError> {
    match reader.kind()? {
        JsonKind::Null => reader.null()?,
        JsonKind::String => return Ok(Some(reader.string()?.into_owned())),
        other => return Err(wrong_type(field, other, "a string")),
    }
    Ok(None)
}

pub(super) fn boolean(reader: &mut JsonReader<'_>, field: &str) -> Result<Option<bool>, RequestError> {
    match reader.kind()? {
        JsonKind::Null => reader.null()?,
        JsonKind::Bool => return Ok(Some(reader.bool()?)),
        other => return Err(wrong_type(field, other, "true or false")),
    }
    Ok(None)
}

/// What a field that passes upstream unjudged says: `null` nothing, everything but `false` yes.
pub(super) fn leniently(reader: &mut JsonReader<'_>) -> Result<Option<bool>, RequestError> {
    match reader.kind()? {
        JsonKind::Bool => Ok(Some(reader.bool()?)),
        JsonKind::Null => {
            reader.null()?;
            Ok(None)
        }
        _ => {
            reader.skip()?;
            Ok(Some(true))
        }
    }
}

/// A field that passes upstream unjudged, as it is written; `null` and an empty text say nothing.
pub(super) fn written(reader: &mut JsonReader<'_>) -> Result<Option<String>, RequestError> {
    let written = reader.skip()?;
    Ok((!matches!(written, "null" | "\"\"")).then(|| written.to_owned()))
}

/// `n`: the number of answers.
pub(super) fn choices(reader: &mut JsonReader<'_>) -> Result<Option<u32>, RequestError> {
    let Some(count) = whole_number(reader, "n")? else { return Ok(None) };
    match u32::try_from(count) {
        Ok(choices) if choices > 0 => Ok(Some(choices)),
        _ => {
            let message = format!("n is {count}; send a whole number from 1 to {}", u32::MAX);
            Err(RequestError::invalid_field("n", message))
        }
    }
}

/// A bound of generated tokens. Negative ones mean "no bound" to some engines, which judge them themselves.
pub(super) fn token_bound(reader: &mut JsonReader<'_>, field: &str) -> Result<Option<u64>, RequestError> {
    Ok(whole_number(reader, field)?.and_then(|bound| u64::try_from(bound).ok()))
}

fn whole_number(reader: &mut JsonReader<'_>, field: &str) -> Result<Option<i64>, RequestError> {
    let written = match reader.kind()? {
        JsonKind::Null => {
            reader.null()?;
            return Ok(None);
        }
        JsonKind::Number => reader.number()?,
        other => return Err(wrong_type(field, other, "a whole number")),
    };
    match parse_whole(written) {
        Some(number) => Ok(Some(number)),
        None => {
            let message = format!("{field} is {written}; send a whole number");
            Err(RequestError::invalid_field(field.to_owned(), message))
        }
    }
}

/// Also takes `16.0` and `2e3`, which clients in languages without integers write.
fn parse_whole(written: &str) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if let Ok(number) = written.parse() {
        return Some(number);
    }
    let number: f64 = written.parse().ok()?;
    (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i64)
}
