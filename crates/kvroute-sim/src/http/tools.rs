//! Answers that call a tool: the words of the answer become the call's only argument.

use serde_json::{Value, json};

/// A call of one choice.
#[derive(Clone, Debug)]
pub(super) struct ToolCall<'a> {
    pub(super) id: String,
    pub(super) name: &'a str,
}

const OPENING: &str = r#"{"words":""#;
const CLOSING: &str = r#""}"#;

/// The arguments of a whole call, as text.
pub(super) fn arguments(words: &str) -> String {
    format!("{OPENING}{}{CLOSING}", escaped(words))
}

/// The part of the arguments that one word makes.
pub(super) fn piece(word: &str, is_first: bool, is_last: bool) -> String {
    let (opening, closing) = (if is_first { OPENING } else { "" }, if is_last { CLOSING } else { "" });
    format!("{opening}{}{closing}", escaped(word))
}

fn escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

// === impl ToolCall ===

impl ToolCall<'_> {
    /// The function with all its arguments.
    pub(super) fn function(&self, words: &str) -> Value {
        json!({ "name": self.name, "arguments": arguments(words) })
    }

    /// The function at the beginning of a stream.
    pub(super) fn begun(&self) -> Value {
        json!({ "name": self.name, "arguments": "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pieces_of_arguments_make_the_whole() {
        let words = [" a", " \"b\"", " c"];
        let pieces = words.iter().zip(0..).map(|(word, at)| piece(word, at == 0, at == 2));
        assert_eq!(pieces.collect::<String>(), arguments(&words.concat()));
        assert_eq!(
            serde_json::from_str::<Value>(&arguments(" \"b\"")).unwrap(),
            json!({ "words": " \"b\"" })
        );
    }
}
