//! What is wrong with a configuration: the key, the value and the remedy.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Everything that was found wrong, at least one problem. Ends the command with exit code 2.
#[derive(Debug)]
pub(crate) struct ConfigError(Vec<Problem>);

/// One thing that is wrong.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error("cannot read configuration {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("configuration {} is not TOML: {}", path.display(), source.to_string().trim_end())]
    Syntax { path: PathBuf, source: Box<toml::de::Error> },
    #[error("unknown key \"{path}\": {hint}")]
    UnknownKey { path: String, hint: String },
    #[error("{path} is of type {found}; {remedy}")]
    Shape { path: String, found: &'static str, remedy: String },
    #[error("{path} is {}; expected {expected} ({origin})", shown(value))]
    Value { path: String, value: toml::Value, expected: String, origin: String },
    #[error("{0}")]
    Rule(String),
}

/// Characters of a value that are repeated in an error.
const SHOWN: usize = 80;

/// A value as it would be typed, and not all of it if it is long.
pub(super) fn shown(value: &toml::Value) -> String {
    let text = match value {
        // TOML's own form has a digit for every power of ten.
        toml::Value::Float(number) => format!("{number:?}"),
        _ => without_credentials(&value.to_string()),
    };
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Addresses without what stands before their hosts: user and password are nothing for a log.
pub(super) fn without_credentials(text: &str) -> String {
    let mut parts = text.split("://");
    let mut masked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        masked.push_str("://");
        let end = part.find(['/', ',']).unwrap_or(part.len());
        let host = part[..end].rfind('@').map_or(0, |at| at + 1);
        masked.push_str(if host > 0 { "***@" } else { "" });
        masked.push_str(&part[host..]);
    }
    masked
}

// === impl ConfigError ===

impl ConfigError {
    /// Succeeds if nothing was found.
    pub(crate) fn unless_empty(problems: Vec<Problem>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(Self(problems)) }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

impl From<Problem> for ConfigError {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}
