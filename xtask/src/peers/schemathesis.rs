//! The fuzzer of APIs that the router's own OpenAPI document is held against: an environment of its own, because what it
//! depends on is no business of the others.

use std::path::PathBuf;

use anyhow::Result;

use super::python::environment;
use crate::cache::Cache;

/// What is installed.
pub(super) const PACKAGE: &str = "schemathesis==4.32.5";

/// Its program.
pub(super) fn set_up(cache: &Cache) -> Result<PathBuf> {
    let entry = cache.entry("schemathesis", PACKAGE, |entry| environment(entry, &[PACKAGE]))?;
    Ok(entry.join("bin/st"))
}
