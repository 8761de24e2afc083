//! Reads the parts of a response: a stream's chunks or a whole body.
//!
//! One walk over the top level answers every question about a part, and each field is judged on its own:
//! text that breaks the grammar says nothing at all, but an odd value silences only itself. Which API the response
//! belongs to shows in its members, so nobody has to know it beforehand.

mod choice;
mod figures;
mod report;
mod typed;
mod usage;

#[cfg(test)]
mod tests;

use std::ops::Range;

use self::report::ReportDraft;
use self::typed::{Ending, TypedPart};
use self::usage::MessageUsage;
use crate::{FinishReason, JsonError, JsonKind, JsonReader, Observation};

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

/// Reads the parts of one answer in their order.
#[derive(Debug, Default)]
pub(crate) struct PartReader {
    message: MessageUsage,
    /// Why a message ended, told shortly before its stream does.
    announced: Option<FinishReason>,
    response_id: Option<String>,
    sequence_number: Option<u64>,
}

/// What one part says, before it is known to be whole.
#[derive(Debug, Default)]
struct Said<'a> {
    draft: ReportDraft,
    typed: TypedPart<'a>,
    is_error: bool,
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

// === impl PartReader ===

impl PartReader {
    /// Reads a part and appends what it says. `None`, and nothing appended, for text that is no JSON object.
    pub(crate) fn read(&mut self, text: &str, observations: &mut Vec<Observation>) -> Option<Part> {
        let before = observations.len();
        match walk(text, observations) {
            Ok((part, said)) => {
                self.conclude(&said, observations);
                Some(part)
            }
            Err(_) => {
                observations.truncate(before);
                None
            }
        }
    }

    /// The id of the response, where the answer is one of `/v1/responses`.
    pub(crate) fn response_id(&self) -> Option<&str> {
        self.response_id.as_deref()
    }

    /// The number that the next event of a numbered stream would have.
    pub(crate) fn next_sequence_number(&self) -> u64 {
        self.sequence_number.map_or(0, |number| number.saturating_add(1))
    }

    fn conclude(&mut self, said: &Said<'_>, observations: &mut Vec<Observation>) {
        let Said { draft, typed, is_error } = said;
        if self.response_id.is_none() {
            self.response_id = typed.response_id();
        }
        self.sequence_number = typed.sequence_number().or(self.sequence_number);
        observations.extend(typed.has_content().then_some(Observation::Content { choice: 0 }));
        if let Some(usage) = &draft.usage {
            self.message.take(usage);
            let mut counts = usage.counts(&self.message);
            counts.completion = counts.completion.filter(|_| !typed.begins_message());
            observations.push(Observation::Usage(counts));
        }
        observations.extend(draft.report(&self.message).map(Observation::Report));
        observations.extend((*is_error || typed.is_error()).then_some(Observation::Error));
        self.end(typed.ending(), observations);
    }

    fn end(&mut self, ending: Ending, observations: &mut Vec<Observation>) {
        let finish = |reason| Observation::Finish { choice: 0, reason };
        match ending {
            Ending::None => {}
            Ending::Announced(reason) => self.announced = Some(reason),
            Ending::Stream(reason) => {
                let reason = reason.or(self.announced).unwrap_or(FinishReason::Other);
                observations.extend([finish(reason), Observation::Done]);
            }
            Ending::FailedStream => observations.extend([Observation::Error, Observation::Done]),
            Ending::Whole(reason) => observations.push(finish(reason)),
            Ending::FailedWhole => observations.push(Observation::Error),
        }
    }
}

fn walk<'a>(text: &'a str, observations: &mut Vec<Observation>) -> Result<(Part, Said<'a>), JsonError> {
    let mut reader = JsonReader::new(text);
    let mut part = Part::default();
    let mut said = Said::default();
    let mut no_choices = false;
    reader.object(|member, key| {
        part.members += 1;
        match key {
            "choices" => no_choices = choice::read_choices(member, observations)? == Some(0),
            "usage" => said.draft.read_usage(member)?,
            "timings" => said.draft.read_timings(member)?,
            "prompt_progress" => said.draft.read_progress(member)?,
            "meta_info" => said.draft.read_meta_info(member)?,
            "engine_data" => {
                member.kind()?;
                let start = member.position();
                said.draft.read_engine_data(member)?;
                part.engine_data.push(start..member.position());
            }
            "error" => said.is_error = member.skip()? != "null",
            _ => said.typed.read(member, key, &mut said.draft)?,
        }
        Ok::<(), JsonError>(())
    })?;
    reader.finish()?;
    part.is_usage_only = no_choices && said.draft.usage.is_some();
    Ok((part, said))
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
fn object_or_skip<'a>(
    reader: &mut JsonReader<'a>,
    member: impl FnMut(&mut JsonReader<'a>, &str) -> Result<(), JsonError>,
) -> Result<bool, JsonError> {
    let is_object = reader.kind()? == JsonKind::Object;
    if is_object {
        reader.object(member)?;
    } else {
        reader.skip()?;
    }
    Ok(is_object)
}
