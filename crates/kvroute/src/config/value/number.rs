//! Numbers with a unit, and numbers that may be left to the router.

use std::time::Duration;

use kvroute_core::BlockSize;

use super::{SettingType, expected};

/// A size in bytes, above zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteSize(pub(crate) usize);

/// A size in bytes that an index can work with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexBytes(pub(crate) usize);

/// A limit of time, above zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timeout(pub(crate) Duration);

/// A number from zero up to [`MOST_WEIGHT`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Weight(pub(crate) f64);

/// A part of a whole, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Share(pub(crate) f64);

/// Time between two questions, or `"off"`: nothing is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval(pub(crate) Option<Duration>);

/// A value, or `"auto"`: find it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Auto<T>(pub(crate) Option<T>);

/// Smallest index: below it a single long prompt would push itself out.
const LEAST_INDEX: usize = 16 << 20;

/// Longest duration: a year. Longer ones are typing errors, and overflow clocks.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);

/// Shortest interval: below it the questions would be a load themselves.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

/// Largest weight. Beyond it a term only drowns the others, and sums of them overflow.
const MOST_WEIGHT: f64 = 1_000_000.0;

impl SettingType for ByteSize {
    const EXPECTED: &'static str =
        "a size such as \"32MiB\" (units B, KiB, MiB, GiB, KB, MB, GB), above zero";

    fn read(value: &toml::Value) -> Result<Self, String> {
        let bytes = match value {
            toml::Value::Integer(bytes) => u64::try_from(*bytes).ok(),
            toml::Value::String(text) => parse_bytes(text),
            _ => None,
        };
        let size = bytes.and_then(|bytes| usize::try_from(bytes).ok()).filter(|bytes| *bytes > 0);
        size.map(Self).ok_or_else(expected::<Self>)
    }
}

impl SettingType for IndexBytes {
    const EXPECTED: &'static str =
        "a size such as \"1GiB\" (units B, KiB, MiB, GiB, KB, MB, GB), at least 16MiB";

    fn read(value: &toml::Value) -> Result<Self, String> {
        let size = ByteSize::read(value).ok().filter(|size| size.0 >= LEAST_INDEX);
        size.map(|size| Self(size.0)).ok_or_else(expected::<Self>)
    }
}

fn parse_bytes(text: &str) -> Option<u64> {
    let (number, unit) = split_unit(text);
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

impl SettingType for Duration {
    const EXPECTED: &'static str = "a duration such as \"30s\" (units ms, s, m, h), at most a year";

    fn read(value: &toml::Value) -> Result<Self, String> {
        value.as_str().ok_or_else(expected::<Self>).and_then(parse_duration)
    }
}

/// Reads a duration with its unit.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let duration = duration_of(text).filter(|duration| *duration <= LONGEST);
    duration.ok_or_else(expected::<Duration>)
}

fn duration_of(text: &str) -> Option<Duration> {
    let (number, unit) = split_unit(text);
    let millis = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(millis).map(Duration::from_millis)
}

/// Digits, and what follows them.
fn split_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

impl SettingType for Timeout {
    const EXPECTED: &'static str = "a duration such as \"30s\" (units ms, s, m, h), above zero";

    fn read(value: &toml::Value) -> Result<Self, String> {
        let duration = Duration::read(value).ok().filter(|duration| !duration.is_zero());
        duration.map(Self).ok_or_else(expected::<Self>)
    }
}

impl SettingType for Weight {
    const EXPECTED: &'static str = "a number between 0 and 1000000";

    fn read(value: &toml::Value) -> Result<Self, String> {
        let weight = real(value).filter(|number| (0.0..=MOST_WEIGHT).contains(number));
        weight.map(Self).ok_or_else(expected::<Self>)
    }

    fn from_text(text: &str) -> toml::Value {
        real_or_text(text)
    }
}

impl SettingType for Share {
    const EXPECTED: &'static str = "a number between 0 and 1";

    fn read(value: &toml::Value) -> Result<Self, String> {
        let share = real(value).filter(|number| (0.0..=1.0).contains(number));
        share.map(Self).ok_or_else(expected::<Self>)
    }

    fn from_text(text: &str) -> toml::Value {
        real_or_text(text)
    }
}

fn real(value: &toml::Value) -> Option<f64> {
    match value {
        toml::Value::Integer(number) => Some(*number as f64),
        toml::Value::Float(number) => Some(*number),
        _ => None,
    }
}

fn real_or_text(text: &str) -> toml::Value {
    text.parse().map_or_else(|_| toml::Value::String(text.to_owned()), toml::Value::Float)
}

impl SettingType for Interval {
    const EXPECTED: &'static str =
        "\"off\" or an interval such as \"5s\" (units ms, s, m, h), at least 100ms";

    fn read(value: &toml::Value) -> Result<Self, String> {
        if value.as_str() == Some("off") {
            return Ok(Self(None));
        }
        let interval = Duration::read(value).ok().filter(|interval| *interval >= SHORTEST_INTERVAL);
        interval.map(|interval| Self(Some(interval))).ok_or_else(expected::<Self>)
    }
}

impl SettingType for Auto<BlockSize> {
    const EXPECTED: &'static str = "\"auto\" or a number of tokens between 1 and 1048576";

    fn read(value: &toml::Value) -> Result<Self, String> {
        let size = auto_or_count(value, |tokens| BlockSize::new(tokens).ok());
        size.ok_or_else(expected::<Self>)
    }

    fn from_text(text: &str) -> toml::Value {
        integer_or_text(text)
    }
}

impl SettingType for Auto<u32> {
    const EXPECTED: &'static str = "\"auto\" or a number of ranks between 1 and 1024";

    fn read(value: &toml::Value) -> Result<Self, String> {
        auto_or_count(value, |ranks| (1..=1024).contains(&ranks).then_some(ranks))
            .ok_or_else(expected::<Self>)
    }

    fn from_text(text: &str) -> toml::Value {
        integer_or_text(text)
    }
}

fn auto_or_count<T>(value: &toml::Value, check: impl Fn(u32) -> Option<T>) -> Option<Auto<T>> {
    match value {
        toml::Value::String(text) if text == "auto" => Some(Auto(None)),
        toml::Value::Integer(count) => Some(Auto(Some(check(u32::try_from(*count).ok()?)?))),
        _ => None,
    }
}

pub(super) fn integer_or_text(text: &str) -> toml::Value {
    text.parse().map_or_else(|_| toml::Value::String(text.to_owned()), toml::Value::Integer)
}
