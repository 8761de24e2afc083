//! The configuration as typed: values by key, each with where it came from, nothing resolved yet.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::{fmt, iter};

use super::problem::{Problem, shown};
use super::setting::{Row, Setting};
use super::value::SettingType;

/// Everything that was set, in the shape of the file.
#[derive(Debug, Default)]
pub(crate) struct RawConfig {
    /// Keys outside of pools.
    pub(crate) root: RawSection,
    pub(crate) pools: Vec<RawPool>,
}

/// One `[[pool]]`.
#[derive(Debug, Default)]
pub(crate) struct RawPool {
    pub(crate) section: RawSection,
    pub(crate) workers: Vec<RawSection>,
}

/// Keys of one table and of the tables below it.
#[derive(Debug, Default)]
pub(crate) struct RawSection {
    /// Path of the table with indices, empty for the root; and the same without indices.
    path: String,
    key: &'static str,
    values: BTreeMap<&'static str, Given>,
    /// Warnings about values that were ignored.
    ignored: Vec<String>,
}

/// Who set a value.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    File(PathBuf),
    Env(String),
    Flag(&'static str),
    ShortForm(&'static str),
}

#[derive(Debug)]
struct Given {
    value: toml::Value,
    origin: Origin,
}

// === impl RawConfig ===

impl RawConfig {
    /// Appends an empty pool.
    pub(crate) fn add_pool(&mut self) -> &mut RawPool {
        let section =
            RawSection { path: format!("pool[{}]", self.pools.len()), key: "pool", ..RawSection::default() };
        self.pools.push(RawPool { section, workers: Vec::new() });
        let last = self.pools.len() - 1;
        &mut self.pools[last]
    }

    /// What was set and does not count, each once.
    pub(crate) fn ignored(&self) -> impl Iterator<Item = &String> {
        let sections = iter::once(&self.root).chain(self.pools.iter().map(|pool| &pool.section));
        let ignored: BTreeSet<_> = sections.flat_map(|section| &section.ignored).collect();
        ignored.into_iter()
    }

    /// Sets a key from outside the file; a key of a pool is set in every pool.
    pub(crate) fn set_everywhere(
        &mut self,
        row: &'static Row,
        text: &str,
        origin: &Origin,
    ) -> Result<(), Problem> {
        let value = (row.from_text)(text);
        if !row.is_pool() {
            return self.root.set(row, value, origin.clone());
        }
        let mut pools = self.pools.iter_mut();
        pools.try_for_each(|pool| pool.section.set(row, value.clone(), origin.clone()))
    }
}

// === impl RawPool ===

impl RawPool {
    /// Appends an empty worker.
    pub(crate) fn add_worker(&mut self) -> &mut RawSection {
        let path = format!("{}.worker[{}]", self.section.path, self.workers.len());
        self.workers.push(RawSection { path, key: "pool.worker", ..RawSection::default() });
        let last = self.workers.len() - 1;
        &mut self.workers[last]
    }
}

// === impl RawSection ===

impl RawSection {
    /// Sets a key, replacing what an earlier source said. A value of another type is refused.
    pub(crate) fn set(
        &mut self,
        row: &'static Row,
        value: toml::Value,
        origin: Origin,
    ) -> Result<(), Problem> {
        if let Err(expected) = (row.check)(&value) {
            let origin = origin.to_string();
            if !row.is_lenient {
                return Err(Problem::Value { path: self.path_of(row), value, expected, origin });
            }
            let default = row.default.unwrap_or("no value");
            let (key, value) = (row.key, shown(&value));
            let warning = format!(
                "{key} is {value} ({origin}), which is ignored: {default} is used; expected {expected}"
            );
            self.ignored.push(warning);
            self.values.remove(row.key);
            return Ok(());
        }
        self.values.insert(row.key, Given { value, origin });
        Ok(())
    }

    /// The value that was set, else the default; `None` if there is neither.
    pub(crate) fn find<T: SettingType>(&self, setting: &Setting<T>) -> Result<Option<T>, Problem> {
        let given = self.values.get(setting.row.key);
        let Some(value) = self.value_of(&setting.row) else { return Ok(None) };
        let refuse = |expected| Problem::Value {
            path: self.path_of(&setting.row),
            value: value.clone(),
            expected,
            origin: given.map_or_else(|| "default".to_owned(), |given| given.origin.to_string()),
        };
        T::read(&value).map(Some).map_err(refuse)
    }

    /// The value that counts, as it was set or as its default says.
    pub(crate) fn value_of(&self, row: &Row) -> Option<toml::Value> {
        let given = self.values.get(row.key).map(|given| given.value.clone());
        given.or_else(|| row.default.and_then(parse_toml_value))
    }

    /// The value of a key that must have one.
    pub(crate) fn get<T: SettingType>(&self, setting: &Setting<T>) -> Result<T, Problem> {
        self.find(setting)?.ok_or_else(|| {
            Problem::Rule(format!(
                "{} is missing; set it to {}",
                self.path_of(&setting.row),
                setting.row.expected()
            ))
        })
    }

    /// Path of the table with indices.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The key's path with the indices of this table.
    pub(crate) fn path_of(&self, row: &Row) -> String {
        match row.key.strip_prefix(self.key) {
            Some(rest) => format!("{}{rest}", self.path),
            None => row.key.to_owned(),
        }
    }
}

/// Reads one value of TOML, as it would stand behind a `=`.
pub(crate) fn parse_toml_value(text: &str) -> Option<toml::Value> {
    let table: toml::Table = toml::from_str(&format!("value = {text}")).ok()?;
    table.into_iter().next().map(|(_, value)| value).filter(|_| !text.contains('\n'))
}

// === impl Origin ===

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Env(variable) => write!(f, "environment {variable}"),
            Self::Flag(flag) => write!(f, "flag {flag}"),
            Self::ShortForm(flag) => write!(f, "flag --{flag}"),
        }
    }
}
