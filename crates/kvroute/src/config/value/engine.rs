//! What is said about an engine beside its address: its role and its event sockets.

use kvroute_core::WorkerRole;
use kvroute_router::config::EventEndpoint;
use kvroute_zmtp::Endpoint;

use super::{SettingType, expected};

/// Where lost KV events are asked for: always connected to, as it is the engine that answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplayEndpoint(pub(crate) EventEndpoint);

impl SettingType for WorkerRole {
    const EXPECTED: &'static str = "\"aggregated\", \"prefill\" or \"decode\"";

    fn read(value: &toml::Value) -> Result<Self, String> {
        let named = |role: &Self| value.as_str() == Some(role.as_str());
        Self::ALL.into_iter().find(named).ok_or_else(expected::<Self>)
    }
}

impl SettingType for EventEndpoint {
    const EXPECTED: &'static str = "\"auto\", \"none\", \"tcp://host:port\" or \"bind:tcp://address:port\"";

    fn read(value: &toml::Value) -> Result<Self, String> {
        let text = value.as_str().ok_or_else(expected::<Self>)?;
        match text {
            "auto" => return Ok(Self::Auto),
            "none" => return Ok(Self::None),
            _ => {}
        }
        let (address, make): (&str, fn(Endpoint) -> Self) = match text.strip_prefix("bind:") {
            Some(address) => (address, Self::Bind),
            None => (text, Self::Connect),
        };
        let endpoint: Endpoint = address.parse().map_err(|_| expected::<Self>())?;
        // Port 0 asks for a free one, which nobody could tell the engine.
        if endpoint.port() == 0 { Err(expected::<Self>()) } else { Ok(make(endpoint)) }
    }
}

impl SettingType for ReplayEndpoint {
    const EXPECTED: &'static str = "\"auto\", \"none\" or \"tcp://host:port\"";

    fn read(value: &toml::Value) -> Result<Self, String> {
        match EventEndpoint::read(value) {
            Ok(EventEndpoint::Bind(_)) | Err(_) => Err(expected::<Self>()),
            Ok(endpoint) => Ok(Self(endpoint)),
        }
    }
}
