//! The choices of a part: did something generated arrive, which tokens, and did one end.

use std::ops::Range;

use super::ids::{IdReader, Listed};
use super::object_or_skip;
use crate::edits::Edits;
use crate::{FinishReason, JsonError, JsonKind, JsonReader, Observation};

/// What is known of a part's choices once they are read.
#[derive(Clone, Debug, Default)]
pub(super) struct Choices<'a> {
    /// How many there are.
    pub(super) count: usize,
    /// Every one of them brings token ids and nothing else.
    pub(super) are_ids_only: bool,
    /// The last one's index.
    index: u32,
    /// The last one told no token ids.
    lacks_ids: bool,
    /// Where in the observations those of its token ids belong.
    ids_at: usize,
    /// The last one's words.
    words: Words<'a>,
}

/// What a choice says in words.
#[derive(Clone, Debug, Default)]
pub(super) struct Words<'a> {
    /// Text that is not empty, as it is written.
    pub(super) text: Option<&'a str>,
    /// Where that begins.
    pub(super) text_at: usize,
    /// Where the value of `role` stands.
    pub(super) role: Option<Range<usize>>,
    /// A thought, a call or a refusal.
    pub(super) has_other: bool,
    /// Neither is there anything else, nor an end.
    pub(super) is_empty: bool,
}

/// What one choice says; its index may stand behind everything else.
#[derive(Default)]
struct Choice<'a> {
    index: u32,
    has_content: bool,
    words: Words<'a>,
    ids: Listed,
    has_empty_delta: bool,
    finish: Option<FinishReason>,
}

/// Reads `choices`; `None` for what is no array.
pub(super) fn read_choices<'a>(
    reader: &mut JsonReader<'a>,
    ids: &mut IdReader,
    edits: &mut Edits,
    observations: &mut Vec<Observation>,
) -> Result<Option<Choices<'a>>, JsonError> {
    if reader.kind()? != JsonKind::Array {
        reader.skip()?;
        return Ok(None);
    }
    let mut choices = Choices { are_ids_only: true, ..Choices::default() };
    reader.array(|element| {
        let mut choice = Choice::default();
        object_or_skip(element, |member, key| choice.read(member, key, ids, edits))?;
        choices.add(choice, observations);
        Ok::<(), JsonError>(())
    })?;
    choices.are_ids_only &= choices.count > 0;
    Ok(Some(choices))
}

/// What a choice tells of its token ids, if anything.
fn generated(choice: u32, ids: Listed) -> Option<Observation> {
    match ids {
        Listed::Absent => None,
        Listed::Unreadable => Some(Observation::Generated { choice, ids: None }),
        Listed::Ids(span) => Some(Observation::Generated { choice, ids: Some(span) }),
    }
}

// === impl Choices ===

impl<'a> Choices<'a> {
    /// Takes ids that stand beside the choices, not in one: they are those of the only choice. Where there are several, or
    /// the choice has its own, they are nobody's.
    pub(super) fn take_ids(&self, ids: Listed, observations: &mut Vec<Observation>) {
        if self.count != 1 || !self.lacks_ids {
            return;
        }
        if let Some(observation) = generated(self.index, ids) {
            observations.insert(self.ids_at, observation);
        }
    }

    /// The only choice and the place of its text, if it says nothing else in words.
    pub(super) fn only_text(&self) -> Option<(u32, Range<usize>)> {
        let Words { text, text_at, has_other, .. } = self.words;
        let is_text_alone = self.count == 1 && !has_other;
        let text = text.filter(|_| is_text_alone)?;
        Some((self.index, text_at..text_at + text.len()))
    }

    /// Words and whether they are of the first choice, where there is only one.
    pub(super) fn only_words(&self) -> Option<(&Words<'a>, bool)> {
        (self.count == 1).then_some((&self.words, self.index == 0))
    }

