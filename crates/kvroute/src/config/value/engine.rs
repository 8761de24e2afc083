//! What is said about an engine: its address, its role and its event sockets.

use http::Uri;
use kvroute_router::config::EventEndpoint;
use kvroute_zmtp::Endpoint;

use super::{SettingType, expected};

/// Base address of an engine, without a slash at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WorkerUrl(pub(crate) String);

/// What a worker does. One value in this version; the key stands so that files stay valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Role;

/// Where lost KV events are asked for: always connected to, as it is the engine that answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplayEndpoint(pub(crate) EventEndpoint);

impl SettingType for WorkerUrl {
    const EXPECTED: &'static str = "an address such as \"http://10.0.0.1:8000\", without a path";

    fn read(value: &toml::Value) -> Result<Self, String> {
        let text = value.as_str().ok_or_else(expected::<Self>)?;
        let uri: Uri = text.parse().map_err(|_| expected::<Self>())?;
        if uri.scheme_str() == Some("https") {
            return Err("an http:// address; https to workers is not available in this version".to_owned());
        }
        let has_host = uri.host().is_some_and(|host| !host.is_empty());
        let is_base = uri.path() == "/" && uri.query().is_none() && !text.contains(['@', '#']);
        if uri.scheme_str() != Some("http") || !has_host || !is_base {
            return Err(expected::<Self>());
        }
        Ok(Self(text.trim_end_matches('/').to_owned()))
    }
}

impl SettingType for Role {
    const EXPECTED: &'static str = "\"aggregated\"";

    fn read(value: &toml::Value) -> Result<Self, String> {
        match value.as_str() {
            Some("aggregated") => Ok(Self),
            Some("prefill" | "decode") => {
                Err("\"aggregated\"; disaggregated workers are not available in this version".to_owned())
            }
            _ => Err(expected::<Self>()),
        }
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
