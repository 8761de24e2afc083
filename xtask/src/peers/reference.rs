//! The libraries by which engines make token ids of a chat, to compare with: an environment of its own, because it is
//! large and changes with nothing else.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::cache::Cache;
use crate::shell::{command, run, run_logged};

/// What renders templates for engines, what it renders with, and the tokenizer library.
pub(super) const PACKAGES: [&str; 3] = ["transformers==5.15.1", "jinja2==3.1.6", "tokenizers==0.22.2"];

/// The Python that has them.
pub(super) fn set_up(cache: &Cache) -> Result<PathBuf> {
    let entry = cache.entry("reference", &PACKAGES.join(" "), make)?;
    Ok(entry.join("bin/python"))
}

fn make(entry: &Path) -> Result<()> {
    run(command("python3").args(["-m", "venv"]).arg(entry))
        .context("python3 with its venv module is needed")?;
    let mut install = command(entry.join("bin/python"));
    install.args(["-m", "pip", "install", "--disable-pip-version-check"]).args(PACKAGES);
    run_logged(&mut install, &entry.join("install.log"))
}
