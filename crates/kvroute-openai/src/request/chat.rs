//! The chat fields: kept as raw JSON, checked as far as the router relies on them.

use bytes::Bytes;

use super::fields::{self, wrong_type};
use crate::{ChatPrompt, JsonKind, JsonReader, RawJson, RequestError};

/// Content parts that are text, in the words of the OpenAI dialects that engines accept.
const TEXT_PARTS: [&str; 6] = ["text", "input_text", "output_text", "refusal", "thinking", "tool_reference"];

/// What was read of a chat so far.
#[derive(Debug, Default)]
pub(super) struct ChatFields {
    messages: Option<RawJson>,
    tools: Option<RawJson>,
    documents: Option<RawJson>,
    chat_template_kwargs: Option<RawJson>,
    chat_template: Option<String>,
    reasoning_effort: Option<String>,
    tool_choice: Option<RawJson>,
    reasoning: Option<RawJson>,
    add_generation_prompt: Option<bool>,
    continue_final_message: Option<bool>,
    /// Whether a part of a message is no text.
    pub(super) has_multimodal: bool,
}

// === impl ChatFields ===

impl ChatFields {
    pub(super) fn read(
        &mut self,
        reader: &mut JsonReader<'_>,
        key: &str,
        body: &Bytes,
    ) -> Result<(), RequestError> {
        match key {
            "messages" => self.read_messages(reader, body)?,
            "tools" => self.tools = read_list(reader, "tools", body)?,
            "documents" => self.documents = read_list(reader, "documents", body)?,
            "chat_template_kwargs" => self.chat_template_kwargs = read_template_arguments(reader, body)?,
            "chat_template" => self.chat_template = fields::string(reader, "chat_template")?,
            "reasoning_effort" => self.reasoning_effort = fields::string(reader, "reasoning_effort")?,
            "tool_choice" => self.tool_choice = read_any(reader, body)?,
            "reasoning" => self.reasoning = read_any(reader, body)?,
            "add_generation_prompt" => {
                self.add_generation_prompt = fields::boolean(reader, "add_generation_prompt")?;
            }
            "continue_final_message" => {
                self.continue_final_message = fields::boolean(reader, "continue_final_message")?;
            }
            _ => drop(reader.skip()?),
        }
        Ok(())
    }

    pub(super) const fn has_tools(&self) -> bool {
        self.tools.is_some()
    }

    /// Whether the last message is to be continued already.
    pub(super) fn continues_message(&self) -> bool {
        self.continue_final_message == Some(true)
    }

    pub(super) fn into_prompt(self, add_special_tokens: Option<bool>) -> Result<ChatPrompt, RequestError> {
        let Some(messages) = self.messages else {
            let message = "messages is missing; send a non-empty array of messages";
            return Err(RequestError::invalid_field("messages", message));
        };
        Ok(ChatPrompt {
            messages,
            tools: self.tools,
            documents: self.documents,
            chat_template_kwargs: self.chat_template_kwargs,
            chat_template: self.chat_template,
            reasoning_effort: self.reasoning_effort,
            tool_choice: self.tool_choice,
            reasoning: self.reasoning,
            add_generation_prompt: self.add_generation_prompt.unwrap_or(true),
            continue_final_message: self.continue_final_message.unwrap_or(false),
            add_special_tokens: add_special_tokens.unwrap_or(false),
        })
    }

    fn read_messages(&mut self, reader: &mut JsonReader<'_>, body: &Bytes) -> Result<(), RequestError> {
        let kind = reader.kind()?;
        if kind != JsonKind::Array {
            return Err(wrong_type("messages", kind, "a non-empty array of messages"));
        }
        let start = reader.position();
        let mut count = 0;
        let mut has_multimodal = false;
        reader.array(|message| {
            has_multimodal |= read_message(message, count)?;
            count += 1;
            Ok::<(), RequestError>(())
        })?;
        if count == 0 {
            let message = "messages is empty; send at least one message";
            return Err(RequestError::invalid_field("messages", message));
        }
        self.messages = Some(RawJson::trusted(body.slice(start..reader.position())));
        self.has_multimodal = has_multimodal;
        Ok(())
    }
}

