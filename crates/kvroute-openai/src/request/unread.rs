//! Requests that are routed by load: of what they ask nothing but the first piece of input is looked at, because some
//! policies send equal beginnings to the same worker.

use bytes::Bytes;

use crate::{JsonReader, Prompt, RawJson, RequestError};

/// Members that hold what is to be worked on, at whichever endpoint.
const INPUTS: [&str; 8] = ["input", "prompt", "messages", "query", "text_1", "queries", "content", "tokens"];

/// What was read of such a request so far.
#[derive(Debug, Default)]
pub(super) struct UnreadFields {
    input: Option<RawJson>,
}

// === impl UnreadFields ===

impl UnreadFields {
    pub(super) fn read(
        &mut self,
        reader: &mut JsonReader<'_>,
        key: &str,
        body: &Bytes,
    ) -> Result<(), RequestError> {
        reader.kind()?;
        let start = reader.position();
        reader.skip()?;
        if INPUTS.contains(&key) && self.input.is_none() {
            self.input = Some(RawJson::trusted(body.slice(start..reader.position())));
        }
        Ok(())
    }

    /// What there is to work on; whether it may be absent is the engine's to judge.
    pub(super) fn prompt(&mut self) -> Prompt {
        let input = self.input.take();
        Prompt::Foreign(input.unwrap_or_else(|| RawJson::trusted(Bytes::from_static(b"null"))))
    }
}
