//! Where JSON text breaks the grammar.

/// Text that is not JSON, or not readable as the type that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem} at line {line} column {column}")]
pub struct JsonError {
    problem: &'static str,
    line: usize,
    column: usize,
}

// === impl JsonError ===

impl JsonError {
    /// Line and column are counted from 1, columns in bytes.
    pub(super) fn new(problem: &'static str, text: &str, at: usize) -> Self {
        let before = &text.as_bytes()[..at.min(text.len())];
        let line = 1 + memchr::memchr_iter(b'\n', before).count();
        let column = 1 + before.len() - memchr::memrchr(b'\n', before).map_or(0, |end| end + 1);
        Self { problem, line, column }
    }
}
