//! The address of an engine.

use kvroute_router::config::{EXPECTED_WORKER_URL, parse_worker_url};

use super::{SettingType, expected};

/// Base address of an engine: `http://host:port`, and the path that a gateway puts before the engine's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WorkerUrl(pub(crate) String);

impl SettingType for WorkerUrl {
    const EXPECTED: &'static str = EXPECTED_WORKER_URL;

    fn read(value: &toml::Value) -> Result<Self, String> {
        let text = value.as_str().ok_or_else(expected::<Self>)?;
        parse_worker_url(text).map(Self)
    }
}
