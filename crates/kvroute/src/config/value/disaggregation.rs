//! What happens where a request takes more than one worker.

use kvroute_core::Tokens;
use kvroute_router::config::{OnMismatch, OnNoPrefill};

use super::number::integer_or_text;
use super::{SettingType, expected};

/// How often one stream may go on elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Migrations(pub(crate) u32);

/// Tokens that a decode worker computes itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LocalPrefill(pub(crate) Tokens);

/// Whatever breaks so many workers will break the next one too.
const MOST_MIGRATIONS: u32 = 16;

impl SettingType for Migrations {
    const EXPECTED: &'static str = "a number from 0 to 16";

    fn read(value: &toml::Value) -> Result<Self, String> {
        let limit = value.as_integer().and_then(|limit| u32::try_from(limit).ok());
        limit.filter(|limit| *limit <= MOST_MIGRATIONS).map(Self).ok_or_else(expected::<Self>)
    }

    fn from_text(text: &str) -> toml::Value {
        integer_or_text(text)
    }
}

impl SettingType for LocalPrefill {
    const EXPECTED: &'static str = "a number of tokens, 0 or more";

    fn read(value: &toml::Value) -> Result<Self, String> {
        let tokens = value.as_integer().and_then(|tokens| u64::try_from(tokens).ok());
        tokens.map(|tokens| Self(Tokens::new(tokens))).ok_or_else(expected::<Self>)
    }

    fn from_text(text: &str) -> toml::Value {
        integer_or_text(text)
    }
}

impl SettingType for OnNoPrefill {
    const EXPECTED: &'static str = "\"fallback\" or \"strict\"";

    fn read(value: &toml::Value) -> Result<Self, String> {
        match value.as_str() {
            Some("fallback") => Ok(Self::Fallback),
            Some("strict") => Ok(Self::Strict),
            _ => Err(expected::<Self>()),
        }
    }
}

impl SettingType for OnMismatch {
    const EXPECTED: &'static str = "\"engine\" or \"load\"";

    fn read(value: &toml::Value) -> Result<Self, String> {
        match value.as_str() {
            Some("engine") => Ok(Self::Engine),
            Some("load") => Ok(Self::Load),
            _ => Err(expected::<Self>()),
        }
    }
}
