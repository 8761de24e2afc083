//! What is said about an engine beside its address: its role and its event sockets.

use kvroute_core::WorkerRole;
use kvroute_router::config::{
    EXPECTED_EVENTS, EXPECTED_REPLAY, EXPECTED_ROLE, EventEndpoint, parse_events, parse_replay,
};

use super::{SettingType, expected};

/// Where lost KV events are asked for: always connected to, as it is the engine that answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplayEndpoint(pub(crate) EventEndpoint);

impl SettingType for WorkerRole {
    const EXPECTED: &'static str = EXPECTED_ROLE;

    fn read(value: &toml::Value) -> Result<Self, String> {
        let named = |role: &Self| value.as_str() == Some(role.as_str());
        Self::ALL.into_iter().find(named).ok_or_else(expected::<Self>)
    }
}

impl SettingType for EventEndpoint {
    const EXPECTED: &'static str = EXPECTED_EVENTS;

    fn read(value: &toml::Value) -> Result<Self, String> {
        parse_events(value.as_str().ok_or_else(expected::<Self>)?)
    }
}

impl SettingType for ReplayEndpoint {
    const EXPECTED: &'static str = EXPECTED_REPLAY;

    fn read(value: &toml::Value) -> Result<Self, String> {
        parse_replay(value.as_str().ok_or_else(expected::<Self>)?).map(Self)
    }
}
