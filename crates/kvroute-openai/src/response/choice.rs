//! The choices of a part: did something generated arrive, and did one end.

use super::object_or_skip;
use crate::{FinishReason, JsonError, JsonKind, JsonReader, Observation};

/// What one choice says; its index may stand behind everything else.
#[derive(Default)]
struct Choice {
    index: u32,
    has_content: bool,
    finish: Option<FinishReason>,
}

/// Reads `choices` and returns how many there are; `None` for what is no array.
pub(super) fn read_choices(
    reader: &mut JsonReader<'_>,
    observations: &mut Vec<Observation>,
) -> Result<Option<usize>, JsonError> {
    if reader.kind()? != JsonKind::Array {
        reader.skip()?;
        return Ok(None);
    }
    let mut count = 0;
    reader.array(|element| {
        count += 1;
        let mut choice = Choice::default();
        object_or_skip(element, |member, key| choice.read(member, key))?;
        let Choice { index, has_content, finish } = choice;
        observations.extend(has_content.then_some(Observation::Content { choice: index }));
        observations.extend(finish.map(|reason| Observation::Finish { choice: index, reason }));
        Ok::<(), JsonError>(())
    })?;
    Ok(Some(count))
}

// === impl Choice ===

impl Choice {
    fn read(&mut self, reader: &mut JsonReader<'_>, key: &str) -> Result<(), JsonError> {
        match key {
            "index" => self.index = reader.skip()?.parse().unwrap_or(0),
            "text" => self.has_content |= is_filled(reader)?,
            "delta" | "message" => {
                object_or_skip(reader, |member, field| {
                    match field {
                        "content" | "reasoning_content" | "reasoning" | "refusal" | "tool_calls"
                        | "function_call" => self.has_content |= is_filled(member)?,
                        _ => drop(member.skip()?),
                    }
                    Ok(())
                })?;
            }
            "finish_reason" => self.finish = read_finish(reader)?,
            _ => drop(reader.skip()?),
        }
        Ok(())
    }
}

/// True for a string, an array or an object with something in it. Engines write null, "" or [] for nothing.
pub(super) fn is_filled(reader: &mut JsonReader<'_>) -> Result<bool, JsonError> {
    let kind = reader.kind()?;
    let raw = reader.skip()?;
    let inner = match kind {
        JsonKind::String | JsonKind::Array | JsonKind::Object => &raw[1..raw.len() - 1],
        JsonKind::Null | JsonKind::Bool | JsonKind::Number => "",
    };
    Ok(if kind == JsonKind::String { !inner.is_empty() } else { !inner.trim_ascii().is_empty() })
}

fn read_finish(reader: &mut JsonReader<'_>) -> Result<Option<FinishReason>, JsonError> {
    Ok(match reader.skip()? {
        "null" => None,
        "\"stop\"" => Some(FinishReason::Stop),
        "\"length\"" => Some(FinishReason::Length),
        "\"tool_calls\"" => Some(FinishReason::ToolCalls),
        _ => Some(FinishReason::Other),
    })
}
