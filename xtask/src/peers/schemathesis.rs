//! The fuzzer of APIs that the router's own OpenAPI document is held against: an environment of its own, because what it
//! depends on is no business of the others.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::cache::Cache;
use crate::shell::{command, run, run_logged};

/// What is installed.
pub(super) const PACKAGE: &str = "schemathesis==4.32.5";

/// Its program.
pub(super) fn set_up(cache: &Cache) -> Result<PathBuf> {
    let entry = cache.entry("schemathesis", PACKAGE, make)?;
    Ok(entry.join("bin/st"))
}

fn make(entry: &Path) -> Result<()> {
    run(command("python3").args(["-m", "venv"]).arg(entry))
        .context("python3 with its venv module is needed")?;
    let mut install = command(entry.join("bin/python"));
    install.args(["-m", "pip", "install", "--disable-pip-version-check", PACKAGE]);
    run_logged(&mut install, &entry.join("install.log"))
}
