//! The catalogue as a page of documentation, `docs/metrics.md`.

mod differences;

use std::fmt::{self, Write};

use kvroute_metrics::{CATALOGUE, Group, Kind, Label, Row, Values};

const INTRODUCTION: &str = "\
# Metrics

<!-- Generated from the catalogue in crates/kvroute-metrics/src/catalogue by `cargo xtask bless`; never edit. -->

Everything that `GET /metrics` of the admin plane exports; `kvroute metrics` prints the same in other forms. The alerts on
these families are explained in [alerts.md](alerts.md), the dashboards in [dashboards.md](dashboards.md).

Numbers of tokens are raw counts, never weighted by tier. A share is made by dividing two of them over the same window, and
only families of the same population may be divided: each entry says of whom it speaks. Counters of one attempt are added
one by one: a scrape in between may see half an attempt. A series whose label values are known in advance exists at 0 from
the start, so that a rate over its first event is right; what 0 means and what absence means stands with each entry.

";

const GROUPS: [(Group, &str, &str); 3] = [
    (
        Group::Standard,
        "Standard families",
        "Named as in the public Dynamo router, so that its panels keep working. `metrics.prefix` stands for the leading \
         `dynamo`.",
    ),
    (Group::Own, "Own families", "Always under the prefix `kvroute_`."),
    (Group::Process, "Process", "About the router's process, as every Prometheus client exports them."),
];

/// The page, with standard families under a prefix: each with its meaning, its labels, when it moves and how to act on it.
pub fn documentation(prefix: &str) -> String {
    let mut page = String::from(INTRODUCTION);
    // Writing to a string cannot fail.
    let _ = differences::write(&mut page, prefix);
    let _ = write_groups(&mut page, prefix);
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

fn write_groups(page: &mut String, prefix: &str) -> fmt::Result {
    for (group, title, introduction) in GROUPS {
        writeln!(page, "## {title}\n\n{introduction}\n")?;
        for row in CATALOGUE.iter().filter(|row| row.group() == group) {
            write_row(page, row, prefix)?;
        }
    }
    Ok(())
}

fn write_row(page: &mut String, row: &Row, prefix: &str) -> fmt::Result {
    writeln!(page, "### `{}`\n", row.exposed_name(prefix))?;
    writeln!(page, "{}.\n", row.help.trim_end_matches('.'))?;
    writeln!(page, "* Type: {}, {}", row.kind.as_str(), row.unit)?;
    for label in row.labels {
        write_label(page, label)?;
    }
    if row.kind == Kind::Histogram {
        let bounds: Vec<String> = row.buckets.iter().map(f64::to_string).collect();
        writeln!(page, "* Buckets: {}", bounds.join(", "))?;
    }
    writeln!(page, "* Speaks of: {}", row.population)?;
    writeln!(page, "* Moves: {}", row.moves)?;
    writeln!(page, "* Zero: {}", row.zero)?;
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
