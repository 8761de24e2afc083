//! From a TOML file to raw values: every key is known, of the right type, or named as a problem.

use std::path::Path;

use super::path::{join, without_indices};
use super::problem::{ConfigError, Problem};
use super::raw::{Origin, RawConfig, RawSection};
use super::{hint, settings};

struct Walk {
    origin: Origin,
    problems: Vec<Problem>,
}

/// Reads a file into an empty configuration. All problems are collected, so that one run names them all.
pub(crate) fn read(path: &Path, raw: &mut RawConfig) -> Result<(), ConfigError> {
    let unreadable = |source| Problem::Unreadable { path: path.to_owned(), source };
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let syntax = |source| Problem::Syntax { path: path.to_owned(), source: Box::new(source) };
    let table: toml::Table = toml::from_str(&text).map_err(syntax)?;
    let mut walk = Walk { origin: Origin::File(path.to_owned()), problems: Vec::new() };
    walk.root(table, raw);
    ConfigError::unless_empty(walk.problems)
}

// === impl Walk ===

impl Walk {
    fn root(&mut self, mut table: toml::Table, raw: &mut RawConfig) {
        if let Some(pools) = table.remove("pool") {
            self.pools(pools, raw);
        }
        self.section("", table, &mut raw.root);
    }

    fn pools(&mut self, pools: toml::Value, raw: &mut RawConfig) {
        for mut table in self.tables("pool", "[[pool]]", pools) {
            let pool = raw.add_pool();
            let workers = table.remove("worker");
            let path = pool.section.path().to_owned();
            self.section(&path, table, &mut pool.section);
            let Some(workers) = workers else { continue };
            for worker_table in self.tables(&join(&path, "worker"), "[[pool.worker]]", workers) {
                let worker = pool.add_worker();
                let worker_path = worker.path().to_owned();
                self.section(&worker_path, worker_table, worker);
            }
        }
    }

    /// The tables of an array of tables; anything else is a problem.
    fn tables(&mut self, path: &str, heading: &str, value: toml::Value) -> Vec<toml::Table> {
        let remedy = format!("write {heading} above each one");
        let found = value.type_str();
        let toml::Value::Array(items) = value else {
            self.problems.push(Problem::Shape { path: path.to_owned(), found, remedy });
            return Vec::new();
        };
        let mut tables = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().enumerate() {
            match item {
                toml::Value::Table(table) => tables.push(table),
                other => self.problems.push(Problem::Shape {
                    path: format!("{path}[{index}]"),
                    found: other.type_str(),
                    remedy: remedy.clone(),
                }),
            }
        }
        tables
    }

    /// Keys of a table and of the tables below it.
    fn section(&mut self, path: &str, table: toml::Table, into: &mut RawSection) {
        for (name, value) in table {
            let path = join(path, &name);
            let key = without_indices(&path);
            if let Some(row) = settings::row(&key) {
                if let Err(problem) = into.set(row, value, self.origin.clone()) {
                    self.problems.push(problem);
                }
            } else if is_section(&key) {
                self.nested(path, value, into);
            } else {
                let hint = hint::for_unknown(&key);
                self.problems.push(Problem::UnknownKey { path, hint });
            }
        }
    }

    fn nested(&mut self, path: String, value: toml::Value, into: &mut RawSection) {
        let found = value.type_str();
        match value {
            toml::Value::Table(table) => self.section(&path, table, into),
            _ => {
                let remedy = format!("write [{}] with its keys below", without_indices(&path));
                self.problems.push(Problem::Shape { path, found, remedy });
            }
        }
    }
}

/// True if keys of the table lie below this one.
fn is_section(key: &str) -> bool {
    settings::ROWS.iter().any(|row| row.key.strip_prefix(key).is_some_and(|rest| rest.starts_with('.')))
}
