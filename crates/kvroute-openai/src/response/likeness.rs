//! Parts of a stream that differ in nothing but their text.
//!
//! An engine writes the same for each token but for the text of it. What one such part says the next one says as well, and
//! to compare it with the one before takes a tenth of the time of reading it.

use crate::json::string_length;

/// The part that was read last, if nothing but text was in it.
#[derive(Debug, Default)]
pub(super) struct Likeness {
    /// Up to its text, with the quote; empty: the last one is nothing to compare with.
    before: String,
    /// From the closing quote on.
    after: String,
    choice: u32,
}

// === impl Likeness ===

impl Likeness {
    /// Nothing can be compared with the part that was read last.
    pub(super) fn forget(&mut self) {
        self.before.clear();
    }

    /// A part brought text for a choice and said nothing else; its text is written at this place, in quotes.
    pub(super) fn learn(&mut self, part: &str, written: std::ops::Range<usize>, choice: u32) {
        self.forget();
        let (Some(before), Some(after)) = (part.get(..=written.start), part.get(written.end - 1..)) else {
            return;
        };
        self.before.push_str(before);
        self.after.clear();
        self.after.push_str(after);
        self.choice = choice;
    }

    /// The choice that this part brings text for, if it says the same as the last one.
    pub(super) fn choice_of(&self, part: &[u8]) -> Option<u32> {
        if self.before.is_empty() {
            return None;
        }
        let rest = part.strip_prefix(self.before.as_bytes())?;
        let length = string_length(rest).filter(|length| *length > 0)?;
        let (text, after) = rest.split_at(length);
        let is_alike = after == self.after.as_bytes() && std::str::from_utf8(text).is_ok();
        is_alike.then_some(self.choice)
    }
}
