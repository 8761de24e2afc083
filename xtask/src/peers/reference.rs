//! The libraries by which engines make token ids of a chat, to compare with: an environment of its own, because it is
//! large and changes with nothing else.

use std::path::PathBuf;

use anyhow::Result;

use super::python::environment;
use crate::cache::Cache;

/// What renders templates for engines, what it renders with, and the tokenizer library.
pub(super) const PACKAGES: [&str; 3] = ["transformers==5.15.1", "jinja2==3.1.6", "tokenizers==0.22.2"];

/// The Python that has them.
pub(super) fn set_up(cache: &Cache) -> Result<PathBuf> {
    let entry = cache.entry("reference", &PACKAGES.join(" "), |entry| environment(entry, &PACKAGES))?;
    Ok(entry.join("bin/python"))
}
