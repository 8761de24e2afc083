//! `kvroute metrics`: the metric catalogue, and what is generated from it.
//!
//! Whoever runs a router with another `metrics.prefix` gets dashboards and alert rules that fit it from here; the committed
//! ones have the default prefix.

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use kvroute_metrics::MetricsOptions;
use kvroute_monitoring::{
    DASHBOARD_NAMES, alert_groups, catalogue_json, catalogue_table, dashboards, documentation, python_module,
    render_dashboards, render_rules,
};

use crate::failure::Failure;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct MetricsFlags {
    /// What to print: the metrics, Grafana dashboards or Prometheus alert rules
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    format: Format,
    /// What standard names begin with, as set by metrics.prefix
    #[arg(long, value_name = "PREFIX", default_value = "dynamo")]
    prefix: String,
    /// Only this dashboard, as Grafana imports it; with --format grafana
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(DASHBOARD_NAMES))]
    dashboard: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    // No help of their own: it would not fit a screen.
    #[default]
    Table,
    Markdown,
    Json,
    Python,
    Grafana,
    Prometheus,
}

/// Prints it.
pub(crate) fn run(flags: &MetricsFlags) -> Result<(), Failure> {
    let options = MetricsOptions { prefix: flags.prefix.clone(), ..MetricsOptions::default() };
    options.validate().map_err(|_| {
        let prefix = &flags.prefix;
        Failure::Usage(format!(
            "--prefix {prefix:?} is no metric name; use letters, digits and _ and begin with a letter"
        ))
    })?;
    output::result(&flags.text()?).map_err(|error| Failure::while_doing("cannot print", error))
}

// === impl MetricsFlags ===

impl MetricsFlags {
    fn text(&self) -> Result<String, Failure> {
        let prefix = self.prefix.as_str();
        if let Some(name) = &self.dashboard {
            return self.dashboard(name);
        }
        Ok(match self.format {
            Format::Table => catalogue_table(prefix),
            Format::Markdown => documentation(prefix),
            Format::Json => catalogue_json(prefix),
            Format::Python => python_module(prefix),
            Format::Grafana => render_dashboards(&dashboards(prefix)),
            Format::Prometheus => render_rules(&alert_groups(prefix)),
        })
    }

    fn dashboard(&self, name: &str) -> Result<String, Failure> {
        if self.format != Format::Grafana {
            return Err(Failure::Usage("--dashboard needs --format grafana".to_owned()));
        }
        let all = dashboards(&self.prefix);
        let found = all.iter().find(|dashboard| dashboard.name() == name);
        found
            .map(|dashboard| dashboard.to_json())
            .ok_or_else(|| Failure::Usage(format!("no dashboard {name}; use {}", DASHBOARD_NAMES.join(", "))))
    }
}
