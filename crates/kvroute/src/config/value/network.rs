//! Networks of callers, and what those who balance them are told.

use std::net::IpAddr;

use ipnet::IpNet;
use kvroute_router::config::ReadyWhen;

use super::{SettingType, expected};

/// Networks, and single addresses as networks of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Networks(pub(crate) Vec<IpNet>);

impl SettingType for Networks {
    const EXPECTED: &'static str =
        "a list of addresses and networks such as [\"127.0.0.1\", \"10.0.0.0/8\", \"fd00::/8\"]";

    fn read(value: &toml::Value) -> Result<Self, String> {
        let items = value.as_array().ok_or_else(expected::<Self>)?;
        items.iter().map(network).collect::<Result<_, _>>().map(Self)
    }

    fn from_text(text: &str) -> toml::Value {
        Vec::<String>::from_text(text)
    }
}

impl SettingType for ReadyWhen {
    const EXPECTED: &'static str = "\"any\" or \"all\"";

    fn read(value: &toml::Value) -> Result<Self, String> {
        match value.as_str() {
            Some("any") => Ok(Self::Any),
            Some("all") => Ok(Self::All),
            _ => Err(expected::<Self>()),
        }
    }
}

/// An address inside of a network, written with the network's length, could mean the one or the other.
fn network(item: &toml::Value) -> Result<IpNet, String> {
    let parsed = item.as_str().and_then(|text| match text.parse::<IpAddr>() {
        Ok(address) => Some(IpNet::from(address)),
        Err(_) => text.parse().ok(),
    });
    let network = parsed.ok_or_else(|| format!("{}, and {item} is neither", Networks::EXPECTED))?;
    if network.addr() != network.network() {
        let (whole, one) = (network.trunc(), network.addr());
        return Err(format!("\"{whole}\" for the network or \"{one}\" for the address, in place of {item}"));
    }
    Ok(network)
}
