//! Where JSON text breaks the grammar.

/// Text that is not JSON, or not readable as the type that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem} at line {line} column {column}")]
pub struct JsonError {
    problem: &'static str,
    line: usize,
    column: usize,
    is_too_deep: bool,
}

// === impl JsonError ===

impl JsonError {
    /// Line and column are counted from 1, columns in bytes.
    pub(super) fn new(problem: &'static str, text: &str, at: usize) -> Self {
        let before = &text.as_bytes()[..at.min(text.len())];
        let line = 1 + memchr::memchr_iter(b'\n', before).count();
        let column = 1 + before.len() - memchr::memrchr(b'\n', before).map_or(0, |end| end + 1);
        Self { problem, line, column, is_too_deep: false }
    }

    /// The same for text that may be JSON, and is not read because it is nested too deeply.
    pub(super) const fn too_deep(self) -> Self {
        Self { is_too_deep: true, ..self }
    }

    /// Whether the text is not read because it is nested too deeply: then it may be JSON for others.
    pub const fn is_too_deep(&self) -> bool {
        self.is_too_deep
    }
}
