//! How Python prints lists, maps and what is in them.

use minijinja::value::{Tuple, ValueKind};
use minijinja::{Error, Value};

use super::float;

/// `repr(value)`.
pub(super) fn repr(value: &Value) -> Result<String, Error> {
    let mut text = String::new();
    push_value(value, &mut text)?;
    Ok(text)
}

/// Whether a value is printed by [`repr`] where a template prints it.
pub(super) fn is_container(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Map)
}

fn push_value(value: &Value, text: &mut String) -> Result<(), Error> {
    match value.kind() {
        ValueKind::String => push_string(value.as_str().unwrap_or_default(), text),
        ValueKind::Number if !value.is_integer() => {
            text.push_str(&float::repr(f64::try_from(value.clone())?));
        }
        ValueKind::Seq => push_items(value, text)?,
        ValueKind::Map => push_members(value, text)?,
        _ => text.push_str(&value.to_string()),
    }
    Ok(())
}

fn push_items(list: &Value, text: &mut String) -> Result<(), Error> {
    let is_tuple = list.downcast_object_ref::<Tuple>().is_some();
    let mut count = 0;
    text.push(if is_tuple { '(' } else { '[' });
    for item in list.try_iter()? {
        if count > 0 {
            text.push_str(", ");
        }
        count += 1;
        push_value(&item, text)?;
    }
    match (is_tuple, count) {
        (true, 1) => text.push_str(",)"),
        (true, _) => text.push(')'),
        (false, _) => text.push(']'),
    }
    Ok(())
}

fn push_members(map: &Value, text: &mut String) -> Result<(), Error> {
    let mut is_first = true;
    text.push('{');
    for key in map.try_iter()? {
        if !is_first {
            text.push_str(", ");
        }
        is_first = false;
        push_value(&key, text)?;
        text.push_str(": ");
        push_value(&map.get_item(&key)?, text)?;
    }
    text.push('}');
    Ok(())
}

/// In single quotes, unless only double ones need no backslash; what cannot be seen is written as a number.
fn push_string(string: &str, text: &mut String) {
    let quote = if string.contains('\'') && !string.contains('"') { '"' } else { '\'' };
    text.push(quote);
    for character in string.chars() {
        match character {
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\\' => text.push_str("\\\\"),
            _ if character == quote => {
                text.push('\\');
                text.push(quote);
            }
            _ if is_printable(character) => text.push(character),
            _ => text.push_str(&numbered(character)),
        }
    }
    text.push(quote);
}

fn numbered(character: char) -> String {
    match u32::from(character) {
        code @ ..0x100 => format!("\\x{code:02x}"),
        code @ ..0x1_0000 => format!("\\u{code:04x}"),
        code => format!("\\U{code:08x}"),
    }
}

/// Whether a character can be seen. Rust's debug format makes the same choice, except for marks at the start of a text.
fn is_printable(character: char) -> bool {
    let behind_a_letter = String::from_iter(['a', character]);
    matches!(character, '"' | '\'') || behind_a_letter.escape_debug().eq(behind_a_letter.chars())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs made by CPython.
    #[test]
    fn strings_are_printed_as_in_python() {
        for (string, expected) in [
            ("it's", r#""it's""#),
            (r#"it's "it""#, r#"'it\'s "it"'"#),
            ("a\n\t\r\\", r"'a\n\t\r\\'"),
            ("\u{7f}\u{85}\u{a0}\u{ad}\0", r"'\x7f\x85\xa0\xad\x00'"),
            ("\u{200d}\u{2028}\u{3000}\u{feff}", r"'\u200d\u2028\u3000\ufeff'"),
            ("\u{301}é👍🏽\u{fffd}", "'\u{301}é👍🏽\u{fffd}'"),
            ("\u{e000}\u{ff926}", r"'\ue000\U000ff926'"),
        ] {
            assert_eq!(repr(&Value::from(string)).unwrap(), expected);
        }
    }
}
