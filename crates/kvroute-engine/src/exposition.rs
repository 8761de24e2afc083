//! The Prometheus text format, as far as engines are read in it.
//!
//! Some engines tell their configuration, their start or their load nowhere else. Reading is tolerant, because every
//! exporter writes a little differently: a line that cannot be read is passed over, and what remains is used.

use std::borrow::Cow;

/// One line with a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Series<'a> {
    name: &'a [u8],
    labels: &'a [u8],
    /// As written, which may be infinite or no number.
    pub(crate) value: f64,
}

/// Every series, in the order in which they are written.
pub(crate) fn series(exposition: &[u8]) -> impl Iterator<Item = Series<'_>> {
    exposition.split(|byte| *byte == b'\n').filter_map(Series::read)
}

// === impl Series ===

impl<'a> Series<'a> {
    /// Reads `name{label="value"} 1.5 1700000000000`; comments and what does not look like that are nothing.
    fn read(line: &'a [u8]) -> Option<Self> {
        let line = line.trim_ascii();
        let name_end = line.iter().position(|byte| *byte == b'{' || byte.is_ascii_whitespace())?;
        let (name, rest) = line.split_at(name_end);
        if name.is_empty() || name[0] == b'#' {
            return None;
        }
        let rest = rest.trim_ascii_start();
        let (labels, rest) = match rest.strip_prefix(b"{") {
            Some(labelled) => {
                let end = end_of_labels(labelled)?;
                (&labelled[..end], &labelled[end + 1..])
            }
            None => (&[][..], rest),
        };
        let value = rest.trim_ascii_start().split(u8::is_ascii_whitespace).next()?;
        let value = std::str::from_utf8(value).ok()?.parse().ok()?;
        Some(Self { name, labels, value })
    }

    /// Whether it is of this family. Exporters that cannot write a colon write an underscore instead.
    pub(crate) fn is(&self, family: &str) -> bool {
        let alike = |(written, wanted): (&u8, u8)| *written == wanted || (*written, wanted) == (b'_', b':');
        self.name.len() == family.len() && self.name.iter().zip(family.bytes()).all(alike)
    }

    /// The value of a label, its escapes resolved.
    pub(crate) fn label(&self, wanted: &str) -> Option<Cow<'a, str>> {
        let mut rest = self.labels;
        loop {
            let equals = rest.iter().position(|byte| *byte == b'=')?;
            let name = rest[..equals].trim_ascii();
            let name = name.strip_prefix(b",").unwrap_or(name).trim_ascii_start();
            let quoted = rest[equals + 1..].trim_ascii_start().strip_prefix(b"\"")?;
            let end = end_of_quote(quoted)?;
            if name == wanted.as_bytes() {
                return Some(unescape(&quoted[..end]));
            }
            rest = &quoted[end + 1..];
        }
    }
}

/// Where the closing brace stands that is not inside quotes.
fn end_of_labels(labelled: &[u8]) -> Option<usize> {
    let mut position = 0;
    loop {
        let rest = &labelled[position..];
        let next = rest.iter().position(|byte| matches!(byte, b'}' | b'"'))?;
        if rest[next] == b'}' {
            return Some(position + next);
        }
        let inside = position + next + 1;
        position = inside + end_of_quote(&labelled[inside..])? + 1;
    }
}

/// Where the closing quote stands, in what follows an opening one.
fn end_of_quote(quoted: &[u8]) -> Option<usize> {
    let mut is_escaped = false;
    quoted.iter().position(|byte| {
        let is_end = !is_escaped && *byte == b'"';
        is_escaped = !is_escaped && *byte == b'\\';
        is_end
    })
}

fn unescape(value: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(value);
    if !text.contains('\\') {
        return text;
    }
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('n') => plain.push('\n'),
                Some(escaped) => plain.push(escaped),
                None => {}
            },
            _ => plain.push(character),
        }
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests;
