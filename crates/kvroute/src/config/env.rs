//! The environment: `KVROUTE_…` for every key, and the public Dynamo router's own names for some.
//!
//! A variable that looks like a key and is none earns a warning and not an error: the environment is shared
//! with other programs, and with other versions of this one.

use super::problem::{ConfigError, Problem};
use super::raw::{Origin, RawConfig};
use super::setting::Row;
use super::settings::ROWS;
use super::{hint, later};

/// Variables with other first words (`KVROUTE_CACHE`) are no settings.
const SECTIONS: [&str; 4] = ["KVROUTE_SERVER_", "KVROUTE_POOL_", "KVROUTE_METRICS_", "KVROUTE_CLUSTER_"];

/// Sets what the environment names, `DYN_…` before `KVROUTE_…`; gives warnings about what it cannot mean.
pub(crate) fn apply(
    environment: impl Iterator<Item = (String, String)>,
    raw: &mut RawConfig,
) -> Result<Vec<String>, ConfigError> {
    let mut foreign: Vec<(&'static Row, String, String)> = Vec::new();
    let mut own = Vec::new();
    let mut warnings = Vec::new();
    for (variable, text) in environment {
        if let Some(row) = ROWS.iter().find(|row| row.dyn_env == Some(&variable)) {
            foreign.push((row, variable, text));
        } else if let Some(row) = ROWS.iter().find(|row| !row.is_worker() && row.env() == variable) {
            own.push((*row, variable, text));
        } else if later::is_later_env(&variable) {
            return Err(Problem::NotYet { path: variable }.into());
        } else if SECTIONS.iter().any(|section| variable.starts_with(section)) {
            warnings.push(unknown(&variable));
        }
    }
    for (row, variable, text) in foreign.into_iter().chain(own) {
        raw.set_everywhere(row, &text, &Origin::Env(variable))?;
    }
    warnings.sort_unstable();
    Ok(warnings)
}

fn unknown(variable: &str) -> String {
    if variable.starts_with("KVROUTE_POOL_WORKER_") {
        return format!("environment {variable} is ignored: workers are named by the file or by --worker");
    }
    let names: Vec<String> = ROWS.iter().filter(|row| !row.is_worker()).map(|row| row.env()).collect();
    match hint::nearest(variable, names.iter().map(String::as_str)) {
        Some(nearest) => {
            format!("environment {variable} is ignored: no such setting; did you mean {nearest}?")
        }
        None => format!("environment {variable} is ignored: no such setting"),
    }
}