    fn add(&mut self, choice: Choice<'a>, observations: &mut Vec<Observation>) {
        let Choice { index, has_content, ids, finish, .. } = choice;
        observations.extend(has_content.then_some(Observation::Content { choice: index }));
        self.ids_at = observations.len();
        observations.extend(generated(index, ids));
        observations.extend(finish.map(|reason| Observation::Finish { choice: index, reason }));
        self.count += 1;
        self.are_ids_only &= choice.is_ids_only();
        self.index = index;
        self.lacks_ids = ids == Listed::Absent;
        let is_empty = !has_content && finish.is_none() && self.lacks_ids;
        self.words = Words { is_empty, ..choice.words };
    }
}

// === impl Choice ===

impl<'a> Choice<'a> {
    fn read(
        &mut self,
        reader: &mut JsonReader<'a>,
        key: &str,
        ids: &mut IdReader,
        edits: &mut Edits,
    ) -> Result<(), JsonError> {
        match key {
            "index" => self.index = reader.skip()?.parse().unwrap_or(0),
            "text" => self.read_text(reader)?,
            "delta" | "message" => self.read_message(reader)?,
            "finish_reason" => self.finish = read_finish(reader)?,
            "token_ids" => self.ids = ids.read_generated(reader, edits)?,
            "prompt_token_ids" => ids.read_prompt(reader, edits)?,
            _ => drop(reader.skip()?),
        }
        Ok(())
    }

    fn read_text(&mut self, reader: &mut JsonReader<'a>) -> Result<(), JsonError> {
        let (kind, start) = (reader.kind()?, reader.position());
        let written = reader.skip()?;
        if !is_filled_with(kind, written) {
            return Ok(());
        }
        self.has_content = true;
        self.words.has_other |= kind != JsonKind::String || self.words.text.is_some();
        (self.words.text, self.words.text_at) = (Some(written), start);
        Ok(())
    }

    fn read_message(&mut self, reader: &mut JsonReader<'a>) -> Result<(), JsonError> {
        let mut is_empty = true;
        let is_object = object_or_skip(reader, |member, field| {
            is_empty = false;
            match field {
                "content" => self.read_text(member)?,
                "reasoning_content" | "reasoning" | "refusal" | "tool_calls" | "function_call" => {
                    let is_filled = is_filled(member)?;
                    self.has_content |= is_filled;
                    self.words.has_other |= is_filled;
                }
                "role" => {
                    let is_told = member.kind()? != JsonKind::Null;
                    let start = member.position();
                    member.skip()?;
                    self.words.role = is_told.then(|| start..member.position());
                }
                _ => drop(member.skip()?),
            }
            Ok(())
        })?;
        self.has_empty_delta = is_object && is_empty;
        Ok(())
    }

    /// A parser of the engine swallowed these tokens (the name of a tool, the end of a thought): without the question for
    /// ids they would have made no chunk.
    fn is_ids_only(&self) -> bool {
        self.has_empty_delta && !self.has_content && self.finish.is_none() && self.ids != Listed::Absent
    }
}

/// True for a string, an array or an object with something in it. Engines write null, "" or [] for nothing.
pub(super) fn is_filled(reader: &mut JsonReader<'_>) -> Result<bool, JsonError> {
    let kind = reader.kind()?;
    Ok(is_filled_with(kind, reader.skip()?))
}

fn is_filled_with(kind: JsonKind, raw: &str) -> bool {
    let inner = match kind {
        JsonKind::String | JsonKind::Array | JsonKind::Object => &raw[1..raw.len() - 1],
        JsonKind::Null | JsonKind::Bool | JsonKind::Number => "",
    };
    if kind == JsonKind::String { !inner.is_empty() } else { !inner.trim_ascii().is_empty() }
}

fn read_finish(reader: &mut JsonReader<'_>) -> Result<Option<FinishReason>, JsonError> {
    Ok(match reader.skip()? {
        "null" => None,
        "\"stop\"" => Some(FinishReason::Stop),
        "\"length\"" => Some(FinishReason::Length),
        "\"tool_calls\"" => Some(FinishReason::ToolCalls),
        "\"abort\"" | "\"aborted\"" | "\"error\"" | "\"cancelled\"" | "\"canceled\"" | "\"timeout\"" => {
            Some(FinishReason::Aborted)
        }
        _ => Some(FinishReason::Other),
    })
}
