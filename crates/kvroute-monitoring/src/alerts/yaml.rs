//! Alert rules as Prometheus reads them.

use std::fmt::{self, Write};

use super::{Alert, AlertGroup};

const INTRODUCTION: &str = "\
# Alert rules for kvroute. Generated from the metric catalogue by `cargo xtask bless`; never edit.
# Each alert has a paragraph in docs/alerts.md.
# `kvroute metrics --format prometheus --prefix X` prints them for another metrics.prefix.
";

/// A rules file.
pub fn render(groups: &[AlertGroup]) -> String {
    let mut file = String::from(INTRODUCTION);
    // Writing to a string cannot fail.
    let _ = write_groups(&mut file, groups);
    file
}

fn write_groups(file: &mut String, groups: &[AlertGroup]) -> fmt::Result {
    writeln!(file, "groups:")?;
    for group in groups {
        writeln!(file, "  - name: {}\n    rules:", group.name)?;
        for alert in &group.alerts {
            write_alert(file, alert)?;
        }
    }
    Ok(())
}

fn write_alert(file: &mut String, alert: &Alert) -> fmt::Result {
    writeln!(file, "      - alert: {}", alert.name)?;
    writeln!(file, "        expr: |-")?;
    for line in alert.expression().lines() {
        writeln!(file, "          {line}")?;
    }
    writeln!(file, "        for: {}", alert.lasting)?;
    writeln!(file, "        labels:\n          severity: {}", alert.severity.as_str())?;
    writeln!(file, "        annotations:")?;
    writeln!(file, "          summary: {}", quoted(alert.summary))?;
    writeln!(file, "          description: {}", quoted(alert.description))?;
    writeln!(file, "          runbook_url: {}", alert.runbook())
}

/// Double quotes take every text without line breaks once these two are escaped.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
