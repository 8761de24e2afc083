//! Texts that must be a name of some kind.

use std::net::SocketAddr;
use std::path::PathBuf;

use kvroute_router::config::{CountMode, HistoryOutputs, IndexSource, TokenizerSource};

use super::{SettingType, expected};

/// A text that is not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name(pub(crate) String);

/// The first part of a metric name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MetricPrefix(pub(crate) String);

/// Path of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FilePath(pub(crate) PathBuf);

impl SettingType for Name {
    const EXPECTED: &'static str = "a text that is not empty";

    fn read(value: &toml::Value) -> Result<Self, String> {
        let name = value.as_str().filter(|name| !name.trim().is_empty());
        name.map(|name| Self(name.to_owned())).ok_or_else(expected::<Self>)
    }
}

impl SettingType for FilePath {
    const EXPECTED: &'static str = "the path of a file";

    fn read(value: &toml::Value) -> Result<Self, String> {
        let path = value.as_str().filter(|path| !path.is_empty() && !path.ends_with('/'));
        path.map(|path| Self(PathBuf::from(path))).ok_or_else(expected::<Self>)
    }
}

impl SettingType for IndexSource {
    const EXPECTED: &'static str = "\"auto\", \"reported\" or \"remembered\"";

    fn read(value: &toml::Value) -> Result<Self, String> {
        match value.as_str() {
            Some("auto") => Ok(Self::Auto),
            Some("reported") => Ok(Self::Reported),
            Some("remembered") => Ok(Self::Remembered),
            _ => Err(expected::<Self>()),
        }
    }
}

impl SettingType for HistoryOutputs {
    const EXPECTED: &'static str = "\"auto\", \"off\" or \"ids\"";

    fn read(value: &toml::Value) -> Result<Self, String> {
        match value.as_str() {
            Some("auto") => Ok(Self::Auto),
            Some("off") => Ok(Self::Off),
            Some("ids") => Ok(Self::Ids),
            _ => Err(expected::<Self>()),
        }
    }
}

impl SettingType for MetricPrefix {
    const EXPECTED: &'static str = "the start of a metric name: letters, digits and _, no digit first";

    fn read(value: &toml::Value) -> Result<Self, String> {
        let prefix = value.as_str().filter(|prefix| {
            prefix.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
                && prefix.chars().all(|character| character.is_ascii_alphanumeric() || character == '_')
        });
        prefix.map(|prefix| Self(prefix.to_owned())).ok_or_else(expected::<Self>)
    }
}

impl SettingType for SocketAddr {
    const EXPECTED: &'static str = "an IP address with a port, such as \"127.0.0.1:8080\" or \"[::1]:8080\"";

    fn read(value: &toml::Value) -> Result<Self, String> {
        value.as_str().and_then(|text| text.parse().ok()).ok_or_else(expected::<Self>)
    }
}

impl SettingType for TokenizerSource {
    const EXPECTED: &'static str = "\"engine\", or a folder with tokenizer.json, or that file";

    fn read(value: &toml::Value) -> Result<Self, String> {
        match value.as_str() {
            Some("engine") => Ok(Self::Engine),
            Some(path) if !path.is_empty() => Ok(Self::Path(PathBuf::from(path))),
            _ => Err(expected::<Self>()),
        }
    }
}

impl SettingType for CountMode {
    const EXPECTED: &'static str = "\"exact\" or \"off\"";

    fn read(value: &toml::Value) -> Result<Self, String> {
        match value.as_str() {
            Some("exact") => Ok(Self::Exact),
            Some("off") => Ok(Self::Off),
            _ => Err(expected::<Self>()),
        }
    }
}
