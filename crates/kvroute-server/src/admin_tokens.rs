//! Who may use the admin plane: tokens, known by their hashes only once their file has been read.

use std::sync::Arc;

use axum::http::header::{AUTHORIZATION, HeaderMap};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::keys::strip_scheme;

/// The tokens of a file; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminTokens(Arc<[[u8; 32]]>);

/// A file of tokens that cannot be used. What stands in it is not repeated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTokens {
    /// It grants nobody anything.
    #[error("holds no token; write one a line, such as what `openssl rand -hex 32` prints")]
    Empty,
    /// A line is no token.
    #[error("line {line}: {problem}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong and what is right.
        problem: &'static str,
    },
}

/// Fewer characters can be guessed.
const SHORTEST: usize = 16;

// === impl AdminTokens ===

impl AdminTokens {
    /// Reads a file: a token a line, so that a new one can be handed out before the old one goes. `#` begins a comment.
    ///
    /// # Errors
    /// Names the line and what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, InvalidTokens> {
        let mut digests = Vec::new();
        for (line, token) in (1..).zip(text.lines().map(str::trim)) {
            if token.is_empty() || token.starts_with('#') {
                continue;
            }
            check(token).map_err(|problem| InvalidTokens::Line { line, problem })?;
            digests.push(Sha256::digest(token).into());
        }
        if digests.is_empty() { Err(InvalidTokens::Empty) } else { Ok(Self(digests.into())) }
    }

    /// Whether a request brings one of them. All are compared, each in a time that says nothing of how far they agree.
    pub(crate) fn admit(&self, headers: &HeaderMap) -> bool {
        let Some(token) = headers.get(AUTHORIZATION).and_then(|value| strip_scheme(value.as_bytes())) else {
            return false;
        };
        let digest: [u8; 32] = Sha256::digest(token).into();
        let matches = self.0.iter().fold(0, |found, known| found | known.ct_eq(&digest).unwrap_u8());
        matches == 1
    }
}

fn check(token: &str) -> Result<(), &'static str> {
    if token.len() < SHORTEST {
        return Err("a token has at least 16 characters");
    }
    let is_sendable = token.bytes().all(|byte| byte.is_ascii_graphic());
    if is_sendable { Ok(()) } else { Err("a token is one word of printable ASCII characters") }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    const FIRST: &str = "0123456789abcdef";
    const SECOND: &str = "fedcba9876543210-new";

    fn admits(tokens: &AdminTokens, value: &str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        tokens.admit(&headers)
    }

    #[test]
    fn every_token_of_the_file_is_admitted_and_nothing_else() {
        let tokens = AdminTokens::parse(&format!("# old\n{FIRST}\n\n  {SECOND}  \n")).unwrap();
        for good in [format!("Bearer {FIRST}"), format!("bearer  {SECOND}")] {
            assert!(admits(&tokens, &good), "{good}");
        }
        for bad in
            [FIRST, "Bearer", "Bearer 0123456789abcde", "Bearer 0123456789abcdef0", "Basic 0123456789abcdef"]
        {
            assert!(!admits(&tokens, bad), "{bad}");
        }
        assert!(!tokens.admit(&HeaderMap::new()));
    }

    #[test]
    fn a_file_that_grants_nobody_anything_or_too_much_is_refused_and_not_repeated() {
        for (text, said) in [
            ("", "holds no token"),
            ("# only a comment\n\n", "holds no token"),
            ("\nshort-secret", "line 2: a token has at least 16 characters"),
            ("two words of secret", "line 1: a token is one word"),
            ("sécrétsécrétsécrét", "line 1: a token is one word"),
        ] {
            let problem = AdminTokens::parse(text).unwrap_err().to_string();
            assert!(problem.starts_with(said), "{text}: {problem}");
            assert!(!problem.contains("secret"), "{problem}");
        }
        assert!(!format!("{:?}", AdminTokens::parse(FIRST).unwrap()).contains(FIRST));
    }
}
