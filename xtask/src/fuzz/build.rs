//! The instrumented build of the fuzz targets.
//!
//! Only the crates of this project are instrumented: they are what the fuzzer should explore, and their dependencies are
//! many times larger. With everything instrumented and optimised the build takes five times as long and the targets run
//! hardly faster.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::cache::{cargo, target_folder};
use crate::shell::{command, output, root, run};

const MANIFEST: [&str; 2] = ["--manifest-path", "fuzz/Cargo.toml"];

/// What `cargo fuzz` builds with: the address sanitizer, and coverage of edges and of compared values. No warnings, as
/// everywhere.
const FLAGS: [&str; 9] = [
    "-Dwarnings",
    "--cfg=fuzzing",
    "-Zsanitizer=address",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-simplifycfg-branch-fold-threshold=0",
];

/// Where the built targets are.
pub(super) struct Binaries {
    folder: PathBuf,
}

/// Names of all targets: a file each.
pub(super) fn targets() -> Result<Vec<String>> {
    let folder = root().join("fuzz/fuzz_targets");
    let entries = fs::read_dir(&folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    let files = entries.collect::<Result<Vec<_>, _>>()?.into_iter().map(|entry| entry.path());
    let mut names: Vec<String> =
        files.filter_map(|file| Some(file.file_stem()?.to_str()?.to_owned())).collect();
    names.sort();
    Ok(names)
}

/// Builds these targets.
pub(super) fn build(targets: &[String]) -> Result<Binaries> {
    let folder = target_folder()?.join("fuzz");
    let mut cargo = cargo("build")?;
    cargo.args(MANIFEST).arg("--locked");
    cargo.args(targets.iter().flat_map(|target| ["--bin", target]));
    cargo.arg("-Zprofile-rustflags");
    for package in own_packages()? {
        cargo.arg("--config");
        cargo.arg(format!("profile.dev.package.{package}.rustflags={FLAGS:?}"));
    }
    // What these flags ask for is in every toolchain, but only nightly ones show it unasked.
    cargo.env("RUSTC_BOOTSTRAP", "1").env("CARGO_TARGET_DIR", &folder);
    run(&mut cargo)?;
    Ok(Binaries { folder: folder.join("debug") })
}

/// Packages that come from this checkout.
fn own_packages() -> Result<Vec<String>> {
    let metadata =
        output(command("cargo").arg("metadata").args(MANIFEST).args(["--format-version", "1", "--locked"]))?;
    let metadata: Value =
        serde_json::from_str(&metadata).context("cargo metadata wrote something else than JSON")?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let own = packages.iter().filter(|package| package["source"].is_null());
    Ok(own.filter_map(|package| Some(package["name"].as_str()?.to_owned())).collect())
}

// === impl Binaries ===

impl Binaries {
    pub(super) fn path(&self, target: &str) -> PathBuf {
        self.folder.join(target)
    }
}
