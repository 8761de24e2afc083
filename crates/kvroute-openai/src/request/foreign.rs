//! Requests of `/v1/responses` and `/v1/messages`, of which little is read: the engine judges them.

use bytes::Bytes;

use super::fields;
use crate::{JsonReader, Prompt, RawJson, RequestError};

/// What was read of such a request so far.
#[derive(Debug, Default)]
pub(super) struct ForeignFields {
    conversation: Option<RawJson>,
    /// The bound of generated tokens, by either name.
    pub(super) max_tokens: Option<u64>,
    /// The response that the request continues.
    pub(super) previous_response: Option<String>,
}

// === impl ForeignFields ===

impl ForeignFields {
    pub(super) fn read(
        &mut self,
        reader: &mut JsonReader<'_>,
        key: &str,
        body: &Bytes,
    ) -> Result<(), RequestError> {
        match key {
            "max_output_tokens" | "max_tokens" => self.max_tokens = fields::token_bound(reader, key)?,
            "previous_response_id" => {
                let previous = fields::string(reader, key)?;
                self.previous_response = previous.filter(|id| !id.is_empty());
            }
            "input" | "messages" => {
                reader.kind()?;
                let start = reader.position();
                reader.skip()?;
                self.conversation = Some(RawJson::trusted(body.slice(start..reader.position())));
            }
            _ => drop(reader.skip()?),
        }
        Ok(())
    }

    /// The conversation; an engine may take a request without one.
    pub(super) fn prompt(&mut self) -> Prompt {
        let conversation = self.conversation.take();
        Prompt::Foreign(conversation.unwrap_or_else(|| RawJson::trusted(Bytes::from_static(b"null"))))
    }
}
