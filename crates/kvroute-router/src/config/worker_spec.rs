//! A worker as somebody names it while the router runs: in a request of the admin plane, or in what a discovery finds.
//!
//! The same words mean the same as in the configuration, and are refused for the same reasons.

use kvroute_core::WorkerRole;
use kvroute_zmtp::Endpoint;
use serde::Deserialize;

use super::{EventEndpoint, WorkerConfig, parse_worker_url};

/// What event addresses look like.
pub const EXPECTED_EVENTS: &str = "\"auto\", \"none\", \"tcp://host:port\" or \"bind:tcp://address:port\"";

/// What replay addresses look like.
pub const EXPECTED_REPLAY: &str = "\"auto\", \"none\" or \"tcp://host:port\"";

/// What roles look like.
pub const EXPECTED_ROLE: &str = "\"aggregated\", \"prefill\" or \"decode\"";

/// Characters of a value that are repeated in an error.
const LONGEST_SHOWN: usize = 80;

/// A worker, as texts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerSpec {
    /// Base address of the engine.
    pub url: String,
    /// `aggregated` unless it is told.
    #[serde(default)]
    pub role: Option<String>,
    /// `auto` unless it is told.
    #[serde(default)]
    pub kv_events: Option<String>,
    /// `auto` unless it is told.
    #[serde(default)]
    pub kv_replay: Option<String>,
    /// The engine is asked unless it is told.
    #[serde(default)]
    pub dp_ranks: Option<RankCount>,
}

/// How many data-parallel ranks there are.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum RankCount {
    /// So many.
    Number(u64),
    /// A number, or `auto`.
    Text(String),
}

/// A field of a worker that cannot be what it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {value:?}; expected {expected}")]
pub struct SpecError {
    /// The field.
    pub field: &'static str,
    /// What it is.
    pub value: String,
    /// What it could be.
    pub expected: String,
}

// === impl WorkerSpec ===

impl WorkerSpec {
    /// A worker of which only the address is known.
    pub fn at(url: impl Into<String>) -> Self {
        Self { url: url.into(), ..Self::default() }
    }

    /// The worker that is meant. The error names the first field that is wrong.
    pub fn read(&self) -> Result<WorkerConfig, SpecError> {
        let role = self.role.as_deref().map(|text| field("role", text, role(text)));
        let events = self.kv_events.as_deref().map(|text| field("kv_events", text, parse_events(text)));
        let replay = self.kv_replay.as_deref().map(|text| field("kv_replay", text, parse_replay(text)));
        Ok(WorkerConfig {
            url: field("url", &self.url, parse_worker_url(&self.url))?,
            role: role.transpose()?.unwrap_or(WorkerRole::Aggregated),
            kv_events: events.transpose()?.unwrap_or_default(),
            kv_replay: replay.transpose()?.unwrap_or_default(),
            dp_ranks: self.dp_ranks.as_ref().map_or(Ok(None), RankCount::read)?,
        })
    }
}

// === impl RankCount ===

impl RankCount {
    fn read(&self) -> Result<Option<u32>, SpecError> {
        let (number, text) = match self {
            Self::Text(text) if text == "auto" => return Ok(None),
            Self::Text(text) => (text.parse().ok(), text.clone()),
            Self::Number(number) => (u32::try_from(*number).ok(), number.to_string()),
        };
        let ranks =
            number.filter(|ranks| *ranks > 0).ok_or_else(|| "\"auto\" or a number from 1 on".to_owned());
        field("dp_ranks", &text, ranks).map(Some)
    }
}

fn field<T>(field: &'static str, value: &str, read: Result<T, String>) -> Result<T, SpecError> {
    read.map_err(|expected| SpecError { field, value: shown(value), expected })
}

/// A value without what may be a password, and not all of it if it is long: errors are logged.
fn shown(value: &str) -> String {
    let hidden = value.rfind('@').unwrap_or_default();
    let scheme = value[..hidden].find("://").map_or(0, |colon| colon + 3);
    let masked =
        if hidden > 0 { format!("{}***{}", &value[..scheme], &value[hidden..]) } else { value.to_owned() };
    match masked.char_indices().nth(LONGEST_SHOWN) {
        Some((end, _)) => format!("{}…", &masked[..end]),
        None => masked,
    }
}

fn role(text: &str) -> Result<WorkerRole, String> {
    let named = WorkerRole::ALL.into_iter().find(|role| role.as_str() == text);
    named.ok_or_else(|| EXPECTED_ROLE.to_owned())
}

/// Where KV events come from. The error says what was expected.
pub fn parse_events(text: &str) -> Result<EventEndpoint, String> {
    let (address, make): (&str, fn(Endpoint) -> EventEndpoint) = match text {
        "auto" => return Ok(EventEndpoint::Auto),
        "none" => return Ok(EventEndpoint::None),
        _ => match text.strip_prefix("bind:") {
            Some(address) => (address, EventEndpoint::Bind),
            None => (text, EventEndpoint::Connect),
        },
    };
    // Port 0 asks for a free one, which nobody could tell the engine.
    let endpoint = address.parse::<Endpoint>().ok().filter(|endpoint| endpoint.port() != 0);
    endpoint.map(make).ok_or_else(|| EXPECTED_EVENTS.to_owned())
}

/// Where lost KV events are asked for: always connected to, as it is the engine that answers. The error says what was
/// expected.
pub fn parse_replay(text: &str) -> Result<EventEndpoint, String> {
    match parse_events(text) {
        Ok(EventEndpoint::Bind(_)) | Err(_) => Err(EXPECTED_REPLAY.to_owned()),
        Ok(endpoint) => Ok(endpoint),
    }
}

#[cfg(test)]
mod tests;
