//! How the program itself is watched: its log and its traces.

use super::problem::Problem;
use super::raw::RawConfig;
use super::settings as key;
use super::value::LogFormat;

/// What is told of the router to those who watch it, beside its metrics.
#[derive(Clone, Debug)]
pub(crate) struct Telemetry {
    /// Whether each request leaves a line in the log.
    pub(crate) access: bool,
    pub(crate) format: LogFormat,
    /// Base address of the collector that spans are sent to; `None` sends none.
    pub(crate) otlp: Option<String>,
}

// === impl Telemetry ===

impl Telemetry {
    /// Keys of the settings that are others here. All of them count from the start of the program to its end.
    pub(crate) fn differences(&self, before: &Self) -> Vec<&'static str> {
        let parts = [
            ("log.access", self.access != before.access),
            ("log.format", self.format != before.format),
            ("tracing.otlp", self.otlp != before.otlp),
        ];
        parts.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
    }
}

/// Resolves what is set of it.
pub(super) fn resolve(raw: &RawConfig) -> Result<Telemetry, Problem> {
    Ok(Telemetry {
        access: raw.root.get(&key::LOG_ACCESS)?,
        format: raw.root.get(&key::LOG_FORMAT)?,
        otlp: raw.root.get(&key::TRACING_OTLP)?.0,
    })
}
