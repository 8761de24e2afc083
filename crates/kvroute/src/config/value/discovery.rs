//! Where workers are found, and under which name.

use super::number::integer_or_text;
use super::{SettingType, expected};

/// What a discovery looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoundBy {
    /// A file.
    File,
    /// The domain name system.
    Dns,
}

/// How workers that are found by name are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// In the clear.
    Http,
    /// Over TLS.
    Https,
}

/// A name of the domain name system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DnsNameText(pub(crate) String);

/// A port that something listens on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Port(pub(crate) u16);

/// Longest name that the system of names knows.
const LONGEST_NAME: usize = 253;

impl SettingType for FoundBy {
    const EXPECTED: &'static str = "one of";
    const CHOICES: &'static [&'static str] = &["file", "dns"];

    fn read(value: &toml::Value) -> Result<Self, String> {
        match value.as_str() {
            Some("file") => Ok(Self::File),
            Some("dns") => Ok(Self::Dns),
            _ => Err(expected::<Self>()),
        }
    }
}

impl SettingType for Scheme {
    const EXPECTED: &'static str = "\"http\" or \"https\"";

    fn read(value: &toml::Value) -> Result<Self, String> {
        match value.as_str() {
            Some("http") => Ok(Self::Http),
            Some("https") => Ok(Self::Https),
            _ => Err(expected::<Self>()),
        }
    }
}

impl SettingType for DnsNameText {
    const EXPECTED: &'static str = "a name such as \"_http._tcp.engines.default.svc.cluster.local\" or \"engines.default.svc.cluster.local\"";

    fn read(value: &toml::Value) -> Result<Self, String> {
        let text = value.as_str().ok_or_else(expected::<Self>)?;
        let is_label = |label: &str| {
            let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            (1..=63).contains(&label.len()) && label.bytes().all(known)
        };
        let is_name =
            text.len() <= LONGEST_NAME && text.strip_suffix('.').unwrap_or(text).split('.').all(is_label);
        if is_name { Ok(Self(text.to_owned())) } else { Err(expected::<Self>()) }
    }
}

impl SettingType for Port {
    const EXPECTED: &'static str = "a port between 1 and 65535";

    fn read(value: &toml::Value) -> Result<Self, String> {
        let port = value.as_integer().and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
        port.map(Self).ok_or_else(expected::<Self>)
    }

    fn from_text(text: &str) -> toml::Value {
        integer_or_text(text)
    }
}
