//! A pull reader over JSON text that keeps positions and number forms.
//!
//! The router edits JSON in place and must not change what it does not own, so it needs to know *where* a
//! value stands and how a number was *written*; a parsed tree has forgotten both. Reading by pull also skips
//! what nobody asked for (a prompt of megabytes, log probabilities) at the speed of a byte search and lets
//! each field be judged on its own: one odd field does not make the others unreadable.
//!
//! The grammar is RFC 8259 without extensions: no comments, no `NaN`, no raw control characters in strings.

mod error;
mod number;
mod text;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub use error::JsonError;
pub(crate) use text::string_length;

/// Reads one JSON text from the left to the right.
#[derive(Clone, Debug)]
pub struct JsonReader<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
}

/// What a value is, by its first character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonKind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// A number in any form.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

// === impl JsonKind ===

impl JsonKind {
    /// The kind with its article, for messages.
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "a boolean",
            Self::Number => "a number",
            Self::String => "a string",
            Self::Array => "an array",
            Self::Object => "an object",
        }
    }
}

// === impl JsonReader ===

impl<'a> JsonReader<'a> {
    /// Deepest nesting that is read; deeper text is refused rather than exhausting the stack.
    pub const MAX_DEPTH: u32 = 128;

    /// Starts before the first value.
    pub const fn new(text: &'a str) -> Self {
        Self { text, at: 0, depth: 0 }
    }

    /// Bytes read so far.
    pub const fn position(&self) -> usize {
        self.at
    }

    /// Kind of the next value, which is not consumed.
    pub fn kind(&mut self) -> Result<JsonKind, JsonError> {
        match self.peek_token() {
            Some(b'n') => Ok(JsonKind::Null),
            Some(b't' | b'f') => Ok(JsonKind::Bool),
            Some(b'-' | b'0'..=b'9') => Ok(JsonKind::Number),
            Some(b'"') => Ok(JsonKind::String),
            Some(b'[') => Ok(JsonKind::Array),
            Some(b'{') => Ok(JsonKind::Object),
            Some(_) => Err(self.error("expected a value")),
            None => Err(self.error("unexpected end, expected a value")),
        }
    }

    /// Reads `null`.
    pub fn null(&mut self) -> Result<(), JsonError> {
        self.peek_token();
        self.word("null")
    }

    /// Reads `true` or `false`.
    pub fn bool(&mut self) -> Result<bool, JsonError> {
        let value = self.peek_token() == Some(b't');
        self.word(if value { "true" } else { "false" })?;
        Ok(value)
    }

