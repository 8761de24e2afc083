//! What clients may take: how many at once, and how often.

use kvroute_server::Rate;

use super::number::integer_or_text;
use super::{SettingType, expected};

/// A number of connections, or of streams of one; at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Most(pub(crate) u32);

/// A number of requests, or `"off"`: any number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MostOrAny(pub(crate) Option<usize>);

/// A rate, or `"off"`: as often as they like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RateOrAny(pub(crate) Option<Rate>);

/// Beyond it no machine has the descriptors.
const MOST: u32 = 10_000_000;

const OFF: &str = "off";

impl SettingType for Most {
    const EXPECTED: &'static str = "a number from 1 to 10000000";

    fn read(value: &toml::Value) -> Result<Self, String> {
        number(value).map(Self).ok_or_else(expected::<Self>)
    }

    fn from_text(text: &str) -> toml::Value {
        integer_or_text(text)
    }
}

impl SettingType for MostOrAny {
    const EXPECTED: &'static str = "\"off\" or a number from 1 to 10000000";

    fn read(value: &toml::Value) -> Result<Self, String> {
        if value.as_str() == Some(OFF) {
            return Ok(Self(None));
        }
        let number = number(value).and_then(|number| usize::try_from(number).ok());
        number.map(|number| Self(Some(number))).ok_or_else(expected::<Self>)
    }

    fn from_text(text: &str) -> toml::Value {
        integer_or_text(text)
    }
}

impl SettingType for RateOrAny {
    const EXPECTED: &'static str = "\"off\" or a rate such as \"100/s\", \"600/m\" or \"100/s,burst=200\"";

    fn read(value: &toml::Value) -> Result<Self, String> {
        let text = value.as_str().ok_or_else(expected::<Self>)?;
        if text == OFF {
            return Ok(Self(None));
        }
        text.parse().map(|rate| Self(Some(rate))).map_err(|_| expected::<Self>())
    }
}

fn number(value: &toml::Value) -> Option<u32> {
    let number = value.as_integer().and_then(|number| u32::try_from(number).ok());
    number.filter(|number| (1..=MOST).contains(number))
}
