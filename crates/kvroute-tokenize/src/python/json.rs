//! `json.dumps`, which Hugging Face puts in the place of Jinja2's HTML-escaping `tojson`.

#[cfg(test)]
mod tests;

use std::fmt::Write;

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, Value};

use super::float;

/// How to write; the defaults are those of Hugging Face's filter.
#[derive(Clone, Debug)]
struct Style {
    ensure_ascii: bool,
    sort_keys: bool,
    /// One level of indentation; `None` for a single line.
    indent: Option<String>,
    between_items: String,
    behind_key: String,
}

/// The filter: `value | tojson(indent=None, ensure_ascii=False, separators=None, sort_keys=False)`.
#[expect(clippy::needless_pass_by_value, reason = "the form in which filters get their options")]
pub(super) fn tojson(value: &Value, indent: Option<Value>, options: Kwargs) -> Result<Value, Error> {
    let mut style = Style::default();
    let wanted = match indent {
        Some(positional) => Some(positional),
        None => options.get("indent")?,
    };
    style.set_indent(wanted)?;
    style.ensure_ascii = options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false);
    style.sort_keys = options.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    style.set_separators(options.get("separators")?)?;
    options.assert_all_used()?;
    write_value(value, &style).map(Value::from)
}

fn write_value(value: &Value, style: &Style) -> Result<String, Error> {
    let mut text = String::new();
    style.write(value, 0, &mut text)?;
    Ok(text)
}

// === impl Style ===

impl Default for Style {
    fn default() -> Self {
        Self {
            ensure_ascii: false,
            sort_keys: false,
            indent: None,
            between_items: ", ".to_owned(),
            behind_key: ": ".to_owned(),
        }
    }
}

impl Style {
    fn set_indent(&mut self, indent: Option<Value>) -> Result<(), Error> {
        let Some(wanted) = indent.filter(|value| !value.is_none()) else { return Ok(()) };
        self.indent = Some(match wanted.as_str() {
            Some(text) => text.to_owned(),
            None => " ".repeat(usize::try_from(i64::try_from(wanted)?.max(0)).unwrap_or(0)),
        });
        // Python leaves no blank at the end of a line.
        self.between_items = ",".to_owned();
        Ok(())
    }

    fn set_separators(&mut self, separators: Option<Value>) -> Result<(), Error> {
        let Some(wanted) = separators.filter(|value| !value.is_none()) else { return Ok(()) };
        let pair: Vec<String> = wanted.try_iter()?.map(|value| value.to_string()).collect();
        let Ok([between_items, behind_key]) = <[String; 2]>::try_from(pair) else {
            return Err(Error::new(ErrorKind::InvalidOperation, "separators of tojson must be a pair"));
        };
        self.between_items = between_items;
        self.behind_key = behind_key;
        Ok(())
    }

    fn write(&self, value: &Value, level: usize, text: &mut String) -> Result<(), Error> {
        match value.kind() {
            ValueKind::None => text.push_str("null"),
            ValueKind::Bool => text.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number if value.is_integer() => push_display(text, value),
            ValueKind::Number => text.push_str(&number(value)?),
            ValueKind::String => self.write_string(value.as_str().unwrap_or_default(), text),
            // The sum of two lists is an iterable here and a list in Python.
            ValueKind::Seq | ValueKind::Iterable => self.write_items(value, level, text)?,
            ValueKind::Map => self.write_members(value, level, text)?,
            other => {
                let message = format!("a value of kind {other} is not JSON serializable");
                return Err(Error::new(ErrorKind::InvalidOperation, message));
            }
        }
        Ok(())
    }

    fn write_items(&self, list: &Value, level: usize, text: &mut String) -> Result<(), Error> {
        let mut is_empty = true;
        text.push('[');
        for item in list.try_iter()? {
            self.next_line(is_empty, level + 1, text);
            is_empty = false;
            self.write(&item, level + 1, text)?;
        }
        self.close(']', is_empty, level, text);
        Ok(())
    }

    fn write_members(&self, map: &Value, level: usize, text: &mut String) -> Result<(), Error> {
        let mut keys: Vec<Value> = map.try_iter()?.collect();
        if self.sort_keys {
            keys.sort();
        }
        let is_empty = keys.is_empty();
        text.push('{');
        for (index, key) in keys.into_iter().enumerate() {
            self.next_line(index == 0, level + 1, text);
            self.write_string(&key_text(&key)?, text);
            text.push_str(&self.behind_key);
            self.write(&map.get_item(&key)?, level + 1, text)?;
        }
        self.close('}', is_empty, level, text);
        Ok(())
    }

    fn next_line(&self, is_first: bool, level: usize, text: &mut String) {
        if !is_first {
            text.push_str(&self.between_items);
        }
        self.break_line(level, text);
    }

    fn close(&self, bracket: char, is_empty: bool, level: usize, text: &mut String) {
        if !is_empty {
            self.break_line(level, text);
        }
        text.push(bracket);
    }

    fn break_line(&self, level: usize, text: &mut String) {
        if let Some(indent) = &self.indent {
            text.push('\n');
            text.push_str(&indent.repeat(level));
        }
    }

    fn write_string(&self, string: &str, text: &mut String) {
        text.push('"');
        for character in string.chars() {
            match character {
                '"' => text.push_str("\\\""),
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                '\u{8}' => text.push_str("\\b"),
                '\u{c}' => text.push_str("\\f"),
                control if control < ' ' => push_units(text, control),
                other if self.ensure_ascii && !(' '..='~').contains(&other) => push_units(text, other),
                other => text.push(other),
            }
        }
        text.push('"');
    }
}

fn push_units(text: &mut String, character: char) {
    let mut units = [0; 2];
    for unit in character.encode_utf16(&mut units) {
        push_display(text, format_args!("\\u{unit:04x}"));
    }
}

fn push_display(text: &mut String, value: impl std::fmt::Display) {
    // Writing to a string cannot fail.
    let _ = write!(text, "{value}");
}

/// Floats have other words for what no JSON has.
fn number(value: &Value) -> Result<String, Error> {
    let float = f64::try_from(value.clone())?;
    Ok(match float {
        _ if float.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "Infinity".to_owned(),
        f64::NEG_INFINITY => "-Infinity".to_owned(),
        _ => float::repr(float),
    })
}

/// Python writes keys that are no strings as JSON values inside quotes.
fn key_text(key: &Value) -> Result<String, Error> {
    match key.kind() {
        ValueKind::String => Ok(key.to_string()),
        ValueKind::None | ValueKind::Bool | ValueKind::Number => write_value(key, &Style::default()),
        other => {
            let message = format!("keys of kind {other} are not JSON serializable");
            Err(Error::new(ErrorKind::InvalidOperation, message))
        }
    }
}
