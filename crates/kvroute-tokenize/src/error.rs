//! What can go wrong with a tokenizer folder and with a prompt.

use std::fmt;
use std::path::Path;

/// A tokenizer that cannot be loaded. The message names the file, what is wrong with it and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LoadError {
    message: String,
}

/// Which part could not be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodeErrorKind {
    /// No chat template, or one that refused or failed to render.
    Template,
    /// The tokenizer failed on the text.
    Tokenizer,
}

/// A prompt whose ids could not be made: it is routed by load and counted as uncounted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EncodeError {
    /// Which part failed; the metric's reason.
    pub kind: EncodeErrorKind,
    /// What is wrong and the remedy.
    pub message: String,
}

// === impl LoadError ===

impl LoadError {
    pub(crate) fn new(file: &Path, problem: impl fmt::Display) -> Self {
        Self { message: format!("tokenizer {}: {problem}", file.display()) }
    }
}

// === impl EncodeError ===

impl EncodeError {
    pub(crate) fn template(message: impl Into<String>) -> Self {
        Self { kind: EncodeErrorKind::Template, message: message.into() }
    }

    pub(crate) fn tokenizer(problem: impl fmt::Display) -> Self {
        Self { kind: EncodeErrorKind::Tokenizer, message: format!("the tokenizer failed: {problem}") }
    }
}
