//! Counts with a most: what waits, what is kept, and when a worker is busy.

use kvroute_core::Tokens;
use kvroute_router::config::BusyThreshold;

use super::number::integer_or_text;
use super::{SettingType, expected};

/// Requests that may wait at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueLimit(pub(crate) usize);

/// Candidates that are kept of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordedCandidates(pub(crate) usize);

/// Longest queue: its requests are held in memory, bodies and all.
const MOST_WAITING: usize = 1_000_000;

/// Most candidates of a record: thousands of records are kept.
const MOST_CANDIDATES: usize = 64;

impl SettingType for QueueLimit {
    const EXPECTED: &'static str = "a number of requests from 0 to 1000000";

    fn read(value: &toml::Value) -> Result<Self, String> {
        let limit = count(value).filter(|limit| *limit <= MOST_WAITING);
        limit.map(Self).ok_or_else(expected::<Self>)
    }

    fn from_text(text: &str) -> toml::Value {
        integer_or_text(text)
    }
}

impl SettingType for RecordedCandidates {
    const EXPECTED: &'static str = "a number of candidates from 1 to 64";

    fn read(value: &toml::Value) -> Result<Self, String> {
        let kept = count(value).filter(|kept| (1..=MOST_CANDIDATES).contains(kept));
        kept.map(Self).ok_or_else(expected::<Self>)
    }

    fn from_text(text: &str) -> toml::Value {
        integer_or_text(text)
    }
}

impl SettingType for BusyThreshold {
    const EXPECTED: &'static str = "\"auto\", \"off\" or a number of tokens above 0";

    fn read(value: &toml::Value) -> Result<Self, String> {
        match value {
            toml::Value::String(text) if text == "auto" => Ok(Self::Auto),
            toml::Value::String(text) if text == "off" => Ok(Self::Off),
            _ => {
                let tokens = count(value).filter(|tokens| *tokens > 0);
                tokens.map(|tokens| Self::Tokens(Tokens::from(tokens))).ok_or_else(expected::<Self>)
            }
        }
    }

    fn from_text(text: &str) -> toml::Value {
        integer_or_text(text)
    }
}

fn count(value: &toml::Value) -> Option<usize> {
    value.as_integer().and_then(|count| usize::try_from(count).ok())
}
