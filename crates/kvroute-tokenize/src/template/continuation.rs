//! A last message that is left open to be continued, as Hugging Face does it.
//!
//! A mark is put behind the message's text before rendering, and the rendered chat is cut at the mark. The mark ends with a
//! blank: where that is gone, the template strips white space, and what stands before the mark is stripped too.

use crate::tree::{Members, Tree};

const MARK: &str = "CONTINUE_FINAL_MESSAGE_TAG ";

/// The text of a last message that was marked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenTurn(String);

// === impl OpenTurn ===

impl OpenTurn {
    /// Marks the text of the last message, or of its last part that has one.
    ///
    /// # Errors
    /// When there is no text.
    pub(crate) fn mark(messages: &mut [Tree]) -> Result<Self, String> {
        let content = match messages.last_mut() {
            Some(Tree::Map(message)) => message.get_mut("content"),
            _ => None,
        };
        let text = match content {
            Some(Tree::Text(text)) => Some(text),
            Some(Tree::List(parts)) => parts.iter_mut().rev().find_map(|part| match part {
                Tree::Map(members) => text_of(members),
                _ => None,
            }),
            _ => None,
        };
        let Some(text) = text else {
            let problem =
                "continue_final_message is set, but the final message has no text; add one or leave it out";
            return Err(problem.to_owned());
        };
        let unmarked = text.clone();
        text.push_str(MARK);
        Ok(Self(unmarked))
    }

    /// Cuts a rendered chat behind the marked text.
    ///
    /// # Errors
    /// When the template dropped that text.
    pub(crate) fn cut(&self, mut rendered: String) -> Result<String, String> {
        let place = rendered.rfind(MARK.trim_end()).filter(|_| rendered.contains(self.0.trim()));
        let Some(place) = place else {
            return Err(
                "continue_final_message is set, but the chat template drops the final message".to_owned()
            );
        };
        let keeps_blanks = rendered[place..].starts_with(MARK);
        rendered.truncate(place);
        if !keeps_blanks {
            rendered.truncate(rendered.trim_end().len());
        }
        Ok(rendered)
    }
}

fn text_of(part: &mut Members) -> Option<&mut String> {
    match part.get_mut("text") {
        Some(Tree::Text(text)) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left of a chat whose last content is `text`, where the template does `render` with it.
    fn continued(text: &str, render: impl Fn(&str) -> String) -> Result<String, String> {
        let mut message = Members::default();
        message.set("content", Tree::Text(text.to_owned()));
        let mut messages = [Tree::Map(message)];
        let open = OpenTurn::mark(&mut messages).unwrap();
        let [Tree::Map(marked)] = &messages else { panic!("no message") };
        open.cut(render(marked.get("content").and_then(Tree::as_text).unwrap_or_default()))
    }

    /// Made by Hugging Face's own code.
    #[test]
    fn the_final_message_is_left_open_behind_its_text() {
        let plain = |content: &str| format!("<a>x y</a><a>{content}</a>x \n");
        for (text, expected) in [
            ("x", "<a>x y</a><a>x"),
            ("x ", "<a>x y</a><a>x "),
            (" x ", "<a>x y</a><a> x "),
            ("  ", "<a>x y</a><a>  "),
        ] {
            assert_eq!(continued(text, plain).unwrap(), expected);
        }
        let stripping = |content: &str| format!("<a>{}</a>", content.trim());
        for (text, expected) in [("x ", "<a>x"), (" x\n", "<a>x"), ("", "<a>")] {
            assert_eq!(continued(text, stripping).unwrap(), expected);
        }
        assert_eq!(
            continued("x", |_| "<a></a>".to_owned()).unwrap_err(),
            "continue_final_message is set, but the chat template drops the final message"
        );
    }
}
