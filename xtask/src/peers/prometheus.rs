//! Prometheus and promtool.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::debian::Package;
use crate::cache::Cache;
use crate::shell::{command, output};

const PACKAGE: Package = Package { name: "prometheus", programs: &["prometheus", "promtool"] };

/// The folder with both programs.
pub(super) fn set_up(cache: &Cache) -> Result<PathBuf> {
    PACKAGE.set_up(cache)
}

/// Name and version, as the program tells them.
pub(super) fn version(folder: &Path) -> String {
    let told = output(command(folder.join("prometheus")).arg("--version")).unwrap_or_default();
    told.split(" (").next().unwrap_or_default().replace(", version ", " ")
}
