//! Lines as Python knows them: more characters end one than in Rust, and Jinja's `indent` keeps a last empty one.

use minijinja::value::Kwargs;
use minijinja::{Error, Value};

/// The filter `indent(width=4, first=false, blank=false)`.
#[expect(clippy::needless_pass_by_value, reason = "the form in which filters get their options")]
pub(super) fn indent(
    text: &str,
    width: Option<Value>,
    first: Option<bool>,
    blank: Option<bool>,
    options: Kwargs,
) -> Result<String, Error> {
    let width = match width {
        Some(positional) => Some(positional),
        None => options.get("width")?,
    };
    let first = first.or(options.get("first")?).unwrap_or(false);
    let blank = blank.or(options.get("blank")?).unwrap_or(false);
    options.assert_all_used()?;
    Ok(indented(text, &indentation(width)?, first, blank))
}

/// A number of columns or the text itself.
fn indentation(width: Option<Value>) -> Result<String, Error> {
    let Some(wanted) = width else { return Ok(" ".repeat(4)) };
    if let Some(text) = wanted.as_str() {
        return Ok(text.to_owned());
    }
    Ok(" ".repeat(usize::try_from(i64::try_from(wanted)?.max(0)).unwrap_or(0)))
}

fn indented(text: &str, indentation: &str, first: bool, blank: bool) -> String {
    let mut result = String::with_capacity(text.len() * 2);
    for (index, line) in lines_of(text).into_iter().enumerate() {
        if index > 0 {
            result.push('\n');
        }
        let is_indented = if index == 0 { first } else { blank || !line.is_empty() };
        if is_indented {
            result.push_str(indentation);
        }
        result.push_str(line);
    }
    result
}

/// `(text + "\n").splitlines()`.
fn lines_of(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(end) = rest.find(ends_line) {
        let (line, behind) = rest.split_at(end);
        lines.push(line);
        let mark =
            if behind.starts_with("\r\n") { 2 } else { behind.chars().next().map_or(0, char::len_utf8) };
        rest = &behind[mark..];
    }
    lines.push(rest);
    lines
}

fn ends_line(character: char) -> bool {
    matches!(character, '\n'..='\r' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by Jinja2.
    #[test]
    fn lines_are_indented_as_by_jinja() {
        for (text, first, blank, expected) in [
            ("{\n", true, false, "  {\n"),
            ("a\n\nb\r\nc\u{2028}d", false, false, "a\n\n  b\n  c\n  d"),
            ("a\n\nb\n", true, true, "  a\n  \n  b\n  "),
            ("", true, false, "  "),
        ] {
            assert_eq!(indented(text, "  ", first, blank), expected);
        }
    }
}
