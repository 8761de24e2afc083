//! How values stand in a line of text: in a way that none of them can end the line or begin another one.
//!
//! Much of what is logged was written by others: a client's model, a worker's error. A line break in it would be a line
//! of the log, and an escape sequence would be obeyed by the terminal that shows it.

use std::fmt::{self, Write};

use tracing::field::{Field, Visit};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::Writer;

const ITALIC: &str = "\u{1b}[3m";
const DIM: &str = "\u{1b}[2m";
const PLAIN: &str = "\u{1b}[0m";

/// Writes fields as `name=value`, and a message as it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineFields;

struct LineVisitor<'writer> {
    writer: Writer<'writer>,
    is_first: bool,
    result: fmt::Result,
}

/// Passes text on without anything that a terminal or a reader of lines would obey.
struct Harmless<'a, 'writer>(&'a mut Writer<'writer>);

impl<'writer> FormatFields<'writer> for LineFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut visitor = LineVisitor { writer, is_first: true, result: Ok(()) };
        fields.record(&mut visitor);
        visitor.result
    }
}

// === impl LineVisitor ===

impl LineVisitor<'_> {
    fn write(&mut self, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
        if !std::mem::take(&mut self.is_first) {
            self.writer.write_char(' ')?;
        }
        let name = field.name();
        match (name, self.writer.has_ansi_escapes()) {
            ("message", _) => {}
            (name, true) => write!(self.writer, "{ITALIC}{name}{PLAIN}{DIM}={PLAIN}")?,
            (name, false) => write!(self.writer, "{name}=")?,
        }
        write!(Harmless(&mut self.writer), "{value:?}")
    }
}

impl Visit for LineVisitor<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if self.result.is_ok() {
            self.result = self.write(field, value);
        }
    }
}

// === impl Harmless ===

impl Write for Harmless<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut written = 0;
        for (at, character) in text.char_indices().filter(|(_, character)| is_obeyed(*character)) {
            self.0.write_str(&text[written..at])?;
            write!(self.0, "{}", character.escape_default())?;
            written = at + character.len_utf8();
        }
        self.0.write_str(&text[written..])
    }
}

/// Control characters, what else breaks a line, and what turns the direction of the text behind it.
fn is_obeyed(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests;
