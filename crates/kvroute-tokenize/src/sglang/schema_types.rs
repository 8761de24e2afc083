//! Types of JSON Schema under the names that databases give them.
//!
//! SGLang rewrites them before it checks a tool's parameters, and the template then prints what was rewritten.

use crate::tree::{Members, Tree};

const STANDARD: [&str; 7] = ["string", "integer", "number", "boolean", "array", "object", "null"];

/// Names that stand for a standard type.
const SYNONYMS: [(&str, &[&str]); 6] = [
    (
        "string",
        &[
            "str",
            "text",
            "varchar",
            "char",
            "enum",
            "uuid",
            "date",
            "datetime",
            "time",
            "timestamp",
            "binary",
            "blob",
            "bytea",
            "bytes",
            "varbinary",
        ],
    ),
    ("boolean", &["bool"]),
    ("integer", &["bigint", "smallint", "tinyint"]),
    ("number", &["double", "decimal", "real", "numeric"]),
    ("array", &["arr", "tuple", "set"]),
    ("object", &["map"]),
];

/// Names that stand for a standard type alone or in front of a digit, a bracket or a blank.
const PREFIXES: [(&str, &[&str]); 4] = [
    ("integer", &["int", "uint", "long", "short", "unsigned"]),
    ("number", &["num", "float"]),
    ("array", &["list"]),
    ("object", &["dict"]),
];

/// Members whose values are maps of schemas.
const MAPS: [&str; 5] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/// Members whose values are lists of schemas.
const LISTS: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];
/// Members whose values are a schema or a list of them.
const SCHEMAS: [&str; 10] = [
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// A schema with the standard names in the place of others.
pub(super) fn with_standard_types(schema: Tree) -> Tree {
    match schema {
        Tree::List(items) => Tree::List(items.into_iter().map(with_standard_types).collect()),
        Tree::Map(members) => Tree::Map(members.map_members(rewritten_member)),
        other => other,
    }
}

fn rewritten_member(name: &str, value: Tree) -> Tree {
    match value {
        Tree::Text(kind) if name == "type" => Tree::Text(standard_type(kind)),
        Tree::List(kinds) if name == "type" => Tree::List(distinct_types(kinds)),
        Tree::Map(schemas) if MAPS.contains(&name) => {
            Tree::Map(Members::map_values(schemas, with_standard_types))
        }
        list @ Tree::List(_) if LISTS.contains(&name) => with_standard_types(list),
        schema if SCHEMAS.contains(&name) => with_standard_types(schema),
        other => other,
    }
}

fn distinct_types(kinds: Vec<Tree>) -> Vec<Tree> {
    let mut distinct = Vec::with_capacity(kinds.len());
    for kind in kinds {
        let standard = match kind {
            Tree::Text(text) => Tree::Text(standard_type(text)),
            other => other,
        };
        if !distinct.contains(&standard) {
            distinct.push(standard);
        }
    }
    distinct
}

fn standard_type(written: String) -> String {
    if STANDARD.contains(&written.as_str()) {
        return written;
    }
    let base = written.split('(').next().unwrap_or_default().trim().to_lowercase();
    if STANDARD.contains(&base.as_str()) {
        return base;
    }
    let synonym = SYNONYMS.iter().find(|(_, names)| names.contains(&base.as_str()));
    let by_prefix =
        || PREFIXES.iter().find(|(_, prefixes)| prefixes.iter().any(|prefix| begins(&base, prefix)));
    let found = synonym.or_else(by_prefix).map(|(standard, _)| *standard);
    found.map_or(written, str::to_owned)
}

fn begins(base: &str, prefix: &str) -> bool {
    base.strip_prefix(prefix).is_some_and(|rest| {
        rest.is_empty() || rest.starts_with(|next: char| next.is_ascii_digit() || "[<( \t".contains(next))
    })
}
