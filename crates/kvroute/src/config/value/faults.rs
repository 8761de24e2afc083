//! How often something may fail, or be tried again.

use super::number::integer_or_text;
use super::{SettingType, expected};

/// How often in a row, at least once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count(pub(crate) u32);

/// How often one request is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retries(pub(crate) u32);

/// Beyond it nothing would ever come of it.
const MOST_IN_A_ROW: u32 = 1000;

/// Whatever so many workers failed at, the next one will fail at too.
const MOST_RETRIES: u32 = 16;

impl SettingType for Count {
    const EXPECTED: &'static str = "a number from 1 to 1000";

    fn read(value: &toml::Value) -> Result<Self, String> {
        let count = value.as_integer().and_then(|count| u32::try_from(count).ok());
        count.filter(|count| (1..=MOST_IN_A_ROW).contains(count)).map(Self).ok_or_else(expected::<Self>)
    }

    fn from_text(text: &str) -> toml::Value {
        integer_or_text(text)
    }
}

impl SettingType for Retries {
    const EXPECTED: &'static str = "a number from 0 to 16";

    fn read(value: &toml::Value) -> Result<Self, String> {
        let limit = value.as_integer().and_then(|limit| u32::try_from(limit).ok());
        limit.filter(|limit| *limit <= MOST_RETRIES).map(Self).ok_or_else(expected::<Self>)
    }

    fn from_text(text: &str) -> toml::Value {
        integer_or_text(text)
    }
}
