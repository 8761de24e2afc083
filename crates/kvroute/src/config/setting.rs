//! One row of the settings table, typed by what it is read into.

use std::marker::PhantomData;

use super::value::{SettingType, described};

/// A setting without its type: what parsing, hints, flags and documentation need.
#[derive(Debug)]
pub(crate) struct Row {
    /// Path in the file, without indices: `pool.kv.temperature`.
    pub(crate) key: &'static str,
    /// Value if nobody sets it, as TOML; absent where there is none.
    pub(crate) default: Option<&'static str>,
    /// What it does, in full sentences.
    pub(crate) doc: &'static str,
    /// Short flag of `serve`.
    pub(crate) flag: Option<Flag>,
    /// Environment variable of the public Dynamo router with the same meaning.
    pub(crate) dyn_env: Option<&'static str>,
    /// Environment variable that a standard gives the same meaning. It is there for every program of a machine, so a
    /// value that is of no use here is no error.
    pub(crate) standard_env: Option<&'static str>,
    /// Whether a value of another type is ignored with a warning, so that the default counts.
    pub(crate) is_lenient: bool,
    /// What values look like, without the choices.
    expected: &'static str,
    /// All words that values consist of, where another part of the program names them.
    pub(crate) choices: &'static [&'static str],
    /// Whether a value is of the type; the error says what else is wrong with it.
    pub(crate) check: fn(&toml::Value) -> Result<(), String>,
    /// The value that a text of the environment or the command line means.
    pub(crate) from_text: fn(&str) -> toml::Value,
}

/// A short flag and what its value is called.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flag {
    /// Without dashes.
    pub(crate) name: &'static str,
    pub(crate) value_name: &'static str,
}

/// A row and the type of its value.
#[derive(Debug)]
pub(crate) struct Setting<T> {
    pub(crate) row: Row,
    typed: PhantomData<fn() -> T>,
}

// === impl Setting ===

impl<T: SettingType> Setting<T> {
    /// A setting without flag, default and foreign name.
    pub(crate) const fn new(key: &'static str, doc: &'static str) -> Self {
        let row = Row {
            key,
            doc,
            default: None,
            flag: None,
            dyn_env: None,
            standard_env: None,
            is_lenient: false,
            expected: T::EXPECTED,
            choices: T::CHOICES,
            check: |value| T::read(value).map(drop),
            from_text: T::from_text,
        };
        Self { row, typed: PhantomData }
    }

    pub(crate) const fn default(mut self, toml: &'static str) -> Self {
        self.row.default = Some(toml);
        self
    }

    pub(crate) const fn flag(mut self, name: &'static str, value_name: &'static str) -> Self {
        self.row.flag = Some(Flag { name, value_name });
        self
    }

    pub(crate) const fn dyn_env(mut self, variable: &'static str) -> Self {
        self.row.dyn_env = Some(variable);
        self
    }

    pub(crate) const fn standard_env(mut self, variable: &'static str) -> Self {
        self.row.standard_env = Some(variable);
        self
    }

    pub(crate) const fn lenient(mut self) -> Self {
        self.row.is_lenient = true;
        self
    }
}

// === impl Row ===

impl Row {
    /// The environment variable that sets the key: its path joined by `_`.
    pub(crate) fn env(&self) -> String {
        format!("KVROUTE_{}", self.key.replace('.', "_").to_uppercase())
    }

    /// What values look like.
    pub(crate) fn expected(&self) -> String {
        described(self.expected, self.choices)
    }

    /// True for keys of `[[pool.worker]]`, which only the file and `--worker` can set.
    pub(crate) fn is_worker(&self) -> bool {
        self.key.starts_with("pool.worker.")
    }

    /// True for keys of `[[pool]]` itself.
    pub(crate) fn is_pool(&self) -> bool {
        self.key.starts_with("pool.") && !self.is_worker()
    }
}
