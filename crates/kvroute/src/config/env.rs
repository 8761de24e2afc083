//! The environment: `KVROUTE_…` for every key, the public Dynamo router's own names for some, and those of standards.
//!
//! A variable that looks like a key and is none earns a warning and not an error: the environment is shared
//! with other programs, and with other versions of this one. So does a standard's variable that says what this program
//! cannot do.

use super::hint;
use super::problem::ConfigError;
use super::raw::{Origin, RawConfig};
use super::setting::Row;
use super::settings::ROWS;

/// Variables with other first words (`KVROUTE_CACHE`) are no settings.
const SECTIONS: [&str; 6] = [
    "KVROUTE_SERVER_",
    "KVROUTE_POOL_",
    "KVROUTE_METRICS_",
    "KVROUTE_CLUSTER_",
    "KVROUTE_LOG_",
    "KVROUTE_TRACING_",
];

/// Sets what the environment names, `OTEL_…` and `DYN_…` before `KVROUTE_…`; gives warnings about what it cannot mean.
pub(crate) fn apply(
    environment: impl Iterator<Item = (String, String)>,
    raw: &mut RawConfig,
) -> Result<Vec<String>, ConfigError> {
    let mut foreign: Vec<(&'static Row, String, String)> = Vec::new();
    let mut own = Vec::new();
    let mut warnings = Vec::new();
    for (variable, text) in environment {
        if let Some(row) = ROWS.iter().find(|row| row.standard_env == Some(&variable)) {
            warnings.extend(apply_standard(row, variable, &text, raw));
        } else if let Some(row) = ROWS.iter().find(|row| row.dyn_env == Some(&variable)) {
            foreign.push((row, variable, text));
        } else if let Some(row) = ROWS.iter().find(|row| !row.is_worker() && row.env() == variable) {
            own.push((*row, variable, text));
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

/// Sets a key by a standard's variable, or warns. Empty means unset there.
fn apply_standard(row: &'static Row, variable: String, text: &str, raw: &mut RawConfig) -> Option<String> {
    if text.is_empty() {
        return None;
    }
    let ignored = raw.set_everywhere(row, text, &Origin::Env(variable)).err()?;
    Some(format!("{ignored}; it is ignored, set {} or {} for this program alone", row.key, row.env()))
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
