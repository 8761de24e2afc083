//! Types of settings: how a value is read from TOML, and from a text of the environment or the command line.

mod disaggregation;
mod discovery;
mod engine;
mod faults;
mod limits;
mod nats;
mod network;
mod number;
mod policy;
mod queue;
mod telemetry;
mod text;
mod worker_url;

use std::collections::BTreeMap;

pub(crate) use disaggregation::{LocalPrefill, Migrations};
pub(crate) use discovery::{DnsNameText, FoundBy, Port, Scheme};
pub(crate) use engine::ReplayEndpoint;
pub(crate) use faults::{Count, Retries};
pub(crate) use limits::{Most, MostOrAny, RateOrAny};
pub(crate) use nats::NatsServers;
pub(crate) use network::Networks;
pub(crate) use number::{Auto, ByteSize, IndexBytes, Interval, Share, Timeout, Weight, parse_duration};
pub(crate) use policy::{PolicyName, PolicyNames, SessionMode};
pub(crate) use queue::{QueueLimit, RecordedCandidates};
pub(crate) use telemetry::{LogFormat, OtlpEndpoint, TRACES_PATH};
pub(crate) use text::{FilePath, MetricPrefix, Name};
pub(crate) use worker_url::WorkerUrl;

/// A type that a setting can have.
pub(crate) trait SettingType: Sized {
    /// What values look like, for errors and documentation.
    const EXPECTED: &'static str;

    /// All words that values consist of, where another part of the program names them.
    const CHOICES: &'static [&'static str] = &[];

    /// Reads a value; the error says what was expected.
    fn read(value: &toml::Value) -> Result<Self, String>;

    /// The value that a text means. Texts that cannot be one stay text, and are refused by [`Self::read`].
    fn from_text(text: &str) -> toml::Value {
        toml::Value::String(text.to_owned())
    }
}

/// The error of a value of another type.
fn expected<T: SettingType>() -> String {
    described(T::EXPECTED, T::CHOICES)
}

/// What values look like, and the words that they consist of.
pub(crate) fn described(expected: &str, choices: &[&str]) -> String {
    match choices {
        [] => expected.to_owned(),
        choices => format!("{expected}: {}", choices.join(", ")),
    }
}

impl SettingType for bool {
    const EXPECTED: &'static str = "true or false";

    fn read(value: &toml::Value) -> Result<Self, String> {
        value.as_bool().ok_or_else(expected::<Self>)
    }

    fn from_text(text: &str) -> toml::Value {
        match text.trim().to_ascii_lowercase().as_str() {
            "1" | "true" | "yes" | "on" => toml::Value::Boolean(true),
            "" | "0" | "false" | "no" | "off" => toml::Value::Boolean(false),
            _ => toml::Value::String(text.to_owned()),
        }
    }
}

impl SettingType for Vec<String> {
    const EXPECTED: &'static str = "a list of texts such as [\"a\", \"b\"]";

    fn read(value: &toml::Value) -> Result<Self, String> {
        let items = value.as_array().ok_or_else(expected::<Self>)?;
        let texts = items.iter().map(|item| item.as_str().filter(|text| !text.is_empty()).map(str::to_owned));
        texts.collect::<Option<Self>>().ok_or_else(expected::<Self>)
    }

    /// TOML, or words with commas between them.
    fn from_text(text: &str) -> toml::Value {
        if let Some(value) = super::raw::parse_toml_value(text).filter(toml::Value::is_array) {
            return value;
        }
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        toml::Value::Array(words.map(|word| toml::Value::String(word.to_owned())).collect())
    }
}

impl SettingType for BTreeMap<String, String> {
    const EXPECTED: &'static str = "a table of texts such as { name = \"value\" }";

    fn read(value: &toml::Value) -> Result<Self, String> {
        let table = value.as_table().ok_or_else(expected::<Self>)?;
        let texts = table.iter().map(|(name, text)| Some((name.clone(), text.as_str()?.to_owned())));
        texts.collect::<Option<Self>>().ok_or_else(expected::<Self>)
    }

    /// TOML, or `name=value` pairs with commas between them.
    fn from_text(text: &str) -> toml::Value {
        if let Some(value) = super::raw::parse_toml_value(text).filter(toml::Value::is_table) {
            return value;
        }
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=')?;
            Some((name.trim().to_owned(), toml::Value::String(value.trim().to_owned())))
        };
        match text.split(',').map(pair).collect::<Option<toml::Table>>() {
            Some(table) => toml::Value::Table(table),
            None => toml::Value::String(text.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests;
