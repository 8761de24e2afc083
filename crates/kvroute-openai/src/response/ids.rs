//! Lists of token ids in a part: read into one buffer, and noted down where the client must not see them.

use std::ops::Range;

use kvroute_core::TokenId;

use crate::edits::Edits;
use crate::{JsonError, JsonKind, JsonReader, TokenIds, TokenSpan, Unasked};

/// What the parts of an answer say of token ids.
#[derive(Debug, Default)]
pub(super) struct IdReader {
    mode: TokenIds,
    /// The prompt is not the client's, so nobody is told its ids.
    pub(super) hides_prompt: bool,
    ids: Vec<TokenId>,
}

/// What a part says of the ids of one choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Listed {
    /// Nothing, or null.
    #[default]
    Absent,
    /// Something that is no list of token ids.
    Unreadable,
    /// These.
    Ids(TokenSpan),
}

// === impl IdReader ===

impl IdReader {
    pub(super) const fn new(mode: TokenIds) -> Self {
        Self { mode, hides_prompt: false, ids: Vec::new() }
    }

    pub(super) const fn are_withheld(&self) -> bool {
        matches!(self.mode, TokenIds::Withhold(_))
    }

    /// All ids that were read since they were last cleared.
    pub(super) fn ids(&self) -> &[TokenId] {
        &self.ids
    }

    pub(super) fn into_ids(self) -> Vec<TokenId> {
        self.ids
    }

    pub(super) fn truncate(&mut self, count: usize) {
        self.ids.truncate(count);
    }

    /// Generated ids that stand in a choice.
    pub(super) fn read_generated(
        &mut self,
        reader: &mut JsonReader<'_>,
        edits: &mut Edits,
    ) -> Result<Listed, JsonError> {
        let is_list = reader.kind()? == JsonKind::Array;
        let start = reader.position();
        let listed = self.read_private(reader)?;
        if is_list {
            self.withhold(start..reader.position(), edits);
        }
        Ok(listed)
    }

    /// Generated ids that stand in what is taken out as a whole.
    pub(super) fn read_private(&mut self, reader: &mut JsonReader<'_>) -> Result<Listed, JsonError> {
        let kind = reader.kind()?;
        if self.mode.are_read() && kind == JsonKind::Array {
            return self.read_list(reader);
        }
        reader.skip()?;
        let is_odd = self.mode.are_read() && kind != JsonKind::Null;
        Ok(if is_odd { Listed::Unreadable } else { Listed::Absent })
    }

    /// A prompt's ids, which the router knows.
    pub(super) fn read_prompt(
        &self,
        reader: &mut JsonReader<'_>,
        edits: &mut Edits,
    ) -> Result<(), JsonError> {
        let is_list = reader.kind()? == JsonKind::Array;
        let start = reader.position();
        if !reader.plain_numbers(|_| ()) {
            reader.skip()?;
        }
        if is_list && self.hides_prompt && !self.are_withheld() {
            edits.withhold_list(start..reader.position(), Unasked::Null);
        }
        if is_list {
            self.withhold(start..reader.position(), edits);
        }
        Ok(())
    }

    fn withhold(&self, list: Range<usize>, edits: &mut Edits) {
        if let TokenIds::Withhold(unasked) = self.mode {
            edits.withhold_list(list, unasked);
        }
    }

    /// A list with one odd element is no list at all: some of the ids would be taken for all.
    fn read_list(&mut self, reader: &mut JsonReader<'_>) -> Result<Listed, JsonError> {
        let start = self.ids.len();
        if reader.plain_numbers(|id| self.ids.push(id)) {
            return Ok(Listed::Ids(TokenSpan::from(start..self.ids.len())));
        }
        self.ids.truncate(start);
        let mut is_readable = true;
        reader.array(|element| {
            match element.skip()?.parse() {
                Ok(id) => self.ids.push(id),
                Err(_) => is_readable = false,
            }
            Ok::<(), JsonError>(())
        })?;
        if is_readable {
            return Ok(Listed::Ids(TokenSpan::from(start..self.ids.len())));
        }
        self.ids.truncate(start);
        Ok(Listed::Unreadable)
    }
}
