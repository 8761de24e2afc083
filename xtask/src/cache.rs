//! The folder outside the checkout that survives a fresh clone: `KVROUTE_CACHE`, by default `~/.cache/kvroute`.
//!
//! Each entry is a folder with a stamp, written last, that holds the recipe it was made by. An entry whose stamp is missing
//! (an interrupted set-up) or different (a newer recipe) is thrown away and made again, so a cache never has to be
//! repaired by hand.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell::command;

/// The cache folder, locked against other set-ups for as long as the value lives.
pub(crate) struct Cache {
    folder: PathBuf,
    _lock: File,
}

// === impl Cache ===

impl Cache {
    /// Opens the cache, creating it if needed, and waits for a set-up of another process to finish.
    pub(crate) fn open() -> Result<Self> {
        Self::at(folder()?)
    }

    fn at(folder: PathBuf) -> Result<Self> {
        fs::create_dir_all(&folder).with_context(|| format!("{} cannot be created", folder.display()))?;
        let lock = File::create(folder.join("lock")).context("the cache's lock cannot be created")?;
        lock.lock().context("the cache cannot be locked")?;
        Ok(Self { folder, _lock: lock })
    }

    /// The entry `name` as `recipe` describes it, made by `make` (which gets the empty folder) unless it is there.
    pub(crate) fn entry(
        &self,
        name: &str,
        recipe: &str,
        make: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let entry = self.folder.join(name);
        let stamp = entry.join("stamp");
        if fs::read_to_string(&stamp).is_ok_and(|made_by| made_by == recipe) {
            return Ok(entry);
        }
        eprintln!("setting up {name} in {}", entry.display());
        let entry = fresh_folder(entry)?;
        make(&entry).with_context(|| format!("{name} could not be set up"))?;
        fs::write(stamp, recipe)?;
        Ok(entry)
    }
}

/// `cargo SUBCOMMAND`, building into the cache unless `CARGO_TARGET_DIR` names another folder.
pub(crate) fn cargo(subcommand: &str) -> Result<Command> {
    let mut cargo = command("cargo");
    cargo.arg(subcommand).env("CARGO_TARGET_DIR", target_folder()?);
    Ok(cargo)
}

/// Where cargo builds: in the cache unless `CARGO_TARGET_DIR` names another folder.
pub(crate) fn target_folder() -> Result<PathBuf> {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => std::path::absolute(PathBuf::from(folder)).context("CARGO_TARGET_DIR is not a path"),
        None => Ok(folder()?.join("target")),
    }
}

/// The folder, with nothing in it of an earlier time.
pub(crate) fn fresh_folder(folder: PathBuf) -> Result<PathBuf> {
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("{} cannot be removed", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("{} cannot be created", folder.display()))?;
    Ok(folder)
}

fn folder() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("KVROUTE_CACHE") {
        return std::path::absolute(PathBuf::from(folder)).context("KVROUTE_CACHE is not a path");
    }
    let home = std::env::var_os("HOME")
        .context("neither KVROUTE_CACHE nor HOME is set; set KVROUTE_CACHE to a folder")?;
    Ok(PathBuf::from(home).join(".cache/kvroute"))
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn an_entry_is_made_again_only_when_its_recipe_changes() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().into()).unwrap();
        let make = |text: &'static str| move |entry: &Path| Ok(fs::write(entry.join("made"), text)?);
        let made = |entry: PathBuf| fs::read_to_string(entry.join("made")).unwrap();

        assert_eq!(made(cache.entry("peer", "one", make("first")).unwrap()), "first");
        assert_eq!(made(cache.entry("peer", "one", make("second")).unwrap()), "first");
        assert_eq!(made(cache.entry("peer", "two", make("third")).unwrap()), "third");
    }

    #[test]
    fn what_a_failed_set_up_left_is_thrown_away() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().into()).unwrap();
        let broken = cache.entry("peer", "one", |entry| {
            fs::write(entry.join("half"), "")?;
            bail!("interrupted")
        });
        assert!(broken.is_err());

        let entry = cache.entry("peer", "one", |_| Ok(())).unwrap();
        assert!(!entry.join("half").exists());
    }
}
