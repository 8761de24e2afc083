//! `[pool.discovery]`: each kind has keys of its own, and those of another kind are a mistake.

use kvroute_router::config::{DiscoveryConfig, DiscoveryKind, DnsName};

use super::problem::Problem;
use super::raw::RawSection;
use super::setting::{Row, Setting};
use super::settings as key;
use super::value::{DnsNameText, FilePath, FoundBy, Port, Scheme, SettingType};

/// The discovery of a pool; `None` where no kind is named.
pub(super) fn resolve(section: &RawSection) -> Result<Option<DiscoveryConfig>, Problem> {
    let Some(found_by) = section.find(&key::POOL_DISCOVERY_KIND)? else {
        return refuse(
            section,
            "is set, but pool.discovery.kind is not; set it to \"file\" or \"dns\"",
            &ALL,
        )
        .map(|()| None);
    };
    let kind = match found_by {
        FoundBy::File => {
            refuse(section, "is of no use with kind = \"file\"; remove it, or set kind to \"dns\"", &OF_DNS)?;
            let FilePath(path) = needed(section, &key::POOL_DISCOVERY_PATH, "file")?;
            DiscoveryKind::File(path)
        }
        FoundBy::Dns => {
            refuse(
                section,
                "is of no use with kind = \"dns\"; remove it, or set kind to \"file\"",
                &OF_FILE,
            )?;
            dns(section)?
        }
    };
    Ok(Some(DiscoveryConfig { kind, refresh: section.get(&key::POOL_DISCOVERY_REFRESH)?.0 }))
}

const OF_FILE: [&Row; 1] = [&key::POOL_DISCOVERY_PATH.row];

const OF_DNS: [&Row; 3] =
    [&key::POOL_DISCOVERY_NAME.row, &key::POOL_DISCOVERY_PORT.row, &key::POOL_DISCOVERY_SERVER.row];

const ALL: [&Row; 4] = [
    &key::POOL_DISCOVERY_PATH.row,
    &key::POOL_DISCOVERY_NAME.row,
    &key::POOL_DISCOVERY_PORT.row,
    &key::POOL_DISCOVERY_SERVER.row,
];

/// With a port the name is that of a host, without one that of a service.
fn dns(section: &RawSection) -> Result<DiscoveryKind, Problem> {
    let DnsNameText(name) = needed(section, &key::POOL_DISCOVERY_NAME, "dns")?;
    let name = match section.find(&key::POOL_DISCOVERY_PORT)? {
        Some(Port(port)) => DnsName::Host(name, port),
        None if name.starts_with('_') => DnsName::Service(name),
        None => {
            return Err(Problem::Rule(format!(
                "{} is {name:?}, which is no service (they begin with \"_\"), so the port is not known; set {}",
                section.path_of(&key::POOL_DISCOVERY_NAME.row),
                section.path_of(&key::POOL_DISCOVERY_PORT.row)
            )));
        }
    };
    Ok(DiscoveryKind::Dns {
        name,
        is_https: section.get(&key::POOL_DISCOVERY_SCHEME)? == Scheme::Https,
        server: section.find(&key::POOL_DISCOVERY_SERVER)?,
    })
}

fn needed<T: SettingType>(section: &RawSection, setting: &Setting<T>, kind: &str) -> Result<T, Problem> {
    section.find(setting)?.ok_or_else(|| {
        let path = section.path_of(&setting.row);
        Problem::Rule(format!(
            "{path} is missing, and kind = \"{kind}\" needs it; set it to {}",
            setting.row.expected()
        ))
    })
}

fn refuse(section: &RawSection, why: &str, rows: &[&Row]) -> Result<(), Problem> {
    match rows.iter().find(|row| section.value_of(row).is_some()) {
        Some(row) => Err(Problem::Rule(format!("{} {why}", section.path_of(row)))),
        None => Ok(()),
    }
}
