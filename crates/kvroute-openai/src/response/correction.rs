//! What a client is told in the place of an engine's own token counts.
//!
//! A request that was served in two parts has one usage for its client: of the prompt that the client sent, and of all
//! that was generated. Each engine only knows of its part, so its counts are rewritten where they stand.

use std::ops::Range;

use super::object_or_skip;
use super::usage::Usage;
use crate::edits::Edits;
use crate::{JsonError, JsonKind, JsonReader};

/// Corrections of the `usage` of chats and completions. What the router itself reads there stays what the engine said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageCorrection {
    /// `prompt_tokens`, where the engine computed another prompt than the client's. No more than that is then said to
    /// have been cached, or to have become cached.
    pub prompt: Option<u64>,
    /// `prompt_tokens_details.cached_tokens`, where another engine computed the prompt; added where it is not there.
    pub cached: Option<u64>,
    /// What was generated before this engine's part, in tokens: added to `completion_tokens`.
    pub completion_before: u64,
}

/// Where the counts of one `usage` object stand.
#[derive(Debug, Default)]
pub(super) struct UsagePlaces {
    prompt: Option<Written>,
    completion: Option<Written>,
    total: Option<Written>,
    details: Option<Details>,
    /// `created_cache_tokens` among the details.
    created: Option<Written>,
}

/// A count as it stands in the text.
#[derive(Clone, Debug)]
struct Written {
    at: Range<usize>,
    count: u64,
}

/// What stands as `prompt_tokens_details`.
#[derive(Clone, Debug)]
enum Details {
    /// `null`.
    Null(Range<usize>),
    /// An object without the member; it closes there.
    Lacking { end: usize, is_empty: bool },
    /// An object whose member is this; the count is `None` where it is none.
    Told { at: Range<usize>, count: Option<u64> },
}

// === impl UsageCorrection ===

impl UsageCorrection {
    /// Whether anything is corrected.
    pub fn is_any(&self) -> bool {
        *self != Self::default()
    }
}

// === impl UsagePlaces ===

impl UsagePlaces {
    /// Reads a member into `usage`, and notes down where it stands.
    pub(super) fn read(
        &mut self,
        reader: &mut JsonReader<'_>,
        key: &str,
        usage: &mut Usage,
    ) -> Result<(), JsonError> {
        reader.kind()?;
        let mut again = reader.clone();
        usage.read(reader, key)?;
        match key {
            "prompt_tokens" => self.prompt = Written::read(&mut again)?,
            "completion_tokens" => self.completion = Written::read(&mut again)?,
            "total_tokens" => self.total = Written::read(&mut again)?,
            "prompt_tokens_details" => (self.details, self.created) = Details::read(&mut again)?,
            _ => {}
        }
        Ok(())
    }

    /// Adds the edits of the object that closes at `end`. One that counts no prompt is not in the words of chats and
    /// completions, and stays as it is.
    pub(super) fn correct(self, end: usize, correction: UsageCorrection, edits: &mut Edits) {
        let Some(prompt) = self.prompt else { return };
        let told = correction.prompt.unwrap_or(prompt.count);
        let before = if self.completion.is_some() { correction.completion_before } else { 0 };
        let total =
            |total: u64| total.saturating_sub(prompt.count).saturating_add(told).saturating_add(before);
        let found = [
            prompt.becomes(told),
            self.completion.and_then(|written| written.becomes(written.count.saturating_add(before))),
            self.total.and_then(|written| written.becomes(total(written.count))),
            self.created
                .filter(|_| correction.prompt.is_some())
                .and_then(|created| created.becomes(created.count.min(told))),
            cached(self.details, end, told, correction),
        ];
        found.into_iter().flatten().for_each(|(at, text)| edits.replace(at, text));
    }
}

/// What becomes of the count of cached tokens.
fn cached(
    details: Option<Details>,
    end: usize,
    prompt: u64,
    correction: UsageCorrection,
) -> Option<(Range<usize>, String)> {
    let Some(cached) = correction.cached else {
        let Some(Details::Told { at, count }) = details else { return None };
        let is_too_many = correction.prompt.is_some() && count > Some(prompt);
        return is_too_many.then(|| (at, prompt.to_string()));
    };
    Some(match details {
        None => (end..end, format!(r#","prompt_tokens_details":{{"cached_tokens":{cached}}}"#)),
        Some(Details::Null(at)) => (at, format!(r#"{{"cached_tokens":{cached}}}"#)),
        Some(Details::Lacking { end, is_empty }) => {
            let comma = if is_empty { "" } else { "," };
            (end..end, format!(r#"{comma}"cached_tokens":{cached}"#))
        }
        Some(Details::Told { at, .. }) => (at, cached.to_string()),
    })
}

// === impl Written ===

impl Written {
    /// `None` for what is no unsigned integer.
    fn read(reader: &mut JsonReader<'_>) -> Result<Option<Self>, JsonError> {
        let start = reader.position();
        let count = reader.skip()?.parse().ok();
        Ok(count.map(|count| Self { at: start..reader.position(), count }))
    }

    fn becomes(&self, count: u64) -> Option<(Range<usize>, String)> {
        (count != self.count).then(|| (self.at.clone(), count.to_string()))
    }
}

// === impl Details ===

impl Details {
    /// With what is said of tokens that became cached. `None` for what is neither an object nor null.
    fn read(reader: &mut JsonReader<'_>) -> Result<(Option<Self>, Option<Written>), JsonError> {
        let (kind, start) = (reader.kind()?, reader.position());
        let (mut told, mut created, mut is_empty) = (None, None, true);
        let is_object = object_or_skip(reader, |member, key| {
            is_empty = false;
            member.kind()?;
            let start = member.position();
            let count = member.skip()?.parse().ok();
            let at = start..member.position();
            match key {
                "cached_tokens" => told = Some(Self::Told { at, count }),
                "created_cache_tokens" => created = count.map(|count| Written { at, count }),
                _ => {}
            }
            Ok(())
        })?;
        let end = reader.position();
        let details = match kind {
            JsonKind::Null => Some(Self::Null(start..end)),
            _ if is_object => Some(told.unwrap_or(Self::Lacking { end: end - 1, is_empty })),
            _ => None,
        };
        Ok((details, created))
    }
}

#[cfg(test)]
mod tests;
