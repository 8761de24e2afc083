//! What a part says in the words of `/v1/responses` and `/v1/messages`.
//!
//! Their streams are made of events with a `type`, of which few tell something that matters here: a delta with text, and
//! the last one. Whole answers are known by what they call themselves.

use super::choice::is_filled;
use super::object_or_skip;
use super::report::ReportDraft;
use crate::{FinishReason, JsonError, JsonKind, JsonReader};

/// Members of a part that only these two APIs have. Texts are kept as they are written, with their quotes.
#[derive(Debug, Default)]
pub(super) struct TypedPart<'a> {
    kind: &'a str,
    object: &'a str,
    id: &'a str,
    status: &'a str,
    has_delta: bool,
    starts_call: bool,
    has_output: bool,
    stop: Option<FinishReason>,
    is_cut_short: bool,
    /// `id` of the response that an event is about.
    response_id: &'a str,
    sequence_number: Option<u64>,
}

/// What a part means for the end of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Nothing.
    None,
    /// Nothing more is generated; the end of the stream is still to come.
    Announced(FinishReason),
    /// An event that ends the stream; `None` where an earlier one has told why.
    Stream(Option<FinishReason>),
    /// The same, by a failure.
    FailedStream,
    /// A whole answer.
    Whole(FinishReason),
    /// A whole answer that failed.
    FailedWhole,
}

// === impl TypedPart ===

impl<'a> TypedPart<'a> {
    /// Reads a member, or skips it. Usage inside of it goes to the draft.
    pub(super) fn read(
        &mut self,
        reader: &mut JsonReader<'a>,
        key: &str,
        draft: &mut ReportDraft,
    ) -> Result<(), JsonError> {
        match key {
            "type" => self.kind = reader.skip()?,
            "object" => self.object = reader.skip()?,
            "id" => self.id = reader.skip()?,
            "status" => self.status = reader.skip()?,
            "sequence_number" => self.sequence_number = reader.skip()?.parse().ok(),
            "stop_reason" => self.stop = read_stop(reader)?,
            "incomplete_details" => self.is_cut_short = read_reason(reader)?,
            "delta" => self.read_delta(reader)?,
            "content_block" | "item" => self.starts_call = is_call(reader)?,
            "content" | "output" => self.has_output |= is_filled(reader)?,
            "response" => self.response_id = self.read_nested(reader, draft)?,
            "message" => drop(self.read_nested(reader, draft)?),
            _ => drop(reader.skip()?),
        }
        Ok(())
    }

    /// Whether a token was generated: text, reasoning, or a part of a call.
    pub(super) fn has_content(&self) -> bool {
        match self.kind {
            "\"content_block_start\"" | "\"response.output_item.added\"" => self.starts_call,
            "\"message\"" => self.has_output,
            _ if self.is_response() => self.has_output,
            _ => self.has_delta,
        }
    }

    /// Whether it is an error that ends the stream.
    pub(super) fn is_error(&self) -> bool {
        self.kind == "\"error\"" || self.object == "\"error\""
    }

    /// Whether it only begins a message: then its count of generated tokens is none.
    pub(super) fn begins_message(&self) -> bool {
        self.kind == "\"message_start\""
    }

    pub(super) fn ending(&self) -> Ending {
        let finished = if self.is_cut_short { FinishReason::Length } else { FinishReason::Stop };
        match self.kind {
            "\"message_delta\"" => self.stop.map_or(Ending::None, Ending::Announced),
            "\"message_stop\"" => Ending::Stream(None),
            "\"response.completed\"" => Ending::Stream(Some(finished)),
            "\"response.incomplete\"" if self.is_cut_short => Ending::Stream(Some(finished)),
            "\"response.incomplete\"" => Ending::Stream(Some(FinishReason::Other)),
            "\"response.cancelled\"" => Ending::Stream(Some(FinishReason::Aborted)),
            "\"response.failed\"" => Ending::FailedStream,
            "\"message\"" => self.stop.map_or(Ending::None, Ending::Whole),
            _ if self.is_response() => self.ending_of_whole(finished),
            _ => Ending::None,
        }
    }

    /// The id of the response, if it told one.
    pub(super) fn response_id(&self) -> Option<String> {
        let written = if self.is_response() { self.id } else { self.response_id };
        JsonReader::new(written).string().ok().map(|id| id.into_owned())
    }

    /// Whether the answer stands where it stood, but for content.
    pub(super) fn changes_nothing(&self) -> bool {
        self.ending() == Ending::None && self.sequence_number.is_none() && self.response_id().is_none()
    }

    pub(super) const fn sequence_number(&self) -> Option<u64> {
        self.sequence_number
    }

    fn is_response(&self) -> bool {
        self.object == "\"response\""
    }

    fn ending_of_whole(&self, finished: FinishReason) -> Ending {
        match self.status {
            "\"completed\"" => Ending::Whole(finished),
            "\"incomplete\"" if self.is_cut_short => Ending::Whole(finished),
            "\"incomplete\"" => Ending::Whole(FinishReason::Other),
            "\"cancelled\"" => Ending::Whole(FinishReason::Aborted),
            "\"failed\"" => Ending::FailedWhole,
            _ => Ending::None,
        }
    }

    /// A text under `/v1/responses`, an object under `/v1/messages`.
    fn read_delta(&mut self, reader: &mut JsonReader<'a>) -> Result<(), JsonError> {
        if reader.kind()? == JsonKind::String {
            self.has_delta = is_filled(reader)?;
            return Ok(());
        }
        object_or_skip(reader, |member, key| {
            match key {
                "text" | "thinking" | "partial_json" => self.has_delta |= is_filled(member)?,
                "stop_reason" => self.stop = read_stop(member)?,
                _ => drop(member.skip()?),
            }
            Ok(())
        })?;
        Ok(())
    }

    /// The response or message that an event is about. Gives its id as it is written.
    fn read_nested(
        &mut self,
        reader: &mut JsonReader<'a>,
        draft: &mut ReportDraft,
    ) -> Result<&'a str, JsonError> {
        let mut id = "";
        object_or_skip(reader, |member, key| {
            match key {
                "id" => id = member.skip()?,
                "usage" => draft.read_own_usage(member)?,
                "incomplete_details" => self.is_cut_short = read_reason(member)?,
                _ => drop(member.skip()?),
            }
            Ok(())
        })?;
        Ok(id)
    }
}

/// Whether a block or item is a call, whose name is generated before its arguments.
fn is_call(reader: &mut JsonReader<'_>) -> Result<bool, JsonError> {
    let mut is_call = false;
    object_or_skip(reader, |member, key| {
        let value = member.skip()?;
        is_call |= key == "type" && (value.ends_with("_call\"") || value.ends_with("tool_use\""));
        Ok(())
    })?;
    Ok(is_call)
}

/// Whether an answer is incomplete because of its bound of tokens.
fn read_reason(reader: &mut JsonReader<'_>) -> Result<bool, JsonError> {
    let mut is_bound = false;
    object_or_skip(reader, |member, key| {
        let value = member.skip()?;
        is_bound |= key == "reason" && value == "\"max_output_tokens\"";
        Ok(())
    })?;
    Ok(is_bound)
}

fn read_stop(reader: &mut JsonReader<'_>) -> Result<Option<FinishReason>, JsonError> {
    Ok(match reader.skip()? {
        "null" => None,
        "\"end_turn\"" | "\"stop_sequence\"" => Some(FinishReason::Stop),
        "\"max_tokens\"" => Some(FinishReason::Length),
        "\"tool_use\"" => Some(FinishReason::ToolCalls),
        _ => Some(FinishReason::Other),
    })
}
