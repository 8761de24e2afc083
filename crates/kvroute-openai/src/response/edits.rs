//! What is changed in a part on its way to the client, in place: every other byte stays as it was.

use std::ops::Range;

use crate::Unasked;

/// The edits of one part, in the order of its text.
#[derive(Clone, Debug, Default)]
pub(super) struct Edits {
    edits: Vec<Edit>,
    /// Members of the part itself that are taken out whatever they are.
    removed: usize,
}

#[derive(Clone, Debug)]
struct Edit {
    /// A value.
    at: Range<usize>,
    kind: EditKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EditKind {
    /// The value's member is taken out, with its key and one comma.
    Remove,
    /// The value becomes null.
    Null,
}

// === impl Edits ===

impl Edits {
    pub(super) fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    pub(super) const fn removed(&self) -> usize {
        self.removed
    }

    pub(super) fn clear(&mut self) {
        self.edits.clear();
        self.removed = 0;
    }

    pub(super) fn remove_member(&mut self, value: Range<usize>) {
        self.edits.push(Edit { at: value, kind: EditKind::Remove });
        self.removed += 1;
    }

    /// Takes a list of ids out, wherever in the part it stands.
    pub(super) fn withhold_list(&mut self, value: Range<usize>, unasked: Unasked) {
        let kind = match unasked {
            Unasked::Null => EditKind::Null,
            Unasked::Absent => EditKind::Remove,
        };
        self.edits.push(Edit { at: value, kind });
    }

    /// Appends the edited text.
    pub(super) fn write(&mut self, text: &str, out: &mut Vec<u8>) {
        self.widen(text);
        let mut done = 0;
        for Edit { at, kind } in self.edits.drain(..) {
            out.extend_from_slice(&text.as_bytes()[done..at.start]);
            if kind == EditKind::Null {
                out.extend_from_slice(b"null");
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
    let key = text[..key_end].rfind('"').unwrap_or(0);
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
