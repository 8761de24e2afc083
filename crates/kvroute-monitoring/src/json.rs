//! The catalogue as JSON, for programs.

use kvroute_metrics::{CATALOGUE, Group, Label, Row, Values};
use serde_json::{Value, json};

/// An array with one object a family: every field of its row, names under a prefix.
pub fn catalogue_json(prefix: &str) -> String {
    let rows: Vec<_> = CATALOGUE.iter().map(|row| object(row, prefix)).collect();
    format!("{:#}\n", Value::from(rows))
}

fn object(row: &Row, prefix: &str) -> Value {
    json!({
        "name": row.exposed_name(prefix),
        "group": group(row.group()),
        "type": row.kind.as_str(),
        "labels": row.labels.iter().map(label).collect::<Vec<_>>(),
        "buckets": row.buckets,
        "unit": row.unit,
        "help": row.help,
        "population": row.population,
        "moves": row.moves,
        "zero": row.zero,
        "act": row.act,
        "differs": if row.differs.is_empty() { Value::Null } else { row.differs.into() },
    })
}

/// `values` is null where they are names that the configuration or the code owns.
fn label(label: &Label) -> Value {
    match label.values {
        Values::Of(closed) => json!({"name": label.name, "values": closed, "owner": null}),
        Values::NameOf(owner) => json!({"name": label.name, "values": null, "owner": owner}),
    }
}

const fn group(group: Group) -> &'static str {
    match group {
        Group::Standard => "standard",
        Group::Own => "own",
        Group::Process => "process",
    }
}
