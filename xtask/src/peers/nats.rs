//! The NATS server that replicas of the router share what they learned over.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::debian::Package;
use crate::cache::Cache;
use crate::shell::{command, output};

const PROGRAM: &str = "nats-server";

const PACKAGE: Package = Package { name: PROGRAM, programs: &[PROGRAM] };

/// The program.
pub(super) fn set_up(cache: &Cache) -> Result<PathBuf> {
    Ok(PACKAGE.set_up(cache)?.join(PROGRAM))
}

/// Name and version, as the program tells them.
pub(super) fn version(program: &Path) -> String {
    let told = output(command(program).arg("--version")).unwrap_or_default();
    told.trim().replace(": v", " ")
}
