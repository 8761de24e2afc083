//! Reads a streamed answer as any client would: lines, JSON, text.
//!
//! Written apart from the router's own scanner, so that the demo would notice a stream that the router broke.

use serde::Deserialize;

/// Collects the text of one stream that comes in pieces.
#[derive(Debug, Default)]
pub(crate) struct AnswerReader {
    line: Vec<u8>,
    text: String,
    is_done: bool,
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    error: Option<ErrorText>,
}

#[derive(Deserialize)]
struct Choice {
    text: Option<String>,
    delta: Option<Delta>,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<String>,
}

#[derive(Deserialize)]
struct ErrorText {
    message: String,
}

// === impl AnswerReader ===

impl AnswerReader {
    /// Takes the next piece of the stream.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), String> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                self.read_line(line.trim_ascii())?;
            }
        }
        Ok(())
    }

    /// True once some text came.
    pub(crate) const fn has_text(&self) -> bool {
        !self.text.is_empty()
    }

    /// The whole answer; an error if the stream ended without its end mark.
    pub(crate) fn finish(self) -> Result<String, String> {
        if self.is_done { Ok(self.text) } else { Err("the stream ended without [DONE]".to_owned()) }
    }

    fn read_line(&mut self, line: &[u8]) -> Result<(), String> {
        let Some(data) = line.strip_prefix(b"data:") else { return Ok(()) };
        if data.trim_ascii() == b"[DONE]" {
            self.is_done = true;
            return Ok(());
        }
        let chunk: Chunk =
            serde_json::from_slice(data).map_err(|error| format!("unreadable chunk: {error}"))?;
        if let Some(error) = chunk.error {
            return Err(error.message);
        }
        for choice in chunk.choices {
            let content = choice.text.or_else(|| choice.delta.and_then(|delta| delta.content));
            self.text.push_str(&content.unwrap_or_default());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAT: &str = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\r\n\r\n\
        data: {\"choices\":[{\"delta\":{\"content\":\" größer\"}}]}\n\n\
        : remark\n\n\
        data: {\"choices\":[{\"delta\":{}}],\"usage\":null}\n\n\
        data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3}}\n\ndata: [DONE]\n\n";

    #[test]
    fn any_chunking_gives_the_same_text() {
        for size in 1..CHAT.len() {
            let mut reader = AnswerReader::default();
            for piece in CHAT.as_bytes().chunks(size) {
                reader.push(piece).unwrap();
            }
            assert_eq!(reader.finish().unwrap(), " größer");
        }
    }

    #[test]
    fn a_chunk_without_text_is_not_the_first_token() {
        let mut reader = AnswerReader::default();
        let (head, rest) = CHAT.split_at(CHAT.find("data: {\"choices\":[{\"delta\":{\"content").unwrap());
        reader.push(head.as_bytes()).unwrap();
        assert!(!reader.has_text());
        reader.push(rest.as_bytes()).unwrap();
        assert!(reader.has_text());
    }

    #[test]
    fn completions_carry_text_of_their_own() {
        let mut reader = AnswerReader::default();
        reader.push(b"data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: [DONE]\n\n").unwrap();
        assert_eq!(reader.finish().unwrap(), "a");
    }

    #[test]
    fn a_stream_that_broke_is_an_error() {
        let mut reader = AnswerReader::default();
        let broke = reader.push(b"data: {\"error\":{\"message\":\"worker gone\"}}\n\n");
        assert_eq!(broke.unwrap_err(), "worker gone");
        assert!(AnswerReader::default().finish().unwrap_err().contains("[DONE]"));
        assert!(AnswerReader::default().push(b"data: {oops\n").unwrap_err().contains("unreadable chunk"));
    }
}
