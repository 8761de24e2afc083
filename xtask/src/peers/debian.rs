//! Programs out of packages of Debian.
//!
//! Nothing is installed: apt only downloads, which every user may do, and the programs are taken out of the package.
//! Where the system's package lists are missing, as in fresh containers, lists of our own are fetched for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cache::Cache;
use crate::shell::{command, run, run_logged};

/// Where packages have programs.
const FOLDERS: [&str; 2] = ["usr/bin", "usr/sbin"];

/// A package, and what is taken out of it.
pub(super) struct Package {
    pub(super) name: &'static str,
    /// Their names; releases differ in the folder.
    pub(super) programs: &'static [&'static str],
}

// === impl Package ===

impl Package {
    /// The folder with the programs.
    pub(super) fn set_up(&self, cache: &Cache) -> Result<PathBuf> {
        let recipe = format!("{} of Debian, {}", self.name, std::env::consts::ARCH);
        cache.entry(self.name, &recipe, |entry| self.make(entry))
    }

    fn make(&self, entry: &Path) -> Result<()> {
        let (log, unpacked) = (entry.join("install.log"), entry.join("unpacked"));
        self.download(entry, &log).context("apt-get of Debian or Ubuntu is needed")?;
        run(command("dpkg-deb").arg("-x").arg(archive(entry)?).arg(&unpacked))
            .context("dpkg-deb is needed")?;
        for program in self.programs {
            let mut places = FOLDERS.iter().map(|folder| unpacked.join(folder).join(program));
            let place = places.find(|place| place.exists());
            fs::rename(place.with_context(|| format!("the package has no {program}"))?, entry.join(program))?;
        }
        fs::remove_dir_all(unpacked)?;
        fs::remove_file(archive(entry)?)?;
        Ok(())
    }

    /// By the system's package lists, or by lists of our own.
    fn download(&self, entry: &Path, log: &Path) -> Result<()> {
        let by_the_systems_lists = run_logged(apt(entry).args(["download", self.name]), log);
        if by_the_systems_lists.is_ok() {
            return Ok(());
        }
        let state = entry.join("apt");
        for folder in ["lists/partial", "archives/partial"] {
            fs::create_dir_all(state.join(folder))?;
        }
        let with_own_lists = |verb: &[&str]| {
            let mut apt = apt(entry);
            apt.arg("-o").arg(format!("Dir::State::Lists={}", state.join("lists").display()));
            apt.arg("-o").arg(format!("Dir::Cache={}", state.display()));
            run_logged(apt.args(verb), log)
        };
        with_own_lists(&["update"])?;
        with_own_lists(&["download", self.name])?;
        fs::remove_dir_all(state)?;
        Ok(())
    }
}

fn apt(entry: &Path) -> Command {
    let mut apt = command("apt-get");
    apt.arg("-qq").current_dir(entry);
    apt
}

fn archive(entry: &Path) -> Result<PathBuf> {
    let mut found = Vec::new();
    for file in fs::read_dir(entry)? {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            found.push(path);
        }
    }
    ensure!(found.len() == 1, "apt-get left {} packages in {}", found.len(), entry.display());
    Ok(found.remove(0))
}
