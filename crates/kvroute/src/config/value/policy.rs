//! Policies by name, as the registry of policies knows them.

use kvroute_select::policy::{self, UnknownPolicy};
use kvroute_select::{PolicyOptions, QueueOrder};

use super::{SettingType, expected};

/// A policy that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PolicyName(pub(crate) String);

/// Policies that exist, none of them twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PolicyNames(pub(crate) Vec<String>);

/// What a session does while its worker cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionMode {
    /// It moves to another worker.
    Soft,
    /// It waits.
    Hard,
}

impl SettingType for PolicyName {
    const EXPECTED: &'static str = "the name of a policy";
    const CHOICES: &'static [&'static str] = policy::NAMES;

    fn read(value: &toml::Value) -> Result<Self, String> {
        let name = value.as_str().ok_or_else(expected::<Self>)?;
        match policy::by_name(name, &PolicyOptions::default()) {
            Ok(_) => Ok(Self(name.to_owned())),
            Err(UnknownPolicy { nearest: Some(nearest), .. }) => {
                Err(format!("{}; did you mean \"{nearest}\"?", expected::<Self>()))
            }
            Err(_) => Err(expected::<Self>()),
        }
    }
}

impl SettingType for PolicyNames {
    const EXPECTED: &'static str = "a list of policies such as [\"round-robin\"], each at most once";
    const CHOICES: &'static [&'static str] = policy::NAMES;

    fn read(value: &toml::Value) -> Result<Self, String> {
        let items = value.as_array().ok_or_else(expected::<Self>)?;
        let mut names: Vec<String> = Vec::with_capacity(items.len());
        for item in items {
            let PolicyName(name) = PolicyName::read(item)
                .map_err(|reason| format!("a list of policies, but {item} is none; each is {reason}"))?;
            if names.contains(&name) {
                return Err(format!("{name} only once in the list"));
            }
            names.push(name);
        }
        Ok(Self(names))
    }

    fn from_text(text: &str) -> toml::Value {
        Vec::<String>::from_text(text)
    }
}

impl SettingType for SessionMode {
    const EXPECTED: &'static str = "\"soft\" or \"hard\"";

    fn read(value: &toml::Value) -> Result<Self, String> {
        match value.as_str() {
            Some("soft") => Ok(Self::Soft),
            Some("hard") => Ok(Self::Hard),
            _ => Err(expected::<Self>()),
        }
    }
}

impl SettingType for QueueOrder {
    const EXPECTED: &'static str = "\"fcfs\" or \"shortest-prefill\"";

    fn read(value: &toml::Value) -> Result<Self, String> {
        value.as_str().and_then(Self::by_name).ok_or_else(expected::<Self>)
    }
}
