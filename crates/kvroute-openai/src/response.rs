//! Reads one part of a response: a stream's chunk or a whole body.
//!
//! One walk over the top level answers every question about a part, and each field is judged on its own:
//! text that breaks the grammar says nothing at all, but an odd value silences only itself.

mod choice;
mod report;

#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::{JsonError, JsonKind, JsonReader, Observation};

use self::report::ReportDraft;

/// What the router has to know about a part in order to forward it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    /// `choices: []` with a usage object: the chunk that `include_usage` adds to a stream.
    pub(crate) is_usage_only: bool,
    /// Where the values of the private `engine_data` stand: none or one, unless the key is repeated.
    pub(crate) engine_data: Vec<Range<usize>>,
    /// Top-level members.
    pub(crate) members: usize,
}

/// Reads a part and appends what it says. `None`, and nothing appended, for text that is no JSON object.
pub(crate) fn read_part(text: &str, observations: &mut Vec<Observation>) -> Option<Part> {
    let before = observations.len();
    let part = walk(text, observations).ok();
    if part.is_none() {
        observations.truncate(before);
    }
    part
}

/// The part without its private `engine_data`, every other byte as it was. `None` when nothing else was in it.
pub(crate) fn without_engine_data(text: &str, part: &Part) -> Option<String> {
    if part.engine_data.len() == part.members {
        return None;
    }
    let mut kept = Vec::with_capacity(part.engine_data.len() + 1);
    let mut end = text.len();
    // From the back, so that a member knows whether a comma is left behind it.
    for value in part.engine_data.iter().rev() {
        let cut = member_around(&text[..end], value);
        kept.push(&text[cut.end..end]);
        end = cut.start;
    }
    kept.push(&text[..end]);
    Some(kept.into_iter().rev().collect())
}

fn walk(text: &str, observations: &mut Vec<Observation>) -> Result<Part, JsonError> {
    let mut reader = JsonReader::new(text);
    let mut part = Part::default();
    let mut draft = ReportDraft::default();
    let mut no_choices = false;
    let mut is_error = false;
    reader.object(|member, key| {
        part.members += 1;
        match key {
            "choices" => no_choices = choice::read_choices(member, observations)? == Some(0),
            "usage" => draft.read_usage(member)?,
            "timings" => draft.read_timings(member)?,
            "meta_info" => draft.read_meta_info(member)?,
            "engine_data" => {
                member.kind()?;
                let start = member.position();
                draft.read_engine_data(member)?;
                part.engine_data.push(start..member.position());
            }
            "error" => is_error = member.skip()? != "null",
            // SGLang's errors are flat.
            "object" => is_error |= member.skip()? == "\"error\"",
            _ => drop(member.skip()?),
        }
        Ok::<(), JsonError>(())
    })?;
    reader.finish()?;
    part.is_usage_only = no_choices && draft.usage().is_some();
    observations.extend(draft.usage().map(Observation::Usage));
    observations.extend(draft.report().map(Observation::Report));
    observations.extend(is_error.then_some(Observation::Error));
    Ok(part)
}

/// The bytes to cut so that the member with this value is gone: its key, its value and one comma.
fn member_around(text: &str, value: &Range<usize>) -> Range<usize> {
    const SPACE: [char; 4] = [' ', '\t', '\n', '\r'];
    let key_end = text[..value.start].rfind('"').unwrap_or(0);
    let key = text[..key_end].rfind('"').unwrap_or(0);
    let after = text[value.end..].trim_start_matches(SPACE);
    if let Some(behind_comma) = after.strip_prefix(',') {
        return key..text.len() - behind_comma.trim_start_matches(SPACE).len();
    }
    let before = text[..key].trim_end_matches(SPACE);
    match before.strip_suffix(',') {
        Some(before_comma) => before_comma.len()..value.end,
        None => key..value.end,
    }
}

/// Reads an object member by member, or skips what is no object. Returns whether it was one.
fn object_or_skip(
    reader: &mut JsonReader<'_>,
    member: impl FnMut(&mut JsonReader<'_>, &str) -> Result<(), JsonError>,
) -> Result<bool, JsonError> {
    let is_object = reader.kind()? == JsonKind::Object;
    if is_object {
        reader.object(member)?;
    } else {
        reader.skip()?;
    }
    Ok(is_object)
}
