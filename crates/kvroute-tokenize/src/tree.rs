//! JSON as Python's `json.loads` reads it.
//!
//! Integers and floats stay apart (`1` and `1.0` print differently), integers may exceed 64 bits, a repeated
//! key keeps its first place and its last value, and members keep their order.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use kvroute_openai::{JsonError, JsonKind, JsonReader, RawJson};
use minijinja::Value;

use crate::python::printed;

/// One JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Tree {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number without fraction and exponent.
    Int(i128),
    /// Any other number.
    Float(f64),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Tree>),
    /// An object.
    Map(Members),
}

/// The members of an object, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Members(Vec<(String, Tree)>);

/// JSON that cannot be kept as it is.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TreeError {
    #[error("{0}")]
    Syntax(#[from] JsonError),
    #[error("the whole number {0} has more digits than can be rendered as the engine does")]
    TooLarge(String),
}

// === impl TreeError ===

impl TreeError {
    /// Whether the text may be JSON for the engine, and is not read here all the same.
    pub(crate) const fn is_unread(&self) -> bool {
        match self {
            Self::Syntax(error) => error.is_too_deep(),
            Self::TooLarge(_) => true,
        }
    }
}

// === impl Tree ===

impl Tree {
    /// Reads a whole JSON text.
    pub(crate) fn parse(text: &str) -> Result<Self, TreeError> {
        let mut reader = JsonReader::new(text);
        let tree = Self::read(&mut reader)?;
        reader.finish()?;
        Ok(tree)
    }

    /// Reads a part of a request.
    ///
    /// # Errors
    /// Says why the part cannot be rendered.
    pub(crate) fn read_part(raw: &RawJson) -> Result<Self, String> {
        Self::parse(raw.as_str()).map_err(|error| format!("a part of the chat cannot be rendered: {error}"))
    }

    /// Reads a part of a request that is an array; anything else is an empty one.
    ///
    /// # Errors
    /// Says why the part cannot be rendered.
    pub(crate) fn list_of(raw: &RawJson) -> Result<Vec<Self>, String> {
        match Self::read_part(raw)? {
            Self::List(items) => Ok(items),
            _ => Ok(Vec::new()),
        }
    }

    /// The text of a string.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    fn read(reader: &mut JsonReader<'_>) -> Result<Self, TreeError> {
        Ok(match reader.kind()? {
            JsonKind::Null => {
                reader.null()?;
                Self::Null
            }
            JsonKind::Bool => Self::Bool(reader.bool()?),
            JsonKind::Number => Self::number(reader.number()?)?,
            JsonKind::String => Self::Text(reader.string()?.into_owned()),
            JsonKind::Array => {
                let mut items = Vec::new();
                reader.array(|inner| {
                    items.push(Self::read(inner)?);
                    Ok::<(), TreeError>(())
                })?;
                Self::List(items)
            }
            JsonKind::Object => Self::Map(Members::read(reader)?),
        })
    }

    fn number(written: &str) -> Result<Self, TreeError> {
        if written.contains(['.', 'e', 'E']) {
            return Ok(Self::Float(written.parse().unwrap_or(f64::NAN)));
        }
        written.parse().map(Self::Int).map_err(|_| TreeError::TooLarge(written.to_owned()))
    }
}

impl From<Tree> for Value {
    fn from(tree: Tree) -> Self {
        match tree {
            Tree::Null => Self::from(()),
            Tree::Bool(value) => Self::from(value),
            Tree::Int(number) => i64::try_from(number).map_or_else(|_| Self::from(number), Self::from),
            Tree::Float(number) => Self::from(number),
            Tree::Text(text) => Self::from(text),
            Tree::List(items) => printed(items.into_iter().map(Self::from).collect()),
            Tree::Map(members) => printed(Self::from_pairs(members.0)),
        }
    }
}

// === impl Members ===

impl Members {
    /// Reads an object. The places are remembered, so that one with very many members takes no quadratic time.
    fn read(reader: &mut JsonReader<'_>) -> Result<Self, TreeError> {
        let mut members = Vec::new();
        let mut places = HashMap::new();
        reader.object(|inner, key| {
            let value = Tree::read(inner)?;
            match places.entry(key.to_owned()) {
                Entry::Occupied(place) => members[*place.get()] = (place.key().clone(), value),
                Entry::Vacant(place) => {
                    members.push((place.key().clone(), value));
                    place.insert(members.len() - 1);
                }
            }
            Ok::<(), TreeError>(())
        })?;
        Ok(Self(members))
    }

    /// The value of a member that is there and not null.
    pub(crate) fn get(&self, key: &str) -> Option<&Tree> {
        let found = self.0.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value).filter(|value| **value != Tree::Null)
    }

    /// Whether there is a member, be it null.
    pub(crate) fn contains(&self, key: &str) -> bool {
        self.0.iter().any(|(name, _)| name == key)
    }

    /// The value of a member that is there, to be changed.
    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut Tree> {
        self.0.iter_mut().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Takes a member out, if it is there and not null.
    pub(crate) fn take(&mut self, key: &str) -> Option<Tree> {
        let place = self.0.iter().position(|(name, _)| name == key)?;
        Some(self.0.remove(place).1).filter(|value| *value != Tree::Null)
    }

    /// Sets a member: in its place if it is there, else at the end.
    pub(crate) fn set(&mut self, key: &str, value: Tree) {
        match self.0.iter_mut().find(|(name, _)| name == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }

    /// Sets a member only if there is a value.
    pub(crate) fn set_some(&mut self, key: &str, value: Option<Tree>) {
        if let Some(some) = value {
            self.set(key, some);
        }
    }
}

impl Members {
    /// Every value by a function of its own value.
    pub(crate) fn map_values(self, change: impl Fn(Tree) -> Tree) -> Self {
        self.map_members(|_, value| change(value))
    }

    /// Every value by a function of its name and value.
    pub(crate) fn map_members(self, change: impl Fn(&str, Tree) -> Tree) -> Self {
        let changed = self.0.into_iter().map(|(name, value)| {
            let new = change(&name, value);
            (name, new)
        });
        Self(changed.collect())
    }
}

impl Extend<(String, Tree)> for Members {
    fn extend<T: IntoIterator<Item = (String, Tree)>>(&mut self, members: T) {
        for (name, value) in members {
            self.set(&name, value);
        }
    }
}

impl IntoIterator for Members {
    type Item = (String, Tree);
    type IntoIter = std::vec::IntoIter<(String, Tree)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_kind_and_size() {
        assert_eq!(
            Tree::parse("12345678901234567890123").unwrap(),
            Tree::Int(12_345_678_901_234_567_890_123)
        );
        assert_eq!(Tree::parse("1.0").unwrap(), Tree::Float(1.0));
        assert_eq!(Tree::parse("1e3").unwrap(), Tree::Float(1000.0));
        assert_eq!(Tree::parse("-0").unwrap(), Tree::Int(0));
        let error = Tree::parse(&"9".repeat(60)).unwrap_err().to_string();
        assert!(error.contains("more digits"), "{error}");
    }

    #[test]
    fn a_repeated_key_keeps_its_first_place_and_its_last_value() {
        let Tree::Map(members) = Tree::parse(r#"{"a":1,"b":2,"a":3}"#).unwrap() else { panic!("no map") };
        assert_eq!(members.0, [("a".to_owned(), Tree::Int(3)), ("b".to_owned(), Tree::Int(2))]);
    }
}
