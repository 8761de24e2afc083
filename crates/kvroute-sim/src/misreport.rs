//! How an answer can be wrong about what it reused.

use serde::{Deserialize, Serialize, Serializer};

/// What an odd report looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OddReport {
    /// Nothing is said about reuse.
    Missing,
    /// `null` in the place of the number.
    Null,
    /// A number below zero.
    Negative,
    /// A number between two whole ones.
    Fraction,
    /// The number as a text.
    Text,
    /// More than 64 bits hold.
    Overflow,
    /// One token more than the prompt has.
    AbovePrompt,
    /// The prompt has one token more than it has.
    WrongPrompt,
}

/// Where the private report `engine_data` stands in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrivateReport {
    /// In the first chunk: as early as any engine could know.
    FirstChunk,
    /// In the last chunk before the end mark or usage.
    LastChunk,
}

/// Reused tokens as an answer tells them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ToldTokens {
    tokens: u64,
    odd: Option<OddReport>,
}

// === impl ToldTokens ===

impl ToldTokens {
    /// Tells a number, or what stands in its place. The prompt has this many tokens.
    pub(crate) fn new(tokens: u64, prompt: u64, odd: Option<OddReport>) -> Self {
        let tokens = if odd == Some(OddReport::AbovePrompt) { prompt + 1 } else { tokens };
        Self { tokens, odd }
    }

    /// The number; 0 where there is none.
    pub(crate) const fn count(self) -> u64 {
        match self.odd {
            None | Some(OddReport::AbovePrompt | OddReport::WrongPrompt) => self.tokens,
            Some(_) => 0,
        }
    }
}

impl Serialize for ToldTokens {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.odd {
            Some(OddReport::Missing | OddReport::Null) => serializer.serialize_none(),
            Some(OddReport::Negative) => serializer.serialize_i64(-1),
            Some(OddReport::Fraction) => serializer.serialize_f64(self.tokens as f64 + 0.5),
            Some(OddReport::Text) => serializer.collect_str(&self.tokens),
            Some(OddReport::Overflow) => serializer.serialize_u128(1 << 64),
            None | Some(OddReport::AbovePrompt | OddReport::WrongPrompt) => {
                serializer.serialize_u64(self.tokens)
            }
        }
    }
}
