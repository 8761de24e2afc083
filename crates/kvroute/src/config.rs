//! Configuration: what was typed is read first, then resolved.
//!
//! One table, [`settings`], names every key with its type, default, documentation and flag. Parsing, environment
//! names, hints for misspelt keys, the flags of `serve` and `docs/configuration.md` all follow from it, so a new
//! setting is one row and cannot be forgotten in one of those places. Sources are layered before anything is
//! resolved: file < `DYN_…`, `OTEL_…` < `KVROUTE_…` < flag. Nothing here binds a port or reads more than the file.

mod discovery;
#[cfg(test)]
mod document;
mod env;
mod faults;
mod file;
mod flags;
mod hint;
mod path;
mod problem;
mod raw;
mod resolve;
mod security;
mod setting;
mod settings;
mod shown;
mod telemetry;
mod value;

use std::path::Path;

use kvroute_router::config::twins;
use kvroute_server::ServeConfig;

pub(crate) use flags::ServeFlags;
pub(crate) use problem::ConfigError;
pub(crate) use telemetry::Telemetry;
pub(crate) use value::{LogFormat, TRACES_PATH, parse_duration};

use problem::Problem;
use raw::{Origin, RawConfig};

/// A configuration that can be served, and what should be said about it.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) config: ServeConfig,
    pub(crate) telemetry: Telemetry,
    pub(crate) warnings: Vec<String>,
}

/// Reads, layers and resolves. `environment` is the process's, or a test's.
pub(crate) fn load(
    flags: &ServeFlags,
    environment: impl Iterator<Item = (String, String)>,
) -> Result<Loaded, ConfigError> {
    let mut raw = RawConfig::default();
    if let Some(path) = &flags.config {
        file::read(path, &mut raw)?;
    }
    add_workers(&mut raw, &flags.workers)?;
    let mut warnings = env::apply(environment, &mut raw)?;
    flags::apply(flags, &mut raw)?;
    warnings.extend(raw.ignored().cloned());
    let (config, telemetry) = (resolve::resolve(&raw)?, telemetry::resolve(&raw)?);
    let workers = config.router.pools.iter().flat_map(|pool| &pool.workers);
    warnings.extend(twins(workers).iter().map(ToString::to_string));
    Ok(Loaded { config, telemetry, warnings })
}

/// The environment of this process. A variable of this program that is not Unicode is refused, others are left out.
pub(crate) fn process_environment() -> Result<impl Iterator<Item = (String, String)>, ConfigError> {
    let mut variables = Vec::new();
    for (name, text) in std::env::vars_os() {
        let Ok(name) = name.into_string() else { continue };
        match text.into_string() {
            Ok(text) => variables.push((name, text)),
            Err(_) if name.starts_with("KVROUTE_") => {
                return Err(Problem::Rule(format!("environment {name} is not Unicode; set it anew")).into());
            }
            Err(_) => {}
        }
    }
    Ok(variables.into_iter())
}

/// Reads and resolves a file alone, without environment and flags.
pub(crate) fn load_file(path: &Path) -> Result<Loaded, ConfigError> {
    load(&ServeFlags::of_file(path), std::iter::empty())
}

/// `--worker` makes the pool of a configuration that has none, and joins the only one otherwise.
fn add_workers(raw: &mut RawConfig, urls: &[String]) -> Result<(), Problem> {
    if urls.is_empty() {
        return Ok(());
    }
    if raw.pools.is_empty() {
        raw.add_pool();
    }
    let [pool] = raw.pools.as_mut_slice() else {
        return Err(Problem::Rule(format!(
            "--worker: the configuration has {} pools; name the worker under [[pool.worker]] of one of them",
            raw.pools.len()
        )));
    };
    for url in urls {
        let worker = pool.add_worker();
        worker.set(&settings::WORKER_URL.row, toml::Value::String(url.clone()), Origin::Flag("--worker"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
