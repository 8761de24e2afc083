//! Prometheus and promtool, from Debian's package.
//!
//! Nothing is installed: apt only downloads, which every user may do, and the two programs are taken out of the package.
//! Where the system's package lists are missing, as in fresh containers, lists of our own are fetched for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cache::Cache;
use crate::shell::{command, output, run, run_logged};

/// The package that both programs come in.
const PACKAGE: &str = "prometheus";

const PROGRAMS: [&str; 2] = ["prometheus", "promtool"];

/// The folder with both programs.
pub(super) fn set_up(cache: &Cache) -> Result<PathBuf> {
    cache.entry("prometheus", &format!("{PACKAGE} of Debian, {}", std::env::consts::ARCH), make)
}

/// Name and version, as the program tells them.
pub(super) fn version(folder: &Path) -> String {
    let told = output(command(folder.join("prometheus")).arg("--version")).unwrap_or_default();
    told.split(" (").next().unwrap_or_default().replace(", version ", " ")
}

fn make(entry: &Path) -> Result<()> {
    let (log, unpacked) = (entry.join("install.log"), entry.join("unpacked"));
    download(entry, &log).context("apt-get of Debian or Ubuntu is needed")?;
    run(command("dpkg-deb").arg("-x").arg(archive(entry)?).arg(&unpacked)).context("dpkg-deb is needed")?;
    for program in PROGRAMS {
        fs::rename(unpacked.join("usr/bin").join(program), entry.join(program))
            .with_context(|| format!("the package has no {program}"))?;
    }
    fs::remove_dir_all(unpacked)?;
    fs::remove_file(archive(entry)?)?;
    Ok(())
}

/// By the system's package lists, or by lists of our own.
fn download(entry: &Path, log: &Path) -> Result<()> {
    let by_the_systems_lists = run_logged(apt(entry).args(["download", PACKAGE]), log);
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
    with_own_lists(&["download", PACKAGE])?;
    fs::remove_dir_all(state)?;
    Ok(())
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
