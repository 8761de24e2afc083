//! What is generated from the metric catalogue, so that nothing that speaks of a metric can say anything else: the page
//! of documentation, the table and the JSON of `kvroute metrics`, the Python module, the Grafana dashboards and the
//! Prometheus alert rules.
//!
//! Nothing here runs in the router. A family is named by its row alone, so that a renamed family renames itself
//! everywhere, and a removed one does not compile.

#![forbid(unsafe_code)]

mod alerts;
mod dashboards;
mod json;
mod page;
mod python;
mod query;
mod table;

pub use alerts::{Alert, AlertGroup, Condition, Severity, alert_groups, render_rules};
pub use dashboards::{DASHBOARD_NAMES, Dashboard, Panel, dashboards, render_dashboards};
pub use json::catalogue_json;
pub use page::documentation;
pub use python::python_module;
pub use query::Query;
pub use table::catalogue_table;