    /// Reads a number and returns it as it is written.
    pub fn number(&mut self) -> Result<&'a str, JsonError> {
        self.peek_token();
        let length = number::length(&self.text.as_bytes()[self.at..]);
        let start = self.at;
        match length {
            Some(length) => self.at += length,
            None => return Err(self.error("invalid number")),
        }
        Ok(&self.text[start..self.at])
    }

    /// Reads a string. Copies only where it holds escapes.
    pub fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        let (raw, escaped) = self.raw_string()?;
        if !escaped {
            return Ok(Cow::Borrowed(raw));
        }
        match text::unescape(raw) {
            Some(decoded) => Ok(Cow::Owned(decoded)),
            None => Err(self.error("lone surrogate in the string before")),
        }
    }

    /// Reads any value and returns it as it is written.
    pub fn skip(&mut self) -> Result<&'a str, JsonError> {
        let kind = self.kind()?;
        let start = self.at;
        match kind {
            JsonKind::Null => self.null()?,
            JsonKind::Bool => drop(self.bool()?),
            JsonKind::Number => drop(self.number()?),
            JsonKind::String => drop(self.raw_string()?),
            JsonKind::Array => self.array(|reader| reader.skip().map(drop))?,
            JsonKind::Object => self.members(|reader, _raw, _escaped| reader.skip().map(drop))?,
        }
        Ok(&self.text[start..self.at])
    }

    /// Reads an array; `element` must consume exactly one value each time.
    pub fn array<E: From<JsonError>>(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        self.open(b'[', "expected `[`")?;
        if !self.take_token(b']') {
            loop {
                element(self)?;
                if !self.take_token(b',') {
                    break;
                }
            }
            self.expect(b']', "expected `,` or `]`")?;
        }
        self.depth -= 1;
        Ok(())
    }

    /// Reads an object; `member` gets each key and must consume exactly its value. Repeated keys come as
    /// often as they are written, so that the last one wins where each overwrites the one before.
    pub fn object<E: From<JsonError>>(
        &mut self,
        mut member: impl FnMut(&mut Self, &str) -> Result<(), E>,
    ) -> Result<(), E> {
        self.members(|reader, raw, escaped| {
            if !escaped {
                return member(reader, raw);
            }
            match text::unescape(raw) {
                Some(key) => member(reader, &key),
                None => Err(reader.error("lone surrogate in the key before").into()),
            }
        })
    }

    /// Reads a list of plain numbers below 2^32, as a program writes it; false, and nothing read, for any other value,
    /// although some of its numbers may have been handed over. Lists of token ids are long, and this takes a third of the
    /// time of reading element by element.
    pub(crate) fn plain_numbers(&mut self, mut number: impl FnMut(u32)) -> bool {
        let is_list = self.peek_token() == Some(b'[') && self.depth < Self::MAX_DEPTH;
        let length =
            if is_list { number::plain_list(&self.text.as_bytes()[self.at..], &mut number) } else { None };
        self.at += length.unwrap_or(0);
        length.is_some()
    }

    /// Checks that nothing but white space is left.
    pub fn finish(&mut self) -> Result<(), JsonError> {
        match self.peek_token() {
            None => Ok(()),
            Some(_) => Err(self.error("unexpected text after the value")),
        }
    }

    fn members<E: From<JsonError>>(
        &mut self,
        mut member: impl FnMut(&mut Self, &'a str, bool) -> Result<(), E>,
    ) -> Result<(), E> {
        self.open(b'{', "expected `{`")?;
        if !self.take_token(b'}') {
            loop {
                let (raw, escaped) = self.raw_string()?;
                self.expect(b':', "expected `:`")?;
                member(self, raw, escaped)?;
                if !self.take_token(b',') {
                    break;
                }
            }
            self.expect(b'}', "expected `,` or `}`")?;
        }
        self.depth -= 1;
        Ok(())
    }

    /// The text between the quotes, and whether it holds escapes.
    fn raw_string(&mut self) -> Result<(&'a str, bool), JsonError> {
        self.expect(b'"', "expected a string")?;
        let start = self.at;
        match text::scan(&self.text.as_bytes()[start..]) {
            Ok(scanned) => {
                self.at = start + scanned.length + 1;
                Ok((&self.text[start..start + scanned.length], scanned.escaped))
            }
            Err(problem) => {
                self.at = start + problem.at;
                Err(self.error(problem.what))
            }
        }
    }

    /// The message names [`JsonReader::MAX_DEPTH`].
    fn open(&mut self, bracket: u8, problem: &'static str) -> Result<(), JsonError> {
        self.expect(bracket, problem)?;
        self.depth += 1;
        if self.depth > Self::MAX_DEPTH {
            return Err(self.error("arrays and objects nested deeper than 128 levels").too_deep());
        }
        Ok(())
    }

    fn expect(&mut self, token: u8, problem: &'static str) -> Result<(), JsonError> {
        if self.take_token(token) { Ok(()) } else { Err(self.error(problem)) }
    }

    fn take_token(&mut self, token: u8) -> bool {
        let found = self.peek_token() == Some(token);
        self.at += usize::from(found);
        found
    }

    /// Skips white space and shows the byte behind it.
    fn peek_token(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(&byte) = bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Some(byte);
            }
            self.at += 1;
        }
        None
    }

    fn word(&mut self, word: &'static str) -> Result<(), JsonError> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.error("expected a value"));
        }
        self.at += word.len();
        Ok(())
    }

    #[cold]
    fn error(&self, problem: &'static str) -> JsonError {
        JsonError::new(problem, self.text, self.at)
    }
}
