//! `cargo xtask dist`: the binary that is packaged, laid out by what a run of it does.
//!
//! The work for one request goes once through a great deal of code and hardly ever in circles, so that it matters more where
//! that code lies than how much of it there is. One build counts what it does while it serves; the next one puts together
//! what was used and keeps the rest out of the way (profile-guided optimisation).

mod training;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::cache::{cargo, fresh_folder, target_folder};
use crate::shell::{command, output, run};

/// Builds the binary and prints where it is.
pub(crate) fn run_all() -> Result<()> {
    let folder = target_folder()?.join("counted");
    let profile = folder.join("kvroute.profdata");
    let profdata = llvm_profdata()?;
    println!("\n1. a build that counts what it does");
    let counting = build(&folder.join("counting"), "-Cprofile-generate")?;
    println!("\n2. a run of it");
    let counts = training::train(&counting, &fresh_folder(folder.join("runs"))?)?;
    run(command(&profdata).arg("merge").arg("-o").arg(&profile).args(counts))?;
    println!("\n3. the build that goes by the counts");
    let built = build(&target_folder()?, &format!("-Cprofile-use={}", profile.display()))?;
    println!("\n{}", built.display());
    Ok(())
}

/// The toolchain's own, because it must know the format of its compiler.
fn llvm_profdata() -> Result<PathBuf> {
    let added = run(command("rustup").args(["component", "add", "llvm-tools"]));
    added.context("llvm-tools of the toolchain are needed; install rustup, or the component by hand")?;
    let libraries = output(command("rustc").args(["--print", "target-libdir"]))?;
    let tools =
        Path::new(libraries.trim()).parent().context("rustc names no folder of libraries")?.join("bin");
    Ok(tools.join("llvm-profdata"))
}

/// With a target named, flags are for the binary alone and not for what only its build runs.
fn build(folder: &Path, flags: &str) -> Result<PathBuf> {
    let target = output(command("rustc").args(["--print", "host-tuple"]))?;
    let mut cargo: Command = cargo("build")?;
    cargo.args(["--profile", "dist", "--package", "kvroute", "--locked", "--target", target.trim()]);
    run(cargo.env("CARGO_TARGET_DIR", folder).env("RUSTFLAGS", flags))?;
    Ok(folder.join(target.trim()).join("dist/kvroute"))
}
