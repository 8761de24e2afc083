//! Running other programs, with errors that name the command.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The root of the checkout.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// A command that starts in the root of the checkout.
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root()).stdin(Stdio::null());
    command
}

/// Runs `command` with its output on the terminal; anything but success is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{command:?} cannot be started"))?;
    if !status.success() {
        bail!("{} failed ({status})", described(command));
    }
    Ok(())
}

/// Runs `command` and returns what it wrote to its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    command.stderr(Stdio::inherit());
    let output = command.output().with_context(|| format!("{command:?} cannot be started"))?;
    if !output.status.success() {
        bail!("{} failed ({})", described(command), output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("{command:?} wrote something that is not text"))
}

/// Runs `command` with all its output in `log`, for long builds that nobody reads unless they fail.
pub(crate) fn run_logged(command: &mut Command, log: &Path) -> Result<()> {
    let file = std::fs::OpenOptions::new().create(true).append(true).open(log);
    let file = file.with_context(|| format!("{} cannot be written", log.display()))?;
    command.stdout(file.try_clone()?).stderr(file);
    run(command).with_context(|| format!("see {}", log.display()))
}

/// The program and its arguments as typed, without the environment.
fn described(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
