//! Reads the parts of a response: a stream's chunks or a whole body.
//!
//! One walk over the top level answers every question about a part, and each field is judged on its own:
//! text that breaks the grammar says nothing at all, but an odd value silences only itself. Which API the response
//! belongs to shows in its members, so nobody has to know it beforehand.

mod choice;
mod edits;
mod figures;
mod ids;
mod report;
mod typed;
mod usage;

#[cfg(test)]
mod tests;

use kvroute_core::TokenId;

use self::choice::Choices;
use self::edits::Edits;
use self::ids::{IdReader, Listed};
use self::report::ReportDraft;
use self::typed::{Ending, TypedPart};
use self::usage::MessageUsage;
use crate::{FinishReason, JsonError, JsonKind, JsonReader, Observation, TokenIds};

/// What the router has to know about a part in order to forward it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    /// `choices: []` with a usage object: the chunk that `include_usage` adds to a stream.
    pub(crate) is_usage_only: bool,
    /// A chunk that is there only because the router asked for token ids.
    pub(crate) is_ids_only: bool,
    /// Something in it must not reach the client.
    pub(crate) is_edited: bool,
    /// Nothing else is in it.
    pub(crate) is_private: bool,
}

/// Reads the parts of one answer in their order.
#[derive(Debug, Default)]
pub(crate) struct PartReader {
    message: MessageUsage,
    /// Why a message ended, told shortly before its stream does.
    announced: Option<FinishReason>,
    response_id: Option<String>,
    sequence_number: Option<u64>,
    ids: IdReader,
    /// Those of the part that was read last.
    edits: Edits,
}

/// What one part says, before it is known to be whole.
#[derive(Debug, Default)]
struct Said<'a> {
    members: usize,
    choices: Option<Choices>,
    draft: ReportDraft,
    /// Generated ids beside the choices.
    ids: Listed,
    typed: TypedPart<'a>,
    is_error: bool,
}

// === impl PartReader ===

impl PartReader {
    /// For an answer whose token ids are treated like that.
    pub(crate) fn new(token_ids: TokenIds) -> Self {
        Self { ids: IdReader::new(token_ids), ..Self::default() }
    }

    /// Reads a part and appends what it says. `None`, and nothing appended, for text that is no JSON object.
    pub(crate) fn read(&mut self, text: &str, observations: &mut Vec<Observation>) -> Option<Part> {
        let (before, ids) = (observations.len(), self.ids.ids().len());
        self.edits.clear();
        match walk(text, &mut self.ids, &mut self.edits, observations) {
            Ok(said) => {
                self.conclude(&said, observations);
                Some(self.part(&said))
            }
            Err(_) => {
                observations.truncate(before);
                self.ids.truncate(ids);
                None
            }
        }
    }

    /// Appends the part that was read last, `text`, without what must not reach the client.
    pub(crate) fn write_edited(&mut self, text: &str, out: &mut Vec<u8>) {
        self.edits.write(text, out);
    }

    pub(crate) const fn withholds_token_ids(&self) -> bool {
        self.ids.are_withheld()
    }

    /// The ids that observations speak of.
    pub(crate) fn token_ids(&self) -> &[TokenId] {
        self.ids.ids()
    }

    /// The observations so far were taken.
    pub(crate) fn clear_token_ids(&mut self) {
        self.ids.truncate(0);
    }

    pub(crate) fn into_token_ids(self) -> Vec<TokenId> {
        self.ids.into_ids()
    }

    /// The id of the response, where the answer is one of `/v1/responses`.
    pub(crate) fn response_id(&self) -> Option<&str> {
        self.response_id.as_deref()
    }

    /// The number that the next event of a numbered stream would have.
    pub(crate) fn next_sequence_number(&self) -> u64 {
        self.sequence_number.map_or(0, |number| number.saturating_add(1))
    }

    fn part(&self, said: &Said<'_>) -> Part {
        let choices = said.choices.unwrap_or_default();
        Part {
            is_usage_only: said.choices.is_some() && choices.count == 0 && said.draft.usage.is_some(),
            is_ids_only: choices.are_ids_only && self.ids.are_withheld() && !said.is_error,
            is_edited: !self.edits.is_empty(),
            is_private: self.edits.removed() > 0 && self.edits.removed() == said.members,
        }
    }

    fn conclude(&mut self, said: &Said<'_>, observations: &mut Vec<Observation>) {
        let Said { choices, draft, ids, typed, is_error, .. } = said;
        if let Some(choices) = choices {
            choices.take_ids(*ids, observations);
        }
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

fn walk<'a>(
    text: &'a str,
    ids: &mut IdReader,
    edits: &mut Edits,
    observations: &mut Vec<Observation>,
) -> Result<Said<'a>, JsonError> {
    let mut reader = JsonReader::new(text);
    let mut said = Said::default();
    reader.object(|member, key| {
        said.members += 1;
        match key {
            "choices" => said.choices = choice::read_choices(member, ids, edits, observations)?,
            "usage" => said.draft.read_usage(member)?,
            "timings" => said.draft.read_timings(member)?,
            "prompt_progress" => said.draft.read_progress(member)?,
            "meta_info" => said.draft.read_meta_info(member)?,
            "engine_data" => {
                member.kind()?;
                let start = member.position();
                said.ids = said.draft.read_engine_data(member, ids)?;
                edits.remove_member(start..member.position());
            }
            "prompt_token_ids" => ids.read_prompt(member, edits)?,
            "error" => said.is_error = member.skip()? != "null",
            _ => said.typed.read(member, key, &mut said.draft)?,
        }
        Ok::<(), JsonError>(())
    })?;
    reader.finish()?;
    Ok(said)
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