/// Checks one message and tells whether a part of it is no text.
fn read_message(reader: &mut JsonReader<'_>, index: usize) -> Result<bool, RequestError> {
    let kind = reader.kind()?;
    if kind != JsonKind::Object {
        return Err(wrong_type(&format!("messages[{index}]"), kind, "an object with role and content"));
    }
    let mut has_role = false;
    let mut has_multimodal = false;
    reader.object(|member, key| {
        match key {
            "role" => has_role = read_role(member, index)?,
            "content" => has_multimodal = read_content(member, index)?,
            _ => drop(member.skip()?),
        }
        Ok::<(), RequestError>(())
    })?;
    if has_role {
        return Ok(has_multimodal);
    }
    let field = format!("messages[{index}].role");
    let message = format!("{field} is missing; send who speaks, such as \"user\"");
    Err(RequestError::invalid_field(field, message))
}

fn read_role(reader: &mut JsonReader<'_>, index: usize) -> Result<bool, RequestError> {
    match reader.kind()? {
        JsonKind::String => drop(reader.string()?),
        other => {
            return Err(wrong_type(&format!("messages[{index}].role"), other, "a string such as \"user\""));
        }
    }
    Ok(true)
}

fn read_content(reader: &mut JsonReader<'_>, index: usize) -> Result<bool, RequestError> {
    match reader.kind()? {
        JsonKind::Null | JsonKind::String => drop(reader.skip()?),
        JsonKind::Array => return read_parts(reader, index),
        other => {
            let field = format!("messages[{index}].content");
            return Err(wrong_type(&field, other, "a string or an array of parts"));
        }
    }
    Ok(false)
}

fn read_parts(reader: &mut JsonReader<'_>, index: usize) -> Result<bool, RequestError> {
    let mut has_multimodal = false;
    reader.array(|part| {
        match part.kind()? {
            JsonKind::String => drop(part.skip()?),
            JsonKind::Object => has_multimodal |= !is_text_part(part)?,
            other => {
                let field = format!("messages[{index}].content");
                let message =
                    format!("{field} has a part that is {}; send objects with a type", other.noun());
                return Err(RequestError::invalid_field(field, message));
            }
        }
        Ok(())
    })?;
    Ok(has_multimodal)
}

fn is_text_part(reader: &mut JsonReader<'_>) -> Result<bool, RequestError> {
    let mut is_text = false;
    reader.object(|member, key| {
        if key == "type" && member.kind()? == JsonKind::String {
            is_text = TEXT_PARTS.contains(&&*member.string()?);
        } else {
            member.skip()?;
        }
        Ok::<(), RequestError>(())
    })?;
    Ok(is_text)
}

/// An array that is absent when null or empty.
fn read_list(
    reader: &mut JsonReader<'_>,
    field: &str,
    body: &Bytes,
) -> Result<Option<RawJson>, RequestError> {
    let kind = reader.kind()?;
    let start = reader.position();
    let mut count = 0;
    match kind {
        JsonKind::Null => reader.null()?,
        JsonKind::Array => reader.array(|element| {
            count += 1;
            element.skip().map(drop)
        })?,
        other => return Err(wrong_type(field, other, "an array of objects")),
    }
    Ok((count > 0).then(|| RawJson::trusted(body.slice(start..reader.position()))))
}

/// Any value but null.
fn read_any(reader: &mut JsonReader<'_>, body: &Bytes) -> Result<Option<RawJson>, RequestError> {
    let is_null = reader.kind()? == JsonKind::Null;
    let start = reader.position();
    reader.skip()?;
    Ok((!is_null).then(|| RawJson::trusted(body.slice(start..reader.position()))))
}

fn read_template_arguments(
    reader: &mut JsonReader<'_>,
    body: &Bytes,
) -> Result<Option<RawJson>, RequestError> {
    let kind = reader.kind()?;
    let start = reader.position();
    match kind {
        JsonKind::Null => {
            reader.null()?;
            Ok(None)
        }
        JsonKind::Object => {
            reader.skip()?;
            Ok(Some(RawJson::trusted(body.slice(start..reader.position()))))
        }
        other => Err(wrong_type("chat_template_kwargs", other, "an object")),
    }
}
