//! The catalogue as a page of documentation.

use std::fmt::{self, Write};

use crate::{CATALOGUE, Group, Kind, Label, Row, Values};

const INTRODUCTION: &str = "\
# Metrics

<!-- Generated from the catalogue in crates/kvroute-metrics/src/catalogue; regenerate, never edit. -->

Everything that `GET /metrics` of the admin plane exports. Numbers of tokens are raw counts, never weighted by
tier; shares are made by dividing two of them over the same window. Counters of one attempt are added one by
one: a scrape in between may see half an attempt.

";

const GROUPS: [(Group, &str, &str); 3] = [
    (
        Group::Standard,
        "Standard families",
        "Named as in the public Dynamo router, so that its panels keep working. `metrics.prefix` stands for the \
         leading `dynamo`.",
    ),
    (Group::Own, "Own families", "Always under the prefix `kvroute_`."),
    (Group::Process, "Process", "About the router's process, as every Prometheus client exports them."),
];

/// The committed page of documentation: every family with its meaning, its labels, when it moves and how to
/// act on it.
pub fn render_markdown() -> String {
    let mut page = String::from(INTRODUCTION);
    // Writing to a string cannot fail.
    let _ = write_groups(&mut page);
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

fn write_groups(page: &mut String) -> fmt::Result {
    for (group, title, introduction) in GROUPS {
        writeln!(page, "## {title}\n\n{introduction}\n")?;
        for row in CATALOGUE.iter().filter(|row| row.group() == group) {
            write_row(page, row)?;
        }
    }
    Ok(())
}

fn write_row(page: &mut String, row: &Row) -> fmt::Result {
    writeln!(page, "### `{}`\n", row.name)?;
    writeln!(page, "{}.\n", row.help.trim_end_matches('.'))?;
    writeln!(page, "* Type: {}, {}", row.kind.as_str(), row.unit)?;
    for label in row.labels {
        write_label(page, label)?;
    }
    if row.kind == Kind::Histogram {
        let bounds: Vec<String> = row.buckets.iter().map(f64::to_string).collect();
        writeln!(page, "* Buckets: {}", bounds.join(", "))?;
    }
    writeln!(page, "* Moves: {}", row.moves)?;
    writeln!(page, "* Act: {}", row.act)?;
    if !row.differs.is_empty() {
        writeln!(page, "* Differs from the public router: {}", row.differs)?;
    }
    writeln!(page)
}

fn write_label(page: &mut String, label: &Label) -> fmt::Result {
    match label.values {
        Values::Of(values) => writeln!(page, "* Label `{}`: `{}`", label.name, values.join("`, `")),
        Values::NameOf(owner) => writeln!(page, "* Label `{}`: the {owner}", label.name),
    }
}
