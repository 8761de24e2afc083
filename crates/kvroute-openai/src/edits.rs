//! What is changed in JSON text, in place: every other byte stays as it was.

use std::borrow::Cow;
use std::ops::Range;

use crate::Unasked;

/// Edits of one text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Edits {
    edits: Vec<Edit>,
    /// Members of the text itself that are taken out whatever they are.
    removed: usize,
}

#[derive(Clone, Debug)]
struct Edit {
    /// A value, or the place where something goes in.
    at: Range<usize>,
    kind: EditKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum EditKind {
    /// The value's member is taken out, with its key and one comma.
    Remove,
    /// The value becomes this.
    Replace(Cow<'static, str>),
}

// === impl Edits ===

impl Edits {
    pub(crate) fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    pub(crate) const fn removed(&self) -> usize {
        self.removed
    }

    pub(crate) fn clear(&mut self) {
        self.edits.clear();
        self.removed = 0;
    }

    pub(crate) fn remove_member(&mut self, value: Range<usize>) {
        self.edits.push(Edit { at: value, kind: EditKind::Remove });
        self.removed += 1;
    }

    /// Takes out a member that is not one of the text itself.
    pub(crate) fn remove_nested(&mut self, value: Range<usize>) {
        self.edits.push(Edit { at: value, kind: EditKind::Remove });
    }

    /// Takes a list of ids out, wherever in the part it stands.
    pub(crate) fn withhold_list(&mut self, value: Range<usize>, unasked: Unasked) {
        let kind = match unasked {
            Unasked::Null => EditKind::Replace(Cow::Borrowed("null")),
            Unasked::Absent => EditKind::Remove,
        };
        self.edits.push(Edit { at: value, kind });
    }

    /// Puts text in the place of a value, or where nothing is if the range is empty.
    pub(crate) fn replace(&mut self, value: Range<usize>, text: impl Into<Cow<'static, str>>) {
        self.edits.push(Edit { at: value, kind: EditKind::Replace(text.into()) });
    }

    /// Appends the edited text.
    pub(crate) fn write(&mut self, text: &str, out: &mut Vec<u8>) {
        self.edits.sort_by_key(|edit| edit.at.start);
        self.widen(text);
        let mut done = 0;
        for Edit { at, kind } in self.edits.drain(..) {
            out.extend_from_slice(&text.as_bytes()[done..at.start]);
            if let EditKind::Replace(replacement) = kind {
                out.extend_from_slice(replacement.as_bytes());
            }
            done = at.end;
        }
        out.extend_from_slice(&text.as_bytes()[done..]);
    }

    /// From values to all that goes with them. From the back, so that a member knows whether a comma is left behind it.
    fn widen(&mut self, text: &str) {
        let mut end = text.len();
        for edit in self.edits.iter_mut().rev() {
            if edit.kind == EditKind::Remove {
                edit.at = member_around(&text[..end], &edit.at);
            }
            end = edit.at.start;
        }
    }
}

/// The bytes to cut so that the member with this value is gone: its key, its value and one comma.
fn member_around(text: &str, value: &Range<usize>) -> Range<usize> {
    const SPACE: [char; 4] = [' ', '\t', '\n', '\r'];
    let key_end = text[..value.start].rfind('"').unwrap_or(0);
    let key = opening_quote(&text[..key_end]);
    let after = text[value.end..].trim_start_matches(SPACE);
    if let Some(behind_comma) = after.strip_prefix(',') {
        return key..text.len() - behind_comma.trim_start_matches(SPACE).len();
    }
    let before = text[..key].trim_end_matches(SPACE);
    match before.strip_suffix(',') {
        Some(before_comma) => before_comma.len()..value.end,
        None => key..value.end,
    }
}

/// Where the string begins whose text ends here: a quote behind an odd number of backslashes is part of it.
fn opening_quote(text: &str) -> usize {
    let is_escaped = |at: usize| {
        let before = &text.as_bytes()[..at];
        !before.iter().rev().take_while(|byte| **byte == b'\\').count().is_multiple_of(2)
    };
    text.rmatch_indices('"').map(|(at, _)| at).find(|at| !is_escaped(*at)).unwrap_or(0)
}
