//! The configuration as it may be shown: every key with the value that counts, in the shape of the file.
//!
//! Keys, tokens and certificates are files, of which only the paths stand here. What may hold a password in an address is
//! shown without it.

use serde_json::{Map, Value};

use super::problem::without_credentials;
use super::raw::{RawConfig, RawSection};
use super::setting::Row;
use super::settings::ROWS;

/// Everything that was set, and the defaults of what was not.
pub(super) fn shown(raw: &RawConfig) -> Map<String, Value> {
    let mut root = section(&raw.root, "", |row| !row.key.starts_with("pool."));
    let pools = raw.pools.iter().map(|pool| {
        let mut shown = section(&pool.section, "pool.", Row::is_pool);
        let workers = pool.workers.iter().map(|worker| section(worker, "pool.worker.", Row::is_worker));
        shown.insert("worker".to_owned(), workers.map(Value::Object).collect());
        Value::Object(shown)
    });
    root.insert("pool".to_owned(), pools.collect());
    root
}

fn section(raw: &RawSection, prefix: &str, belongs: impl Fn(&Row) -> bool) -> Map<String, Value> {
    let mut shown = Map::new();
    for row in ROWS.iter().filter(|row| belongs(row)) {
        let Some(value) = raw.value_of(row) else { continue };
        let mut names = row.key.strip_prefix(prefix).unwrap_or(row.key).split('.');
        let last = names.next_back().unwrap_or(row.key);
        let table = names.try_fold(&mut shown, |table, name| {
            table.entry(name).or_insert_with(|| Value::Object(Map::new())).as_object_mut()
        });
        if let Some(table) = table {
            table.insert(last.to_owned(), masked(&value));
        }
    }
    shown
}

/// A value as JSON, texts without what stands before the hosts of addresses.
fn masked(value: &toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::String(without_credentials(text)),
        toml::Value::Integer(number) => Value::from(*number),
        toml::Value::Float(number) => Value::from(*number),
        toml::Value::Boolean(flag) => Value::Bool(*flag),
        toml::Value::Datetime(time) => Value::String(time.to_string()),
        toml::Value::Array(items) => items.iter().map(masked).collect(),
        toml::Value::Table(table) => {
            let shown: Map<_, _> = table.iter().map(|(name, value)| (name.clone(), masked(value))).collect();
            Value::Object(shown)
        }
    }
}
