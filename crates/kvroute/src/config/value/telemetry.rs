//! How the log is written, and where traces go.

use super::{SettingType, WorkerUrl, expected};

/// What a line of the log looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// Words and `name=value`, for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Base address of a collector that takes OTLP over HTTP; `None` exports nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OtlpEndpoint(pub(crate) Option<String>);

/// What is appended to the base address of a collector to export traces.
pub(crate) const TRACES_PATH: &str = "/v1/traces";

impl SettingType for LogFormat {
    const EXPECTED: &'static str = "\"text\" or \"json\"";

    fn read(value: &toml::Value) -> Result<Self, String> {
        match value.as_str() {
            Some("text") => Ok(Self::Text),
            Some("json") => Ok(Self::Json),
            _ => Err(expected::<Self>()),
        }
    }
}

impl SettingType for OtlpEndpoint {
    const EXPECTED: &'static str =
        "\"off\" or the http:// address of a collector for OTLP over HTTP, such as \"http://127.0.0.1:4318\"";

    fn read(value: &toml::Value) -> Result<Self, String> {
        match value.as_str() {
            Some("off") => return Ok(Self(None)),
            Some(url) if url.trim_end_matches('/').ends_with(TRACES_PATH) => {
                return Err(format!(
                    "the collector's address without {TRACES_PATH}, which is appended to it"
                ));
            }
            _ => {}
        }
        let url = WorkerUrl::read(value).map_err(|_other_expectation| expected::<Self>())?;
        if url.0.starts_with("https:") {
            return Err(expected::<Self>());
        }
        Ok(Self(Some(url.0)))
    }
}
