//! Addresses of the server that replicas talk over.

use http::Uri;

use super::{SettingType, expected};

/// Addresses of one NATS cluster, with commas between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NatsServers(pub(crate) String);

impl SettingType for NatsServers {
    const EXPECTED: &'static str =
        "an address such as \"nats://127.0.0.1:4222\", or several with commas between them";

    fn read(value: &toml::Value) -> Result<Self, String> {
        let text = value.as_str().ok_or_else(expected::<Self>)?;
        match text.split(',').all(|server| is_server(server.trim())) {
            true => Ok(Self(text.to_owned())),
            false => Err(expected::<Self>()),
        }
    }
}

/// User and password, or a token, may stand before the host.
fn is_server(text: &str) -> bool {
    let Ok(uri) = text.parse::<Uri>() else { return false };
    let is_bare = matches!(uri.path(), "" | "/") && uri.query().is_none();
    uri.scheme_str() == Some("nats") && uri.host().is_some_and(|host| !host.is_empty()) && is_bare
}
